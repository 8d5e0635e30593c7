//! Which runners there are.

use axum::Json;
use axum::extract::State;
use stokehold_queue::RunnerRecord;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::problem::ApiError;
use crate::server::ApiState;
use crate::wire::{List, RunnerInfo};

pub(super) fn routes() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new().routes(routes!(list_runners))
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

impl From<RunnerRecord> for RunnerInfo {
    fn from(runner: RunnerRecord) -> Self {
        RunnerInfo {
            id: runner.id,
            name: runner.name,
            version: runner.version,
            queues: runner.queues,
            slots: runner.slots,
            state: runner.state,
            running: runner.running,
            registered_at: runner.registered_at,
            beat_at: runner.beat_at,
        }
    }
}
