//! Problem details, RFC 9457.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The media type of every error body.
pub const PROBLEM_MEDIA_TYPE: &str = "application/problem+json";

/// The body of every answer that is an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// `urn:stokehold:error:` and the code: what the problem is, for programs.
    #[serde(rename = "type")]
    #[schema(example = "urn:stokehold:error:kind.unknown")]
    pub type_uri: String,
    /// What the problem is, for people; the same for every problem of the type.
    pub title: String,
    /// The HTTP status.
    #[schema(minimum = 400, maximum = 599)]
    pub status: u16,
    /// What went wrong this time.
    pub detail: String,
    /// The id of the request, as in the header `x-request-id` and in the server's log.
    #[serde(default)]
    pub instance: String,
    /// The last part of the type; each code has a page in the documentation.
    #[schema(example = "kind.unknown")]
    pub code: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Where in the request it lies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
}

/// One thing that is wrong in a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FieldError {
    /// Where in the body, as a JSON pointer (RFC 6901).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "/jobs/3/kind")]
    pub pointer: Option<String>,
    /// Which parameter of the path or query.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameter: Option<String>,
    /// What is wrong with it.
    pub detail: String,
}
