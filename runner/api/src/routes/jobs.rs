//! Jobs: list, look, wait, fetch the result, change, cancel.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use stokehold_domain::{Blob, JobId, JobState};
use stokehold_queue::{CancelAnswer, Edit, Edited, JobFilter, JobRecord};
use tokio::time::Instant;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::job_answers::summary;
use super::kinds;
use crate::codes::Code;
use crate::cursor;
use crate::extract::{JsonBody, OptionalJsonBody, PathParam, QueryParams};
use crate::new_job::{self, BYTES};
use crate::problem::ApiError;
use crate::server::ApiState;
use crate::wire::{Attempt, CancelRequest, Cancelled, Job, JobChange, JobPage, List, LogLine};

/// The longest wait for a job's end, in seconds.
pub(super) const MOST_WAIT_S: u64 = 60;
/// How long a waiting request pauses between two looks, at first and at most: short jobs are
/// answered quickly, long ones cost two index probes a second.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// The reason of whoever gives none.
pub(super) const CANCELLED_ON_REQUEST: &str = "cancelled on request";

pub(super) fn routes() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new()
        .routes(routes!(list_jobs))
        .routes(routes!(get_job, change_job))
        .routes(routes!(get_result))
        .routes(routes!(list_attempts))
        .routes(routes!(list_logs))
        .routes(routes!(cancel_job))
}

/// List jobs
///
/// Live and ended, newest first. Follow `next` for more; a job that changes its state in between is
/// neither missed nor shown twice.
#[utoipa::path(
    get, path = "/v1/jobs", tag = "jobs", operation_id = "listJobs",
    params(
        ("kind" = Option<String>, Query, description = "Only of this kind"),
        ("state" = Option<Vec<String>>, Query,
            description = "Only in these states: one parameter each, or a list with commas"),
        ("tag" = Option<Vec<String>>, Query,
            description = "Only with this tag; several: with each of them"),
        ("meta.NAME" = Option<String>, Query,
            description = "Only with this text as metadata NAME; looked for in the newest 100,000 jobs that the \
                other parameters leave"),
        ("limit" = Option<u16>, Query, minimum = 1, maximum = 500, description = "50 when absent"),
        ("cursor" = Option<String>, Query, description = "The `next` of the page before"),
    ),
    extensions(("x-problem-codes" = json!([Code::RequestCursor, Code::KindUnknown]))),
    responses((status = 200, description = "A page of jobs.", body = JobPage)),
)]
async fn list_jobs(
    State(state): State<ApiState>,
    mut query: QueryParams,
) -> Result<Json<JobPage>, ApiError> {
    let limit = query.take_within("limit", 1..=500)?.unwrap_or(50);
    let before = query.take_text("cursor")?.map(|text| cursor::decode(&text)).transpose()?;
    let states = states(&query.take_all("state"))?;
    let kind = query.take_text("kind")?;
    let tags = query.take_all("tag");
    let metadata = super::enqueue::metadata(query.take_prefixed("meta."))?;
    query.finish()?;
    let kind = match kind {
        None => None,
        Some(name) => {
            stokehold_domain::check_name("kind", &name)
                .map_err(|error| ApiError::parameter("kind", error.to_string()))?;
            Some(kinds::find(&state, &name).await?.id)
        }
    };
    // One more than asked for tells whether there is another page.
    let filter = JobFilter { kind, states, tags, metadata, before };
    let mut jobs = state.database.jobs(&filter, limit + 1).await?;
    let more = jobs.len() as i64 > limit;
    jobs.truncate(limit as usize);
    let next = jobs.last().filter(|_| more).map(|job| cursor::encode(job.id));
    let ids: Vec<_> = jobs.iter().map(|job| job.kind_id).collect();
    let names = state.kind_names.of(&state.database, &ids).await?;
    let items = jobs.into_iter().zip(names).map(|(job, kind)| summary(job, kind)).collect();
    Ok(Json(JobPage { items, next }))
}

fn states(texts: &[String]) -> Result<Vec<JobState>, ApiError> {
    texts
        .iter()
        .flat_map(|text| text.split(','))
        .map(|word| {
            word.parse().map_err(|error: stokehold_domain::state::UnknownState| {
                ApiError::parameter("state", error.to_string())
            })
        })
        .collect()
}

