//! The rim of the server: every request gets an id, a place and a time limit; every answer its
//! headers, and every error its body and its one line in the log.

use std::any::Any;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::codes::Code;
use crate::problem::ApiError;
use crate::server::ApiState;
use crate::wire::PROBLEM_MEDIA_TYPE;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The longest request id taken from a client, in bytes.
const MAX_REQUEST_ID_BYTES: usize = 64;
/// What `Retry-After` says when there are too many requests at once, in seconds.
const BUSY_RETRY_AFTER_S: u32 = 1;

/// Around everything.
pub(crate) async fn rim(State(state): State<ApiState>, request: Request, next: Next) -> Response {
    let id = request_id(request.headers());
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let response = match state.requests.try_acquire() {
        Ok(_place) => next.run(request).await,
        // Whoever asks whether the process turns would restart one that is only busy.
        Err(_) if path == "/healthz" => next.run(request).await,
        Err(_) => busy().into_response(),
    };
    let mut response = match error_in(&response) {
        None => response,
        Some(error) => {
            log(&error, &id, &method, &path);
            with_body(response, &error, &id)
        }
    };
    let headers = response.headers_mut();
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if let Ok(id) = HeaderValue::from_str(&id) {
        headers.insert(REQUEST_ID, id);
    }
    response
}

/// Around the routes of one group: ends what takes longer than the limit.
pub(crate) async fn time_limit(
    State(limit): State<Duration>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    tokio::time::timeout(limit, next.run(request)).await.map_err(|_| {
        let seconds = limit.as_secs();
        ApiError::new(Code::RequestTimeout, format!("The request took over {seconds} s."))
            .hint("Whether it took effect is unknown: look before you send it again.")
    })
}

/// What a panic in a handler becomes.
pub(crate) fn panicked(panic: Box<dyn Any + Send + 'static>) -> Response {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    ApiError::internal(format!("the handler panicked: {text}")).into_response()
}

fn busy() -> ApiError {
    ApiError::new(Code::ServerBusy, "There are too many requests at once.")
        .hint("Try again shortly, with fewer requests at a time.")
        .header(header::RETRY_AFTER, BUSY_RETRY_AFTER_S.into())
}

/// The problem that a response stands for. One that the framework made has a status alone.
fn error_in(response: &Response) -> Option<ApiError> {
    let status = response.status();
    if let Some(error) = response.extensions().get::<ApiError>() {
        return Some(error.clone());
    }
    Some(match status {
        _ if !status.is_client_error() && !status.is_server_error() => return None,
        StatusCode::NOT_FOUND => ApiError::new(Code::RouteUnknown, "There is no such path.")
            .hint("The description at /openapi.json lists the paths."),
        StatusCode::METHOD_NOT_ALLOWED => {
            ApiError::new(Code::RouteMethod, "The path is there, the method is not.")
                .hint("The header `allow` lists the methods.")
        }
        other => ApiError::internal(format!("the framework answered {other} by itself")),
    })
}

fn with_body(response: Response, error: &ApiError, id: &str) -> Response {
    let (mut parts, _) = response.into_parts();
    let body = serde_json::to_vec(&error.body(id)).unwrap_or_default();
    parts.status = error.code().status();
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_MEDIA_TYPE));
    Response::from_parts(parts, Body::from(body))
}

/// What a refused request said stays out of the log: it may hold what a payload holds.
fn log(error: &ApiError, id: &str, method: &Method, path: &str) {
    let (code, cause) = (error.code().as_str(), error.hidden_cause());
    if error.code().status().is_server_error() {
        tracing::error!(
            request.id = id, http.method = %method, http.path = path, error.code = code,
            error.cause = cause, "request failed"
        );
    } else {
        tracing::info!(
            request.id = id, http.method = %method, http.path = path, error.code = code,
            error.cause = cause, "request refused"
        );
    }
}

/// The id that the client gave, if it is one that can stand in a log, or a new one.
fn request_id(headers: &HeaderMap) -> String {
    let harmless = |text: &&str| {
        (1..=MAX_REQUEST_ID_BYTES).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
    };
    match headers.get(REQUEST_ID).and_then(|id| id.to_str().ok()).filter(harmless) {
        Some(id) => id.to_owned(),
        None => format!("{:032x}", rand::random::<u128>()),
    }
}
