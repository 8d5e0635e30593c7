//! Making jobs: one, one of raw bytes, or many together.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use serde_json::{Map, Value};
use stokehold_domain::{Blob, EngineLimits};
use stokehold_queue::enqueue::{self as made, MAX_JOBS};
use stokehold_queue::{NewJob, QueueError};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::codes::Code;
use crate::extract::{
    BATCH_BYTES, IdempotencyKey, JsonBody, KindName, PathParam, QueryParams, RawBody,
    media_type_of, read_json,
};
use crate::gather;
use crate::new_job::{self, BYTES, MOST_PRIORITY, check_json, check_media_type, find_nul};
use crate::problem::ApiError;
use crate::server::ApiState;
use crate::wire::{self, Duplicate, EnqueueAnswer, Enqueued, EnqueuedBatch, JobBatch};

/// Says that a request was answered with what it came to the first time.
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

type Created = (StatusCode, HeaderMap, Json<Enqueued>);

pub(super) fn routes() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new()
        .routes(routes!(enqueue))
        .routes(routes!(enqueue_batch))
        .routes(routes!(enqueue_bytes))
}

/// Enqueue a job
///
/// When it is answered the job is committed and will run.
#[utoipa::path(
    post, path = "/v1/jobs", tag = "jobs", operation_id = "enqueue",
    request_body = wire::NewJob,
    params(
        ("idempotency-key" = Option<String>, Header,
            description = "1 to 255 visible characters: the same request again, within 7 days, makes nothing and \
                is answered as the first time"),
    ),
    extensions(("x-problem-codes" = json!([
        Code::KindUnknown, Code::JobDuplicate, Code::RequestRepeated
    ]))),
    responses(
        (
            status = 201, description = "The job was made.", body = Enqueued,
            headers(("location" = String, description = "Where the job is")),
        ),
        (status = 200, description = "Another job has its unique key.", body = Enqueued),
    ),
)]
async fn enqueue(
    State(state): State<ApiState>,
    key: IdempotencyKey,
    JsonBody(job): JsonBody<wire::NewJob>,
) -> Result<Created, ApiError> {
    let job = new_job::read(job, "")?;
    let made = one(&state, &key, job).await;
    Ok(created(made.map_err(|error| new_job::refused(error, |_| String::new()))?))
}

/// Enqueue many jobs
///
/// All or none, 10,000 at most. A problem points at the first job that is wrong.
#[utoipa::path(
    post, path = "/v1/jobs/batch", tag = "jobs", operation_id = "enqueueBatch",
    request_body = JobBatch,
    params(
        ("idempotency-key" = Option<String>, Header,
            description = "1 to 255 visible characters: the same request again, within 7 days, makes nothing and \
                is answered as the first time"),
    ),
    extensions(("x-problem-codes" = json!([
        Code::KindUnknown, Code::JobDuplicate, Code::RequestRepeated
    ]))),
    responses((
        status = 201, description = "All jobs were made, but for duplicates.", body = EnqueuedBatch
    )),
)]
async fn enqueue_batch(
    State(state): State<ApiState>,
    key: IdempotencyKey,
    request: Request,
) -> Result<(StatusCode, HeaderMap, Json<EnqueuedBatch>), ApiError> {
    let _place = state.large_body_place().await?;
    let batch: JobBatch = read_json(request, BATCH_BYTES).await?;
    if batch.jobs.len() > MAX_JOBS {
        let detail = format!("{} jobs; at most {MAX_JOBS} are taken at once", batch.jobs.len());
        return Err(ApiError::field("/jobs", detail));
    }
    let base = |index: usize| format!("/jobs/{index}");
    let jobs = batch.jobs.into_iter().enumerate();
    let jobs: Vec<NewJob> =
        jobs.map(|(n, job)| new_job::read(job, &base(n))).collect::<Result<_, _>>()?;
    let made = match key.repeatable() {
        Some(request) => state.database.enqueue_once(request, &jobs).await,
        None => state.database.enqueue_all(&jobs).await.map(|made| (made, false)),
    };
    let (made, repeated) = made.map_err(|error| new_job::refused(error, base))?;
    let duplicates = made.iter().enumerate().filter_map(|(index, made)| {
        let answer = EnqueueAnswer::from(*made);
        (answer != EnqueueAnswer::Inserted).then_some(Duplicate { index, answer })
    });
    let duplicates = duplicates.collect();
    let ids = made.iter().map(|made| made.id()).collect();
    Ok((StatusCode::CREATED, replayed(repeated), Json(EnqueuedBatch { ids, duplicates })))
}

/// Makes one job: at once under the request's key, or together with others that come at the same time.
async fn one(
    state: &ApiState,
    key: &IdempotencyKey,
    job: NewJob,
) -> Result<(made::Enqueued, bool), QueueError> {
    let Some(request) = key.repeatable() else {
        return Ok((state.gatherer.enqueue(job).await?, false));
    };
    let (made, repeated) = state.database.enqueue_once(request, &[job]).await?;
    let made = made.first().copied();
    Ok((made.ok_or_else(|| QueueError::Schema(gather::NO_ID.to_owned()))?, repeated))
}