/// Look at a job
///
/// With `wait`, the answer comes when the job has ended, or with what there is when the time is
/// over.
#[utoipa::path(
    get, path = "/v1/jobs/{id}", tag = "jobs", operation_id = "getJob",
    params(
        ("id" = String, Path, description = "The job's id"),
        ("wait" = Option<u16>, Query, minimum = 0, maximum = 60,
            description = "Seconds to wait for the job's end"),
    ),
    extensions(("x-problem-codes" = json!([Code::JobUnknown]))),
    responses((status = 200, description = "The job.", body = Job)),
)]
async fn get_job(
    State(state): State<ApiState>,
    PathParam(id): PathParam<JobId>,
    mut query: QueryParams,
) -> Result<Json<Job>, ApiError> {
    let wait = query.take_within("wait", 0..=MOST_WAIT_S as i64)?.unwrap_or_default();
    query.finish()?;
    wait_for_end(&state, id, Duration::from_secs(wait.unsigned_abs())).await?;
    Ok(Json(find(&state, id).await?.into()))
}

/// Returns when the job has ended, when it never was, when the time is over or when the server
/// stops. No connection is held between two looks.
async fn wait_for_end(state: &ApiState, id: JobId, wait: Duration) -> Result<(), ApiError> {
    let deadline = Instant::now() + wait;
    let mut pause = FIRST_PAUSE;
    while Instant::now() < deadline && state.database.is_live(id).await? {
        let until = deadline.min(Instant::now() + pause);
        tokio::select! {
            () = tokio::time::sleep_until(until) => {}
            () = state.stopping.cancelled() => break,
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
    Ok(())
}

/// Fetch a job's result
///
/// The bytes as the handler returned them, with its media type, always as an attachment.
#[utoipa::path(
    get, path = "/v1/jobs/{id}/result", tag = "jobs", operation_id = "getResult",
    params(("id" = String, Path, description = "The job's id")),
    extensions(("x-problem-codes" = json!([
        Code::JobUnknown, Code::JobNotFinished, Code::JobNoResult
    ]))),
    responses((
        status = 200, description = "The result.",
        body = inline(crate::openapi::Bytes), content_type = "*/*",
    )),
)]
async fn get_result(
    State(state): State<ApiState>,
    PathParam(id): PathParam<JobId>,
) -> Result<Response, ApiError> {
    let job = find(&state, id).await?;
    let now = job.summary.state;
    match job.result {
        Some(result) => Ok(attachment(id, result)),
        None if now.is_final() => {
            Err(ApiError::new(Code::JobNoResult, format!("Job {id} is {now} without a result.")))
        }
        None => Err(ApiError::new(Code::JobNotFinished, format!("Job {id} is {now}."))
            .hint(format!("Wait for its end with `GET /v1/jobs/{id}?wait=60`."))),
    }
}

/// A handler's bytes, never shown in place: they could be a page with scripts.
fn attachment(id: JobId, result: Blob) -> Response {
    let media_type = HeaderValue::from_str(&result.media_type)
        .unwrap_or_else(|_| HeaderValue::from_static(BYTES));
    let name = format!("attachment; filename=\"job-{id}\"");
    let headers = [
        (header::CONTENT_TYPE, media_type),
        (
            header::CONTENT_DISPOSITION,
            HeaderValue::from_str(&name).unwrap_or(HeaderValue::from_static("attachment")),
        ),
    ];
    (headers, result.bytes).into_response()
}

/// List the attempts of a job
///
/// In order, the running one included, at most 1,000.
#[utoipa::path(
    get, path = "/v1/jobs/{id}/attempts", tag = "jobs", operation_id = "listAttempts",
    params(("id" = String, Path, description = "The job's id")),
    extensions(("x-problem-codes" = json!([Code::JobUnknown]))),
    responses((status = 200, description = "The attempts.", body = List<Attempt>)),
)]
async fn list_attempts(
    State(state): State<ApiState>,
    PathParam(id): PathParam<JobId>,
) -> Result<Json<List<Attempt>>, ApiError> {
    let attempts = state.database.attempts(id).await?;
    if attempts.is_empty() {
        find(&state, id).await?;
    }
    Ok(Json(attempts.into_iter().map(Attempt::from).collect()))
}

/// Read what a job's attempts logged
///
/// In order, the newest lines when there are more than `limit`.
#[utoipa::path(
    get, path = "/v1/jobs/{id}/logs", tag = "jobs", operation_id = "listLogs",
    params(
        ("id" = String, Path, description = "The job's id"),
        ("limit" = Option<u16>, Query, minimum = 1, maximum = 10000,
            description = "1000 when absent"),
    ),
    extensions(("x-problem-codes" = json!([Code::JobUnknown]))),
    responses((status = 200, description = "The lines.", body = List<LogLine>)),
)]
async fn list_logs(
    State(state): State<ApiState>,
    PathParam(id): PathParam<JobId>,
    mut query: QueryParams,
) -> Result<Json<List<LogLine>>, ApiError> {
    let limit = query.take_within("limit", 1..=10_000)?.unwrap_or(1_000);
    query.finish()?;
    let lines = state.database.logs(id, limit as usize).await?;
    if lines.is_empty() {
        find(&state, id).await?;
    }
    Ok(Json(lines.into_iter().map(LogLine::from).collect()))
}

