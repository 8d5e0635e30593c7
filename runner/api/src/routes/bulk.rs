//! Running ended jobs again, one or many, and cancelling many.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use stokehold_domain::{JobId, JobState, KindId};
use stokehold_queue::{CancelledMany, EndedFilter, LiveFilter, Retried, Retry};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::jobs::{CANCELLED_ON_REQUEST, no_release, unknown};
use super::kinds;
use crate::codes::Code;
use crate::extract::{JsonBody, OptionalJsonBody, PathParam};
use crate::new_job;
use crate::problem::ApiError;
use crate::server::ApiState;
use crate::wire::{CancelMany, EnqueueAnswer, Enqueued, ManyDone, RetryMany, RetryRequest};

/// Jobs in one transaction.
const PAGE: i64 = 1_000;
/// Jobs in one request: within its time limit, however slow the machine.
const MOST: i64 = 10_000;
/// A dry run counts no further.
const MOST_COUNTED: i64 = 100_000;

pub(super) fn routes() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new()
        .routes(routes!(retry_job))
        .routes(routes!(retry_jobs))
        .routes(routes!(cancel_jobs))
}

/// Run an ended job again
///
/// As a new job of the same kind, priority, tries and metadata; the old one's record stays, and each tells of
/// the other. A job is retried once: after that it is the new job's turn.
#[utoipa::path(
    post, path = "/v1/jobs/{id}/retry", tag = "jobs", operation_id = "retryJob",
    params(("id" = String, Path, description = "The ended job's id")),
    request_body = Option<RetryRequest>,
    extensions(("x-problem-codes" = json!([
        Code::JobUnknown, Code::JobNotFinished, Code::JobRetried, Code::JobCompleted, Code::JobDuplicate,
        Code::ReleaseUnknown
    ]))),
    responses((status = 201, description = "There is a new job.", body = Enqueued)),
)]
async fn retry_job(
    State(state): State<ApiState>,
    PathParam(id): PathParam<JobId>,
    OptionalJsonBody(wanted): OptionalJsonBody<RetryRequest>,
) -> Result<(StatusCode, Json<Enqueued>), ApiError> {
    let RetryRequest { payload, payload_base64, media_type, release, run_at, even_completed } =
        wanted;
    let payload = new_job::other_payload(payload, payload_base64, media_type)?;
    let retry = Retry { payload, release, run_at, even_completed };
    let done = state.database.retry(id, &retry).await;
    match done.map_err(|error| new_job::refused(error, |_| String::new()))? {
        Retried::As(id) => {
            Ok((StatusCode::CREATED, Json(Enqueued { id, answer: EnqueueAnswer::Inserted })))
        }
        Retried::Before(job) => {
            Err(ApiError::new(Code::JobRetried, format!("Job {id} was retried as job {job}."))
                .hint("Retry that one when it has ended."))
        }
        Retried::Held(job) => Err(ApiError::new(
            Code::JobDuplicate,
            format!("Job {job} has the unique key of job {id}."),
        )
        .hint("Wait for its end, or cancel it.")),
        Retried::Completed => {
            Err(ApiError::new(Code::JobCompleted, format!("Job {id} is completed."))
                .hint("Say `\"even_completed\": true` to run it again all the same."))
        }
        Retried::Live => {
            Err(ApiError::new(Code::JobNotFinished, format!("Job {id} has not ended."))
                .hint("It is tried again by itself; cancel it first to run it otherwise."))
        }
        Retried::NoRelease => Err(no_release(id, release)),
        Retried::Unknown => Err(unknown(id)),
    }
}

/// Run ended jobs again
///
/// Those that did not complete and that a filter is true of, each as it was; such as were retried before are
/// left alone. One call takes 10,000 at most: ask again while there are more. `dry_run` counts them first.
#[utoipa::path(
    post, path = "/v1/jobs/retry", tag = "jobs", operation_id = "retryJobs",
    request_body = RetryMany,
    extensions(("x-problem-codes" = json!([Code::KindUnknown, Code::ReleaseUnknown]))),
    responses((status = 200, description = "How many were retried.", body = ManyDone)),
)]
async fn retry_jobs(
    State(state): State<ApiState>,
    JsonBody(wanted): JsonBody<RetryMany>,
) -> Result<Json<ManyDone>, ApiError> {
    let says = wanted.kind.is_some()
        || !wanted.states.is_empty()
        || wanted.outcome.is_some()
        || wanted.ended_from.is_some()
        || wanted.ended_before.is_some();
    check_filter(says, wanted.all, "kind, states, outcome, ended_from or ended_before")?;
    let can_be = |state| matches!(state, JobState::Discarded | JobState::Cancelled);
    check_states(
        &wanted.states,
        can_be,
        "only what was discarded or cancelled is retried by a filter",
    )?;
    let kind = kind(&state, wanted.kind.as_deref()).await?;
    if let Some(number) = wanted.release {
        let Some(name) = &wanted.kind else {
            let why = "`release` is the number of a release of one `kind`, which is not said";
            return Err(ApiError::field("/release", why));
        };
        let releases = state.database.releases(name).await?;
        if !releases.iter().any(|release| release.number == number) {
            let detail = format!("The kind '{name}' has no release {number}.");
            return Err(ApiError::new(Code::ReleaseUnknown, detail));
        }
    }
    let filter = EndedFilter {
        kind,
        states: wanted.states,
        outcome: wanted.outcome,
        ended_from: wanted.ended_from,
        ended_before: wanted.ended_before,
    };
    if wanted.dry_run {
        return Ok(Json(counted(state.database.count_ended(&filter, MOST_COUNTED).await?)));
    }
    let retry = Retry { release: wanted.release, run_at: wanted.run_at, ..Retry::default() };
    let mut pages = Pages::default();
    while let Some(after) = pages.next() {
        let (retried, last) = state.database.retry_ended(&filter, &retry, after, PAGE).await?;
        pages.add(retried, 0, last);
    }
    Ok(Json(pages.done))
}

