//! Making API keys.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use stokehold_domain::check_name;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::extract::JsonBody;
use crate::problem::ApiError;
use crate::server::ApiState;
use crate::wire::{CreatedKey, NewKey};

pub(super) fn routes() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new().routes(routes!(create_key))
}

/// Make an API key
///
/// The answer is the only one that ever shows the key: only its hash is stored.
#[utoipa::path(
    post, path = "/v1/keys", tag = "keys", operation_id = "createKey",
    request_body = NewKey,
    responses((status = 201, description = "The key was made.", body = CreatedKey)),
)]
async fn create_key(
    State(state): State<ApiState>,
    JsonBody(new): JsonBody<NewKey>,
) -> Result<(StatusCode, Json<CreatedKey>), ApiError> {
    check_name("key", &new.name).map_err(|error| ApiError::field("/name", error.to_string()))?;
    let made = state.database.create_key(&new.name).await?;
    let created = CreatedKey {
        name: made.key.name,
        prefix: made.key.prefix,
        key: made.text,
        created_at: made.key.created_at,
    };
    Ok((StatusCode::CREATED, Json(created)))
}
