//! How bytes appear in JSON that people read: text where they are UTF-8, a list of numbers otherwise.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum TextOrBytes<'a> {
    Text(std::borrow::Cow<'a, str>),
    Bytes(std::borrow::Cow<'a, [u8]>),
}

/// Writes UTF-8 as text and anything else as a list of numbers.
pub fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    match std::str::from_utf8(bytes) {
        Ok(text) => TextOrBytes::Text(text.into()).serialize(serializer),
        Err(_) => TextOrBytes::Bytes(bytes.into()).serialize(serializer),
    }
}

/// Reads either form.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    Ok(match TextOrBytes::deserialize(deserializer)? {
        TextOrBytes::Text(text) => text.into_owned().into_bytes(),
        TextOrBytes::Bytes(bytes) => bytes.into_owned(),
    })
}
