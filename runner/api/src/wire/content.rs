//! Bytes with a media type inside a JSON answer.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use stokehold_domain::Blob;
use utoipa::ToSchema;

/// The largest result that an answer about a job carries itself, in bytes; what is larger is
/// fetched from its `result_url`.
pub const INLINE_RESULT_BYTES: usize = 64 << 10;

/// Bytes and what they are. JSON stands in `json`, character for character as it was stored;
/// anything else in `base64`; neither is there when the bytes are too many to stand here.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Content {
    /// The media type.
    #[schema(example = "application/json")]
    pub media_type: String,
    /// How many bytes there are.
    pub size_bytes: u64,
    /// The JSON itself, numbers as they were written.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub json: Option<Box<RawValue>>,
    /// The bytes, in base64 with padding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(content_encoding = "base64")]
    pub base64: Option<String>,
}

impl Content {
    /// The content of a blob, its bytes left out when there are more than `most_bytes`.
    pub fn of(blob: &Blob, most_bytes: usize) -> Self {
        let mut content = Content {
            media_type: blob.media_type.clone(),
            size_bytes: blob.bytes.len() as u64,
            json: None,
            base64: None,
        };
        if blob.bytes.len() <= most_bytes {
            // What SQL enqueued as JSON was checked by nobody.
            content.json =
                blob.is_json().then(|| serde_json::from_slice(&blob.bytes).ok()).flatten();
            content.base64 = content.json.is_none().then(|| STANDARD.encode(&blob.bytes));
        }
        content
    }

    /// The bytes, if they stand here and are well-formed.
    pub fn bytes(&self) -> Option<Vec<u8>> {
        match (&self.json, &self.base64) {
            (Some(json), _) => Some(json.get().as_bytes().to_vec()),
            (None, Some(text)) => STANDARD.decode(text).ok(),
            (None, None) => None,
        }
    }
}

/// Keeps `null`, which is a JSON value like any other, apart from a field that is absent.
pub(super) fn present<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(deserializer).map(Some)
}
