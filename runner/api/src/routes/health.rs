//! How the process is: for load balancers and for people in a hurry.

use axum::Json;
use axum::extract::State;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::codes::Code;
use crate::problem::ApiError;
use crate::server::ApiState;
use crate::wire::{Health, Readiness};

pub(super) fn routes() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new().routes(routes!(healthz)).routes(routes!(readyz))
}

/// Whether the process turns
///
/// Asks nothing of the database: restart a process that does not answer.
#[utoipa::path(
    get, path = "/healthz", tag = "health", operation_id = "getHealth", security(()),
    responses((status = 200, description = "The process turns.", body = Health)),
)]
async fn healthz() -> Json<Health> {
    Json(Health { status: "ok".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() })
}

/// Whether requests can be served
///
/// The database answers and has the schema that this binary needs: send no requests while it is not
/// so.
#[utoipa::path(
    get, path = "/readyz", tag = "health", operation_id = "getReadiness", security(()),
    extensions(("x-problem-codes" = json!([Code::DatabaseUnavailable, Code::DatabaseSchema]))),
    responses((status = 200, description = "Requests can be served.", body = Readiness)),
)]
async fn readyz(State(state): State<ApiState>) -> Result<Json<Readiness>, ApiError> {
    state.database.check_schema().await?;
    let schema_version = state.database.schema_version().await?;
    Ok(Json(Readiness { status: "ready".to_owned(), schema_version }))
}
