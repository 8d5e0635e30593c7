//! Who may call: every route under `/v1` wants a key.
//!
//! Each request looks its key up by the public prefix and compares hashes in constant time; nothing
//! is cached, so a key that is revoked opens nothing from then on. Whatever is wrong with a key,
//! the answer is the same.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;

use crate::codes::Code;
use crate::problem::ApiError;
use crate::server::ApiState;

/// The longest text that can be a key, in bytes.
const MAX_KEY_BYTES: usize = 200;

/// Lets requests with a known key pass.
pub(crate) async fn require_key(
    State(state): State<ApiState>,
    mut request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let Some(text) = bearer(request.headers()) else { return Err(refused()) };
    let Some(key) = state.database.find_key(text).await? else { return Err(refused()) };
    request.extensions_mut().insert(key);
    Ok(next.run(request).await)
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, key) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let key = key.trim();
    // What is not printable ASCII is no key and never reaches the database.
    let plausible = key.len() <= MAX_KEY_BYTES && key.bytes().all(|b| b.is_ascii_graphic());
    (scheme.eq_ignore_ascii_case("bearer") && plausible).then_some(key)
}

fn refused() -> ApiError {
    ApiError::new(Code::AuthKey, "The request carries no valid API key.")
        .hint("Send the header `authorization: Bearer sth_…` with a key made by `stokehold`.")
        .header(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"stokehold\""))
}
