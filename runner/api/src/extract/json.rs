//! JSON bodies: what is not JSON is told apart from JSON that is not what is wanted, and both by
//! place.

use axum::extract::{FromRequest, Request};
use serde::de::DeserializeOwned;
use serde_json::error::Category;
use serde_path_to_error::{Path, Segment};
use stokehold_domain::blob;

use super::body::{JSON_BYTES, media_type_of, read_body};
use crate::codes::Code;
use crate::problem::ApiError;
use crate::wire::FieldError;

/// A JSON body of at most [`JSON_BYTES`].
pub(crate) struct JsonBody<T>(pub(crate) T);

/// A JSON body that may be left out.
pub(crate) struct OptionalJsonBody<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        read_json(request, JSON_BYTES).await.map(JsonBody)
    }
}

impl<S: Send + Sync, T: DeserializeOwned + Default> FromRequest<S> for OptionalJsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        let is_json = is_json(&request);
        let bytes = read_body(request.into_body(), JSON_BYTES).await?;
        match (bytes.is_empty(), is_json) {
            (true, _) => Ok(OptionalJsonBody(T::default())),
            (false, true) => parse(&bytes).map(OptionalJsonBody),
            (false, false) => Err(not_json()),
        }
    }
}

/// Reads a JSON body of at most `most` bytes.
pub(crate) async fn read_json<T: DeserializeOwned>(
    request: Request,
    most: usize,
) -> Result<T, ApiError> {
    if !is_json(&request) {
        return Err(not_json());
    }
    parse(&read_body(request.into_body(), most).await?)
}

fn is_json(request: &Request) -> bool {
    media_type_of(request.headers()).is_some_and(blob::is_json)
}

fn not_json() -> ApiError {
    ApiError::new(Code::RequestMediaType, "A JSON body is wanted, and the request says otherwise.")
        .hint("Send the header `content-type: application/json`.")
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let pointer = pointer_of(error.path());
        wrong(error.inner(), pointer)
    })?;
    reader.end().map_err(|error| wrong(&error, String::new()))?;
    Ok(value)
}

fn wrong(error: &serde_json::Error, pointer: String) -> ApiError {
    match error.classify() {
        Category::Data => ApiError::invalid(vec![FieldError {
            pointer: Some(pointer),
            detail: error.to_string(),
            ..FieldError::default()
        }]),
        Category::Syntax | Category::Eof | Category::Io => {
            ApiError::new(Code::RequestJson, format!("The body is not JSON: {error}."))
        }
    }
}

fn pointer_of(path: &Path) -> String {
    path.iter()
        .map(|segment| match segment {
            Segment::Seq { index } => format!("/{index}"),
            Segment::Map { key } | Segment::Enum { variant: key } => {
                format!("/{}", pointer_text(key))
            }
            Segment::Unknown => String::new(),
        })
        .collect()
}

/// A name as it stands in a JSON pointer.
pub(crate) fn pointer_text(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}
