//! Making jobs: one, one of raw bytes, or many together.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use serde_json::{Map, Value};
use stokehold_domain::{Blob, EngineLimits, JobId};
use stokehold_queue::NewJob;
use stokehold_queue::enqueue::MAX_JOBS;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::codes::Code;
use crate::extract::{
    BATCH_BYTES, JsonBody, KindName, PathParam, QueryParams, RawBody, media_type_of, read_json,
};
use crate::new_job::{self, BYTES, MOST_PRIORITY, check_json, check_media_type, find_nul};
use crate::problem::ApiError;
use crate::server::ApiState;
use crate::wire::{self, Enqueued, EnqueuedBatch, JobBatch};

type Created = (StatusCode, [(HeaderName, String); 1], Json<Enqueued>);

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
    extensions(("x-problem-codes" = json!([Code::KindUnknown]))),
    responses((
        status = 201, description = "The job was made.", body = Enqueued,
        headers(("location" = String, description = "Where the job is")),
    )),
)]
async fn enqueue(
    State(state): State<ApiState>,
    JsonBody(job): JsonBody<wire::NewJob>,
) -> Result<Created, ApiError> {
    let job = new_job::read(job, "")?;
    let id = state.gatherer.enqueue(job).await;
    Ok(created(id.map_err(|error| new_job::refused(error, |_| String::new()))?))
}

/// Enqueue many jobs
///
/// All or none, 10,000 at most. A problem points at the first job that is wrong.
#[utoipa::path(
    post, path = "/v1/jobs/batch", tag = "jobs", operation_id = "enqueueBatch",
    request_body = JobBatch,
    extensions(("x-problem-codes" = json!([Code::KindUnknown]))),
    responses((status = 201, description = "All jobs were made.", body = EnqueuedBatch)),
)]
async fn enqueue_batch(
    State(state): State<ApiState>,
    request: Request,
) -> Result<(StatusCode, Json<EnqueuedBatch>), ApiError> {
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
    let ids = state.database.enqueue(&jobs).await;
    let ids = ids.map_err(|error| new_job::refused(error, base))?;
    Ok((StatusCode::CREATED, Json(EnqueuedBatch { ids })))
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
    ),
    request_body(content = inline(crate::openapi::Bytes), content_type = "*/*"),
    extensions(("x-problem-codes" = json!([
        Code::KindUnknown, Code::RequestJson, Code::RequestMediaType
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
    let id = state.gatherer.enqueue(job).await;
    let id = id.map_err(|error| new_job::refused(error, |_| String::new()).errors(Vec::new()))?;
    Ok(created(id))
}

fn metadata(pairs: Vec<(String, String)>) -> Result<Option<Value>, ApiError> {
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

fn created(id: JobId) -> Created {
    let location = [(header::LOCATION, format!("/v1/jobs/{id}"))];
    (StatusCode::CREATED, location, Json(Enqueued { id }))
}
