//! Pausing and resuming.

use axum::Json;
use axum::extract::State;
use std::time::Duration;
use stokehold_queue::{Pause, PauseEnd, Scope};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::codes::Code;
use crate::extract::JsonBody;
use crate::problem::ApiError;
use crate::server::ApiState;
use crate::wire::{List, PauseInfo, PauseRequest, ResumeRequest, Resumed};

pub(super) fn routes() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new().routes(routes!(list_pauses)).routes(routes!(pause)).routes(routes!(resume))
}

/// List what is paused
#[utoipa::path(
    get, path = "/v1/pauses", tag = "pauses", operation_id = "listPauses",
    responses((status = 200, description = "The pauses that hold.", body = List<PauseInfo>)),
)]
async fn list_pauses(State(state): State<ApiState>) -> Result<Json<List<PauseInfo>>, ApiError> {
    Ok(Json(state.database.pauses().await?.into_iter().map(PauseInfo::from).collect()))
}

/// Pause a queue, a kind, or everything
///
/// Nothing of it is started any more, on any node; jobs stay where they are and what runs goes on. To pause
/// again changes until when and why.
#[utoipa::path(
    post, path = "/v1/pause", tag = "pauses", operation_id = "pause",
    request_body = PauseRequest,
    extensions(("x-problem-codes" = json!([Code::KindUnknown]))),
    responses((status = 200, description = "The pauses that hold now.", body = List<PauseInfo>)),
)]
async fn pause(
    State(state): State<ApiState>,
    JsonBody(wanted): JsonBody<PauseRequest>,
) -> Result<Json<List<PauseInfo>>, ApiError> {
    let scope = scope(wanted.queue, wanted.kind, wanted.all)?;
    let end = match (wanted.until, wanted.for_ms) {
        (None, None) => PauseEnd::Never,
        (Some(at), None) => PauseEnd::At(at),
        (None, Some(0)) => {
            return Err(ApiError::field("/for_ms", "`for_ms` is 0: a pause takes longer"));
        }
        (None, Some(ms)) => PauseEnd::After(Duration::from_millis(ms)),
        (Some(_), Some(_)) => {
            return Err(ApiError::field("/for_ms", "`until` and `for_ms` exclude each other"));
        }
    };
    state.database.pause(&scope, end, wanted.reason.as_deref()).await?;
    list_pauses(State(state)).await
}

/// Resume a queue, a kind, or everything
///
/// Ends just this pause: a kind whose queue is paused too stays paused.
#[utoipa::path(
    post, path = "/v1/resume", tag = "pauses", operation_id = "resume",
    request_body = ResumeRequest,
    responses((status = 200, description = "Whether it was paused, and what still is.", body = Resumed)),
)]
async fn resume(
    State(state): State<ApiState>,
    JsonBody(wanted): JsonBody<ResumeRequest>,
) -> Result<Json<Resumed>, ApiError> {
    let scope = scope(wanted.queue, wanted.kind, wanted.all)?;
    let was_paused = state.database.resume(&scope).await?;
    let pauses = state.database.pauses().await?.into_iter().map(PauseInfo::from).collect();
    Ok(Json(Resumed { was_paused, pauses }))
}

fn scope(queue: Option<String>, kind: Option<String>, all: bool) -> Result<Scope, ApiError> {
    match (queue, kind, all) {
        (Some(queue), None, false) => Ok(Scope::Queue(queue)),
        (None, Some(kind), false) => Ok(Scope::Kind(kind)),
        (None, None, true) => Ok(Scope::All),
        _ => Err(ApiError::field("", "say one of `queue`, `kind` and `\"all\": true`")),
    }
}

impl From<Pause> for PauseInfo {
    fn from(pause: Pause) -> Self {
        let (queue, kind, all) = match pause.scope {
            Scope::All => (None, None, true),
            Scope::Queue(queue) => (Some(queue), None, false),
            Scope::Kind(kind) => (None, Some(kind), false),
        };
        let Pause { until, reason, paused_at, .. } = pause;
        PauseInfo { queue, kind, all, until, reason, paused_at }
    }
}
