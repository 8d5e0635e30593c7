//! The one variable segment that a path has at most.

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use stokehold_domain::{Digest, JobId, check_name};

use crate::problem::ApiError;

/// The path's variable segment, read.
pub(crate) struct PathParam<T>(pub(crate) T);

/// A kind's name that follows the rule of names; whether there is such a kind is another matter.
pub(crate) struct KindName(pub(crate) String);

/// A runner's id or name: 1 to 200 bytes.
pub(crate) struct RunnerName(pub(crate) String);

/// A schedule's name that follows the rule of names.
pub(crate) struct ScheduleName(pub(crate) String);

/// What can stand in a path.
pub(crate) trait ReadSegment: Sized {
    /// Reads it, or says what is wrong with it.
    fn read(text: &str) -> Result<Self, String>;
}

impl ReadSegment for JobId {
    fn read(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| format!("{:?} is not a job id: a number is wanted", cut(text)))
    }
}

impl ReadSegment for Digest {
    fn read(text: &str) -> Result<Self, String> {
        text.parse().map_err(|error: stokehold_domain::digest::InvalidDigest| error.to_string())
    }
}

impl ReadSegment for KindName {
    fn read(text: &str) -> Result<Self, String> {
        check_name("kind", text).map_err(|error| error.to_string())?;
        Ok(KindName(text.to_owned()))
    }
}

impl ReadSegment for RunnerName {
    fn read(text: &str) -> Result<Self, String> {
        match text.len() {
            1..=200 if !text.contains('\0') => Ok(RunnerName(text.to_owned())),
            _ => Err("a runner's id or name of 1 to 200 bytes is wanted".to_owned()),
        }
    }
}

impl ReadSegment for ScheduleName {
    fn read(text: &str) -> Result<Self, String> {
        check_name("schedule", text).map_err(|error| error.to_string())?;
        Ok(ScheduleName(text.to_owned()))
    }
}

impl<S: Send + Sync, T: ReadSegment> FromRequestParts<S> for PathParam<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let params = RawPathParams::from_request_parts(parts, state)
            .await
            .map_err(|error| ApiError::parameter("path", error.to_string()))?;
        let Some((name, text)) = params.iter().next() else {
            return Err(ApiError::internal("a handler reads a path segment that its route lacks"));
        };
        T::read(text).map(PathParam).map_err(|detail| ApiError::parameter(name, detail))
    }
}

fn cut(text: &str) -> String {
    text.chars().take(80).collect()
}