/// Cancel many jobs
///
/// Those that live and that a filter is true of: what waits is cancelled at once, what runs is stopped by its
/// node. One call takes 10,000 at most: ask again while there are more. `dry_run` counts them first.
#[utoipa::path(
    post, path = "/v1/jobs/cancel", tag = "jobs", operation_id = "cancelJobs",
    request_body = CancelMany,
    extensions(("x-problem-codes" = json!([Code::KindUnknown]))),
    responses((status = 200, description = "How many were cancelled.", body = ManyDone)),
)]
async fn cancel_jobs(
    State(state): State<ApiState>,
    JsonBody(wanted): JsonBody<CancelMany>,
) -> Result<Json<ManyDone>, ApiError> {
    let says = wanted.kind.is_some()
        || wanted.queue.is_some()
        || !wanted.states.is_empty()
        || wanted.enqueued_before.is_some();
    check_filter(says, wanted.all, "kind, queue, states or enqueued_before")?;
    check_states(&wanted.states, |state| !state.is_final(), "what has ended is not cancelled")?;
    let filter = LiveFilter {
        kind: kind(&state, wanted.kind.as_deref()).await?,
        queue: wanted.queue,
        states: wanted.states,
        enqueued_before: wanted.enqueued_before,
    };
    if wanted.dry_run {
        return Ok(Json(counted(state.database.count_live(&filter, MOST_COUNTED).await?)));
    }
    let reason = wanted.reason.as_deref().unwrap_or(CANCELLED_ON_REQUEST);
    let mut pages = Pages::default();
    while let Some(after) = pages.next() {
        let CancelledMany { cancelled, requested, last } =
            state.database.cancel_live(&filter, reason, after, PAGE).await?;
        pages.add(cancelled, requested, last);
    }
    Ok(Json(pages.done))
}

/// The pages of one call, and what they came to.
struct Pages {
    done: ManyDone,
    after: JobId,
    left: i64,
}

impl Default for Pages {
    fn default() -> Self {
        let done = ManyDone { more: true, ..ManyDone::default() };
        Pages { done, after: JobId(0), left: MOST / PAGE }
    }
}

impl Pages {
    /// Behind which job the next page begins; `None` when there is none, or when this call has done enough.
    fn next(&mut self) -> Option<JobId> {
        let goes_on = self.done.more && self.left > 0;
        self.left -= 1;
        goes_on.then_some(self.after)
    }

    /// Takes note of a page: jobs that are done, jobs that their nodes are told to stop, and the last one.
    fn add(&mut self, ended: i64, stopping: i64, last: Option<JobId>) {
        self.done.jobs += (ended + stopping).unsigned_abs();
        self.done.stopping += stopping.unsigned_abs();
        match last {
            Some(last) => self.after = last,
            None => self.done.more = false,
        }
    }
}

fn counted(jobs: i64) -> ManyDone {
    ManyDone { jobs: jobs.unsigned_abs(), stopping: 0, more: jobs >= MOST_COUNTED }
}

/// Refuses a call that would reach everything and does not say so.
fn check_filter(says: bool, all: bool, fields: &str) -> Result<(), ApiError> {
    match (says, all) {
        (false, false) => {
            let why = format!("nothing says which jobs: give {fields}, or \"all\": true");
            Err(ApiError::field("", why))
        }
        (true, true) => Err(ApiError::field("/all", "`all` and a filter exclude each other")),
        _ => Ok(()),
    }
}

fn check_states(
    states: &[JobState],
    can_be: impl Fn(JobState) -> bool,
    why: &str,
) -> Result<(), ApiError> {
    match states.iter().position(|state| !can_be(*state)) {
        Some(n) => Err(ApiError::field(&format!("/states/{n}"), why)),
        None => Ok(()),
    }
}

async fn kind(state: &ApiState, name: Option<&str>) -> Result<Option<KindId>, ApiError> {
    let Some(name) = name else { return Ok(None) };
    stokehold_domain::check_name("kind", name)
        .map_err(|error| ApiError::field("/kind", error.to_string()))?;
    Ok(Some(kinds::find(state, name).await?.id))
}