fn replayed(repeated: bool) -> HeaderMap {
    let header = repeated.then_some((REPLAYED, HeaderValue::from_static("true")));
    header.into_iter().collect()
}

/// Enqueue a job whose payload is the body
///
/// The body's bytes are the payload, 1 MiB at most, and `content-type` is its media type
/// (`application/octet-stream` when there is none). Metadata goes into the query, one parameter
/// `meta.NAME=VALUE` a pair. A body that says it is JSON has to be JSON.
#[utoipa::path(
    post, path = "/v1/kinds/{kind}/jobs", tag = "jobs", operation_id = "enqueueBytes",
    params(
        ("kind" = String, Path, description = "The kind's name"),
        ("run_at" = Option<chrono::DateTime<chrono::Utc>>, Query,
            description = "Not before this time"),
        ("priority" = Option<i32>, Query, minimum = -1000, maximum = 1000,
            description = "Lower runs first; the kind's when absent"),
        ("max_attempts" = Option<i32>, Query, minimum = 1, maximum = 1000,
            description = "Tries in all; the kind's when absent"),
        ("meta.NAME" = Option<String>, Query, description = "Metadata NAME, any number of these"),
        ("idempotency-key" = Option<String>, Header,
            description = "1 to 255 visible characters: the same request again, within 7 days, makes nothing and \
                is answered as the first time"),
    ),
    request_body(content = inline(crate::openapi::Bytes), content_type = "*/*"),
    extensions(("x-problem-codes" = json!([
        Code::KindUnknown, Code::RequestJson, Code::RequestMediaType, Code::RequestRepeated
    ]))),
    responses((
        status = 201, description = "The job was made.", body = Enqueued,
        headers(("location" = String, description = "Where the job is")),
    )),
)]
async fn enqueue_bytes(
    State(state): State<ApiState>,
    PathParam(KindName(kind)): PathParam<KindName>,
    mut query: QueryParams,
    key: IdempotencyKey,
    headers: HeaderMap,
    RawBody(bytes): RawBody<{ EngineLimits::PAYLOAD_BYTES }>,
) -> Result<Created, ApiError> {
    let most = i64::from(MOST_PRIORITY);
    let priority = query.take_within("priority", -most..=most)?;
    let max_attempts = query.take_within("max_attempts", 1..=1000)?;
    let run_at = query.take("run_at")?;
    let metadata = metadata(query.take_prefixed("meta."))?;
    query.finish()?;

    let media_type = match headers.get(header::CONTENT_TYPE) {
        None => BYTES,
        Some(_) => media_type_of(&headers).unwrap_or_default(),
    };
    check_media_type(media_type).map_err(|why| ApiError::new(Code::RequestMediaType, why))?;
    let payload = Blob { media_type: media_type.to_owned(), bytes: bytes.into() };
    check_json(&payload).map_err(|error| {
        ApiError::new(Code::RequestJson, format!("The body is not JSON: {error}."))
            .hint("Send it with another `content-type` if it is not meant to be.")
    })?;
    let job = NewJob {
        run_at,
        // Within their ranges, as just seen.
        priority: priority.and_then(|number| number.try_into().ok()),
        max_attempts: max_attempts.and_then(|number| number.try_into().ok()),
        metadata,
        ..NewJob::new(kind, payload)
    };
    let made = one(&state, &key, job).await;
    let made =
        made.map_err(|error| new_job::refused(error, |_| String::new()).errors(Vec::new()))?;
    Ok(created(made))
}

/// Metadata from parameters of a query.
pub(super) fn metadata(pairs: Vec<(String, String)>) -> Result<Option<Value>, ApiError> {
    if pairs.is_empty() {
        return Ok(None);
    }
    let mut object = Map::new();
    for (name, value) in pairs {
        let parameter = format!("meta.{name}");
        if name.is_empty() || object.contains_key(&name) {
            return Err(ApiError::parameter(&parameter, "a name that stands once is wanted"));
        }
        object.insert(name, Value::String(value));
        if find_nul(&object, "").is_some() {
            let why = "the character U+0000 cannot be stored in PostgreSQL";
            return Err(ApiError::parameter(&parameter, why));
        }
    }
    Ok(Some(Value::Object(object)))
}

fn created((made, repeated): (made::Enqueued, bool)) -> Created {
    let (id, answer) = (made.id(), EnqueueAnswer::from(made));
    let status = match answer {
        EnqueueAnswer::Inserted => StatusCode::CREATED,
        EnqueueAnswer::Existing | EnqueueAnswer::Replaced => StatusCode::OK,
    };
    let mut headers = replayed(repeated);
    let location = HeaderValue::from_str(&format!("/v1/jobs/{id}"));
    headers.extend(location.ok().map(|location| (header::LOCATION, location)));
    (status, headers, Json(Enqueued { id, answer }))
}
