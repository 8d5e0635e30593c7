//! Which runners there are.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use stokehold_queue::RunnerRecord;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::codes::Code;
use crate::extract::{PathParam, RunnerName};
use crate::problem::ApiError;
use crate::server::ApiState;
use crate::wire::{Drained, List, RunnerInfo};

pub(super) fn routes() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new().routes(routes!(list_runners)).routes(routes!(drain_runner))
}

/// List runners
///
/// Those that live and those that ended within the last day, newest first, at most 1,000.
#[utoipa::path(
    get, path = "/v1/runners", tag = "runners", operation_id = "listRunners",
    responses((status = 200, description = "The runners.", body = List<RunnerInfo>)),
)]
async fn list_runners(State(state): State<ApiState>) -> Result<Json<List<RunnerInfo>>, ApiError> {
    let runners = state.database.runners().await?;
    Ok(Json(runners.into_iter().map(RunnerInfo::from).collect()))
}

/// Drain a runner
///
/// By its id or its name, which several may have. It claims nothing new, lets what runs go on for its grace time, hands
/// the rest back uncounted, and ends. It learns of it with its next beat, within 2 seconds.
#[utoipa::path(
    post, path = "/v1/runners/{runner}/drain", tag = "runners", operation_id = "drainRunner",
    params(("runner" = String, Path, description = "The runner's id or name")),
    extensions(("x-problem-codes" = json!([Code::RunnerUnknown]))),
    responses((status = 202, description = "They are told to stop.", body = Drained)),
)]
async fn drain_runner(
    State(state): State<ApiState>,
    PathParam(RunnerName(runner)): PathParam<RunnerName>,
) -> Result<(StatusCode, Json<Drained>), ApiError> {
    let ids = state.database.drain(&runner).await?;
    if ids.is_empty() {
        let detail = format!("No live runner has the id or name {runner:?}.");
        return Err(ApiError::new(Code::RunnerUnknown, detail)
            .hint("List the runners to see which there are."));
    }
    Ok((StatusCode::ACCEPTED, Json(Drained { ids })))
}

impl From<RunnerRecord> for RunnerInfo {
    fn from(runner: RunnerRecord) -> Self {
        RunnerInfo {
            id: runner.id,
            name: runner.name,
            version: runner.version,
            queues: runner.queues,
            slots: runner.slots,
            state: runner.state,
            draining: runner.draining,
            running: runner.running,
            registered_at: runner.registered_at,
            beat_at: runner.beat_at,
        }
    }
}
