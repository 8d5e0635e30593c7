//! Bodies as bytes, each under a limit that its route names.

use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, header};
use bytes::{Bytes, BytesMut};
use futures::StreamExt;

use crate::codes::Code;
use crate::problem::ApiError;

/// The largest JSON body, in bytes: the largest payload in base64, with room for the rest.
pub(crate) const JSON_BYTES: usize = 2 << 20;
/// The largest batch of jobs, in bytes.
pub(crate) const BATCH_BYTES: usize = 64 << 20;

/// What is read and thrown away of a body over its limit, so that a client which is still sending
/// gets to read the answer instead of a broken connection.
const DRAINED_BYTES: usize = 16 << 20;
const DRAINING: Duration = Duration::from_secs(2);

/// A whole body of at most `MOST` bytes.
pub(crate) struct RawBody<const MOST: usize>(pub(crate) Bytes);

impl<S: Send + Sync, const MOST: usize> FromRequest<S> for RawBody<MOST> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        read_body(request.into_body(), MOST).await.map(RawBody)
    }
}

/// Reads a whole body of at most `most` bytes.
pub(crate) async fn read_body(body: Body, most: usize) -> Result<Bytes, ApiError> {
    let announced = http_body_size(&body);
    let mut stream = body.into_data_stream();
    if announced > most as u64 {
        drain(stream).await;
        return Err(too_large(most));
    }
    let mut bytes = BytesMut::with_capacity(announced.try_into().unwrap_or_default());
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|error| {
            ApiError::new(Code::RequestBody, "The body broke off before its end.")
                .hint("Send it again.")
                .cause(error.to_string())
        })?;
        if bytes.len() + chunk.len() > most {
            drain(stream).await;
            return Err(too_large(most));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes.freeze())
}

/// The least size that the body is known to have: all of it when its length was announced.
fn http_body_size(body: &Body) -> u64 {
    use axum::body::HttpBody;
    body.size_hint().lower()
}

async fn drain(mut stream: BodyDataStream) {
    let all = async {
        let mut drained = 0;
        while let Some(Ok(chunk)) = stream.next().await {
            drained += chunk.len();
            if drained > DRAINED_BYTES {
                break;
            }
        }
    };
    // Over time is as good as over bytes: either way the answer follows now.
    let _ = tokio::time::timeout(DRAINING, all).await;
}

fn too_large(most: usize) -> ApiError {
    ApiError::new(Code::RequestTooLarge, format!("The body is over {most} bytes."))
        .hint(format!("At most {most} bytes are taken here."))
}

/// The body's media type, if the request names one.
pub(crate) fn media_type_of(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::CONTENT_TYPE)?.to_str().ok()
}
