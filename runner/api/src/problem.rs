//! The one error type with an HTTP answer, and what the inner crates' errors become.

use std::error::Error;

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use stokehold_domain::problem::clean;
use stokehold_queue::{QueueError, RefusalCode};
use stokehold_sandbox::Refusal;

use crate::codes::Code;
use crate::wire::{FieldError, Problem};

/// Wrong places named in one answer at most.
pub(crate) const MAX_FIELD_ERRORS: usize = 20;
/// The longest `detail`, in bytes: it may repeat what the request said.
const MAX_DETAIL_BYTES: usize = 4 << 10;
/// The longest place named in one answer, in bytes.
const MAX_PLACE_BYTES: usize = 512;
/// What `Retry-After` says when the database does not answer, in seconds.
const RETRY_AFTER_S: u32 = 2;

/// A request that is answered with a problem. As a response it has a status and no body: the rim of
/// the server knows the request's id, writes the body and logs it.
#[derive(Clone, Debug)]
pub struct ApiError(Box<Parts>);

#[derive(Clone, Debug)]
struct Parts {
    code: Code,
    detail: String,
    hint: Option<String>,
    errors: Vec<FieldError>,
    headers: HeaderMap,
    cause: Option<String>,
}

impl ApiError {
    /// A problem of the code; `detail` says what went wrong this time.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        ApiError(Box::new(Parts {
            code,
            detail: clean(&detail.into(), MAX_DETAIL_BYTES),
            hint: None,
            errors: Vec::new(),
            headers: HeaderMap::new(),
            cause: None,
        }))
    }

    /// A fault of ours: the caller learns nothing of `cause`, the log does.
    pub(crate) fn internal(cause: impl Into<String>) -> Self {
        Self::new(Code::ServerInternal, "The request could not be handled through a fault here.")
            .hint("Try again. If it stays, give the operator the id of this request.")
            .cause(cause)
    }

    /// A path or query parameter that is not what is wanted.
    pub(crate) fn parameter(name: &str, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        Self::new(Code::RequestParameter, detail.clone()).errors(vec![FieldError {
            parameter: Some(name.to_owned()),
            detail,
            ..FieldError::default()
        }])
    }

    /// A well-formed body that asks for what is not allowed, at these places.
    pub(crate) fn invalid(errors: Vec<FieldError>) -> Self {
        let detail = match errors.first() {
            Some(first) => first.detail.clone(),
            None => Code::RequestInvalid.title().to_owned(),
        };
        Self::new(Code::RequestInvalid, detail).errors(errors)
    }

    /// A well-formed body that asks for what is not allowed, at one place.
    pub(crate) fn field(pointer: &str, detail: impl Into<String>) -> Self {
        Self::invalid(vec![FieldError {
            pointer: Some(pointer.to_owned()),
            detail: detail.into(),
            ..FieldError::default()
        }])
    }

    /// Adds what to do about it.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Adds where in the request it lies.
    #[must_use]
    pub(crate) fn errors(mut self, mut errors: Vec<FieldError>) -> Self {
        errors.truncate(MAX_FIELD_ERRORS);
        for error in &mut errors {
            error.detail = clean(&error.detail, MAX_DETAIL_BYTES);
            for place in [&mut error.pointer, &mut error.parameter].into_iter().flatten() {
                *place = clean(place, MAX_PLACE_BYTES);
            }
        }
        self.0.errors = errors;
        self
    }

    /// Adds a header to the answer.
    #[must_use]
    pub(crate) fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.0.headers.insert(name, value);
        self
    }

    /// Adds what the log shall say and the answer shall not.
    #[must_use]
    pub(crate) fn cause(mut self, cause: impl Into<String>) -> Self {
        self.0.cause = Some(cause.into());
        self
    }

    /// What went wrong, for programs.
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// What went wrong, for people.
    pub fn detail(&self) -> &str {
        &self.0.detail
    }

    /// Why, for the log alone.
    pub(crate) fn hidden_cause(&self) -> Option<&str> {
        self.0.cause.as_deref()
    }

    /// The body, for the request with this id.
    pub fn body(&self, request_id: &str) -> Problem {
        let parts = &*self.0;
        Problem {
            type_uri: parts.code.type_uri(),
            title: parts.code.title().to_owned(),
            status: parts.code.status().as_u16(),
            detail: parts.detail.clone(),
            instance: request_id.to_owned(),
            code: parts.code.as_str().to_owned(),
            hint: parts.hint.clone(),
            errors: parts.errors.clone(),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.code().status(), self.0.headers.clone()).into_response();
        response.extensions_mut().insert(self);
        response
    }
}

impl From<QueueError> for ApiError {
    fn from(error: QueueError) -> Self {
        let cause = with_sources(&error);
        match error {
            QueueError::Refused { code, message, hint } => {
                let problem = ApiError::new(refusal(code), message);
                match hint {
                    Some(hint) => problem.hint(hint),
                    None => problem,
                }
            }
            QueueError::Unreachable { .. }
            | QueueError::Timeout { .. }
            | QueueError::TryAgain { .. } => {
                ApiError::new(Code::DatabaseUnavailable, "The database did not answer in time.")
                    .hint("Try again shortly. Whether a write took effect is unknown: look first.")
                    .header(header::RETRY_AFTER, RETRY_AFTER_S.into())
                    .cause(cause)
            }
            QueueError::Schema(message) => ApiError::new(Code::DatabaseSchema, message)
                .header(header::RETRY_AFTER, RETRY_AFTER_S.into()),
            QueueError::Database { .. } => ApiError::internal(cause),
        }
    }
}

/// What a refusal of the queue is called when the route has no better word.
fn refusal(code: RefusalCode) -> Code {
    match code {
        RefusalCode::UnknownKind => Code::KindUnknown,
        RefusalCode::TooLarge => Code::RequestTooLarge,
        RefusalCode::Invalid | RefusalCode::NotFound | RefusalCode::Conflict => {
            Code::RequestInvalid
        }
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        match Code::find(refusal.code()) {
            Some(code) => ApiError::new(code, refusal.to_string()),
            // A test walks the sandbox's codes; a new one is still answered.
            None => ApiError::new(Code::ModuleInvalid, refusal.to_string()),
        }
    }
}

/// An error with its chain of causes, for the log.
fn with_sources(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}