/// Cancel a job
///
/// One that waits is cancelled at once. One that runs is stopped by its node, within a second or two, and is
/// cancelled unless it ends by itself first.
#[utoipa::path(
    post, path = "/v1/jobs/{id}/cancel", tag = "jobs", operation_id = "cancelJob",
    params(("id" = String, Path, description = "The job's id")),
    request_body = Option<CancelRequest>,
    extensions(("x-problem-codes" = json!([Code::JobUnknown, Code::JobEnded]))),
    responses(
        (status = 200, description = "The job is cancelled.", body = Cancelled),
        (status = 202, description = "The job runs, and its node is told to stop it.", body = Cancelled),
    ),
)]
async fn cancel_job(
    State(state): State<ApiState>,
    PathParam(id): PathParam<JobId>,
    OptionalJsonBody(request): OptionalJsonBody<CancelRequest>,
) -> Result<(StatusCode, Json<Cancelled>), ApiError> {
    let reason = request.reason.as_deref().unwrap_or(CANCELLED_ON_REQUEST);
    match state.database.cancel(id, reason).await? {
        CancelAnswer::Cancelled => {
            Ok((StatusCode::OK, Json(Cancelled { id, state: JobState::Cancelled })))
        }
        CancelAnswer::Requested => {
            Ok((StatusCode::ACCEPTED, Json(Cancelled { id, state: JobState::Running })))
        }
        CancelAnswer::Ended(state) => {
            Err(ApiError::new(Code::JobEnded, format!("Job {id} is {state} already.")))
        }
        CancelAnswer::Unknown => Err(unknown(id)),
    }
}

/// Change a job that waits
///
/// When it runs, how urgently, how often it is tried, with what: all that is given, or nothing. What runs or has
/// ended is not changed.
#[utoipa::path(
    patch, path = "/v1/jobs/{id}", tag = "jobs", operation_id = "changeJob",
    params(("id" = String, Path, description = "The job's id")),
    request_body = JobChange,
    extensions(("x-problem-codes" = json!([
        Code::JobUnknown, Code::JobRuns, Code::JobEnded, Code::ReleaseUnknown
    ]))),
    responses((status = 200, description = "The job as it is now.", body = Job)),
)]
async fn change_job(
    State(state): State<ApiState>,
    PathParam(id): PathParam<JobId>,
    JsonBody(change): JsonBody<JobChange>,
) -> Result<Json<Job>, ApiError> {
    new_job::check_numbers(change.priority, change.max_attempts)
        .map_err(|(field, why)| ApiError::field(&format!("/{field}"), why))?;
    if let Some(metadata) = &change.metadata {
        new_job::check_metadata(metadata, "")?;
    }
    let payload = new_job::other_payload(change.payload, change.payload_base64, change.media_type)?;
    let edit = Edit {
        run_at: change.run_at,
        priority: change.priority,
        max_attempts: change.max_attempts,
        payload,
        metadata: change.metadata.map(Value::Object),
        release: change.release,
    };
    let done = state.database.edit(id, &edit).await;
    match done.map_err(|error| new_job::refused(error, |_| String::new()))? {
        Edited::Done => Ok(Json(find(&state, id).await?.into())),
        Edited::Runs => Err(ApiError::new(Code::JobRuns, format!("Job {id} runs."))
            .hint("Wait for its end, or cancel it and retry it as it should be.")),
        Edited::Ended(state) => {
            Err(ApiError::new(Code::JobEnded, format!("Job {id} is {state} already."))
                .hint("Retry it, with another payload if need be."))
        }
        Edited::NoRelease => Err(no_release(id, edit.release)),
        Edited::Unknown => Err(unknown(id)),
    }
}

async fn find(state: &ApiState, id: JobId) -> Result<JobRecord, ApiError> {
    state.database.job(id).await?.ok_or_else(|| unknown(id))
}

/// A job was to be pinned to a release that its kind does not have.
pub(super) fn no_release(id: JobId, release: Option<i32>) -> ApiError {
    let number = release.unwrap_or_default();
    ApiError::new(Code::ReleaseUnknown, format!("The kind of job {id} has no release {number}."))
}

pub(super) fn unknown(id: JobId) -> ApiError {
    ApiError::new(Code::JobUnknown, format!("There is no job {id}."))
        .hint("It may have ended and be over the age that history is kept.")
}
