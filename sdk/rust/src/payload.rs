//! What a job carries: a type of yours read from JSON, or bytes as they are.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::bindings::stokehold::job::types::Blob as RawBlob;
use crate::failure::Failure;

/// Bytes with an IANA media type. As a payload type it takes anything; as a result it is stored
/// as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    /// Such as `image/png`.
    pub media_type: String,
    /// The bytes.
    pub bytes: Vec<u8>,
}

impl Blob {
    /// Bytes of the given media type.
    pub fn new(media_type: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self { media_type: media_type.into(), bytes: bytes.into() }
    }

    /// A value as JSON.
    pub fn json<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        Ok(Self::new("application/json", serde_json::to_vec(value)?))
    }

    /// A text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new("text/plain; charset=utf-8", text.into())
    }

    /// The media type without its parameters, in lower case: `text/plain`.
    pub fn essence(&self) -> String {
        self.media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
    }

    /// Reads the bytes as JSON. An error names the field and the place.
    pub fn parse_json<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        let mut reader = serde_json::Deserializer::from_slice(&self.bytes);
        let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
            let field = error.path().to_string();
            let cause = error.into_inner();
            let place = match field.as_str() {
                "." => "payload".to_owned(),
                field => format!("payload, field `{field}`"),
            };
            bad_payload(&place, &cause, &self.media_type)
        })?;
        reader.end().map_err(|cause| bad_payload("payload", &cause, &self.media_type))?;
        Ok(value)
    }
}

/// The same bytes fail the same way for ever, so nothing is gained by trying again.
fn bad_payload(place: &str, cause: &serde_json::Error, media_type: &str) -> Failure {
    let json = media_type.is_empty() || media_type.to_ascii_lowercase().contains("json");
    let hint = if cause.is_data() || json {
        String::new()
    } else {
        format!(" (the job's media type is {media_type}; this handler reads JSON)")
    };
    Failure::permanent(format!("{place}: {cause}{hint}")).code("bad-payload")
}

impl From<Blob> for RawBlob {
    fn from(blob: Blob) -> Self {
        Self { media_type: blob.media_type, bytes: blob.bytes }
    }
}

impl From<RawBlob> for Blob {
    fn from(blob: RawBlob) -> Self {
        Self { media_type: blob.media_type, bytes: blob.bytes }
    }
}

/// What a handler may ask for as its payload: any `serde` type, read from JSON, or [`Blob`].
pub trait Payload: Sized {
    /// Reads the payload; an error ends the attempt.
    fn from_blob(blob: Blob) -> Result<Self, Failure>;
}

impl<T: DeserializeOwned> Payload for T {
    fn from_blob(blob: Blob) -> Result<Self, Failure> {
        blob.parse_json()
    }
}

impl Payload for Blob {
    fn from_blob(blob: Blob) -> Result<Self, Failure> {
        Ok(blob)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, serde::Deserialize)]
    struct Size {
        width: u32,
    }
    #[derive(Debug, PartialEq, serde::Deserialize)]
    struct Request {
        sizes: Vec<Size>,
    }

    fn message(media_type: &str, text: &str) -> String {
        let failure = Request::from_blob(Blob::new(media_type, text)).expect_err("bad payload");
        assert!(!failure.is_retryable());
        assert_eq!(failure.problem().code.as_deref(), Some("bad-payload"));
        failure.problem().message.clone()
    }

    #[test]
    fn json_becomes_the_handlers_type() {
        let blob = Blob::new("application/json", r#"{"sizes":[{"width":3}]}"#);
        let request = Request::from_blob(blob).expect("parses");
        assert_eq!(request, Request { sizes: vec![Size { width: 3 }] });
    }

    #[test]
    fn a_wrong_value_is_named_by_field_and_line() {
        assert_eq!(
            message("application/json", "{\"sizes\":[\n{\"width\":\"wide\"}]}"),
            "payload, field `sizes[0].width`: invalid type: string \"wide\", expected u32 \
             at line 2 column 15"
        );
        assert_eq!(
            message("application/json", "{}"),
            "payload: missing field `sizes` at line 1 column 2"
        );
    }

    #[test]
    fn what_follows_the_value_is_refused() {
        assert!(message("application/json", "{\"sizes\":[]} {}").contains("trailing characters"));
    }

    #[test]
    fn bytes_that_are_no_json_say_which_media_type_they_came_with() {
        let text = message("image/png", "\u{89}PNG");
        assert!(text.contains("media type is image/png"), "{text}");
    }

    #[test]
    fn a_blob_takes_anything_and_knows_its_media_type() {
        let blob = Blob::from_blob(Blob::new("Text/Plain; charset=utf-8", "hi")).expect("any");
        assert_eq!(blob.essence(), "text/plain");
    }
}
