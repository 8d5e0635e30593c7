//! Bytes with a media type: payloads and results. The system stores them and never looks inside.

use serde::{Deserialize, Serialize};

/// The media type a payload or result has when nobody says otherwise.
pub const JSON: &str = "application/json";
/// The longest media type taken, in bytes.
pub const MAX_MEDIA_TYPE_BYTES: usize = 255;

/// Bytes and what they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blob {
    /// An IANA media type.
    pub media_type: String,
    /// The bytes themselves.
    #[serde(with = "crate::bytes_text")]
    pub bytes: Vec<u8>,
}

impl Blob {
    /// JSON bytes, which the caller vouches for.
    pub fn json(bytes: impl Into<Vec<u8>>) -> Self {
        Blob { media_type: JSON.to_owned(), bytes: bytes.into() }
    }

    /// True when the media type is JSON, parameters aside.
    pub fn is_json(&self) -> bool {
        is_json(&self.media_type)
    }
}

/// True for `application/json` and any `+json` type, parameters aside.
pub fn is_json(media_type: &str) -> bool {
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case(JSON)
        || essence.len() > 5 && essence.to_ascii_lowercase().ends_with("+json")
}

/// True when the text has the shape `type/subtype` with optional parameters, printable ASCII only,
/// and is short enough to store and to send as a header.
pub fn is_media_type(text: &str) -> bool {
    let token = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&b))
    };
    let essence = text.split(';').next().unwrap_or_default().trim();
    text.len() <= MAX_MEDIA_TYPE_BYTES
        && text.bytes().all(|b| (0x20..0x7f).contains(&b))
        && essence.split_once('/').is_some_and(|(kind, sub)| token(kind) && token(sub))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_types_are_recognised_and_control_characters_refused() {
        assert!(is_json("application/json; charset=utf-8") && is_json("application/ld+json"));
        assert!(!is_json("text/plain") && !is_json("+json"));
        assert!(is_media_type("image/jpeg") && is_media_type("text/csv; header=present"));
        for bad in ["", "json", "a/", "/b", "text/plain\r\nX: y", "te xt/plain", "text/\u{e9}"] {
            assert!(!is_media_type(bad), "{bad:?} was accepted");
        }
    }
}
