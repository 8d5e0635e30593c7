//! The routes, one file a group of endpoints, with the time that each group may take.

mod bulk;
mod enqueue;
mod health;
mod job_answers;
mod jobs;
mod keys;
mod kinds;
mod modules;
mod pauses;
mod runners;
mod schedules;

use std::time::Duration;

use axum::{Router, middleware};
use utoipa_axum::router::OpenApiRouter;

use crate::server::ApiState;
use crate::{auth, rim};

/// What an ordinary request may take, in seconds. A call of the database has its own, shorter
/// limit.
const TIME_LIMIT_S: u64 = 30;
/// What an enqueue may take, a batch over a slow line included.
const ENQUEUE_LIMIT_S: u64 = 60;
/// What a question about jobs may take: the longest wait and what an ordinary request may.
const JOBS_LIMIT_S: u64 = jobs::MOST_WAIT_S + TIME_LIMIT_S;
/// What an upload may take, its compilation included.
const MODULES_LIMIT_S: u64 = 180;

/// Every route, the guard before those that want a key.
pub(crate) fn router(state: &ApiState) -> Router<ApiState> {
    let guard = middleware::from_fn_with_state(state.clone(), auth::require_key);
    open().merge(keyed().route_layer(guard)).into()
}

/// Routes for everybody: they say how the process is and nothing of what it does.
pub(crate) fn open() -> OpenApiRouter<ApiState> {
    within(TIME_LIMIT_S, health::routes())
}

/// Routes that want a key.
pub(crate) fn keyed() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new()
        .merge(within(MODULES_LIMIT_S, modules::routes()))
        .merge(within(TIME_LIMIT_S, kinds::routes()))
        .merge(within(ENQUEUE_LIMIT_S, enqueue::routes()))
        .merge(within(JOBS_LIMIT_S, jobs::routes()))
        .merge(within(JOBS_LIMIT_S, bulk::routes()))
        .merge(within(TIME_LIMIT_S, pauses::routes()))
        .merge(within(TIME_LIMIT_S, schedules::routes()))
        .merge(within(TIME_LIMIT_S, runners::routes()))
        .merge(within(TIME_LIMIT_S, keys::routes()))
}

fn within(seconds: u64, routes: OpenApiRouter<ApiState>) -> OpenApiRouter<ApiState> {
    let limit = Duration::from_secs(seconds);
    routes.route_layer(middleware::from_fn_with_state(limit, rim::time_limit))
}
