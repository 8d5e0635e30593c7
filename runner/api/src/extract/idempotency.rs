//! The header by which a request can be repeated.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use stokehold_queue::{ApiKey, Repeatable};

use crate::problem::ApiError;

const HEADER: &str = "idempotency-key";
/// The longest key, in bytes. The table repeats it.
const MAX_BYTES: usize = 255;

/// What the header says, if it is there, and whose key opened the request: keys of one are none of another.
pub(crate) struct IdempotencyKey(Option<(String, String)>);

impl IdempotencyKey {
    /// The request as the queue remembers it.
    pub(crate) fn repeatable(&self) -> Option<Repeatable<'_>> {
        self.0.as_ref().map(|(scope, key)| Repeatable { scope, key })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for IdempotencyKey {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let mut values = parts.headers.get_all(HEADER).iter();
        let Some(value) = values.next() else { return Ok(IdempotencyKey(None)) };
        let key = value.to_str().unwrap_or_default();
        let visible = key.bytes().all(|byte| byte.is_ascii_graphic());
        if values.next().is_some() || !visible || !(1..=MAX_BYTES).contains(&key.len()) {
            let why = format!(
                "one idempotency key of 1 to {MAX_BYTES} visible ASCII characters is wanted"
            );
            return Err(ApiError::parameter(HEADER, why));
        }
        let Some(opened) = parts.extensions.get::<ApiKey>() else {
            return Err(ApiError::internal(
                "a route that takes idempotency keys asks for no API key",
            ));
        };
        Ok(IdempotencyKey(Some((format!("key:{}", opened.id), key.to_owned()))))
    }
}
