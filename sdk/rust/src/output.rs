//! What a handler gives back.

use serde::Serialize;

use crate::failure::Failure;
use crate::payload::Blob;

/// What a handler may return: any `serde` type, stored as JSON, [`Blob`] or [`Output`].
///
/// A value that is `null` in JSON (`()`, `None`) means that there is no result to store.
pub trait Reply {
    /// The result to store, if any.
    fn into_blob(self) -> Result<Option<Blob>, Failure>;
}

impl<T: Serialize> Reply for T {
    fn into_blob(self) -> Result<Option<Blob>, Failure> {
        // The same value fails the same way again: it is the handler that has to change.
        let blob = Blob::json(&self).map_err(|error| {
            Failure::permanent(format!("the result cannot be written as JSON: {error}"))
                .code("bad-result")
        })?;
        Ok((blob.bytes != b"null").then_some(blob))
    }
}

impl Reply for Blob {
    fn into_blob(self) -> Result<Option<Blob>, Failure> {
        Ok(Some(self))
    }
}

/// A result chosen while running: JSON, bytes, or nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Output(Option<Blob>);

impl Output {
    /// No result.
    pub fn none() -> Self {
        Self(None)
    }

    /// A value, stored as JSON.
    pub fn json<T: Serialize + ?Sized>(value: &T) -> Result<Self, Failure> {
        Ok(Self(value.into_blob()?))
    }
}

impl From<Blob> for Output {
    fn from(blob: Blob) -> Self {
        Self(Some(blob))
    }
}

impl From<Option<Blob>> for Output {
    fn from(blob: Option<Blob>) -> Self {
        Self(blob)
    }
}

impl Reply for Output {
    fn into_blob(self) -> Result<Option<Blob>, Failure> {
        Ok(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_stored_as_json() {
        let blob = vec![1, 2].into_blob().expect("serializes").expect("a result");
        assert_eq!(blob, Blob::new("application/json", "[1,2]"));
    }

    #[test]
    fn unit_and_none_store_nothing() {
        assert_eq!(().into_blob().expect("serializes"), None);
        assert_eq!(None::<u8>.into_blob().expect("serializes"), None);
        assert_eq!(Some(1).into_blob().expect("serializes").expect("a result").bytes, b"1");
        assert_eq!(Output::none().into_blob().expect("nothing"), None);
    }

    #[test]
    fn a_value_that_json_cannot_hold_is_the_handlers_fault() {
        let map = std::collections::BTreeMap::from([((1, 2), 3)]);
        let failure = map.into_blob().expect_err("a tuple is no key");
        assert!(!failure.is_retryable());
        assert_eq!(failure.problem().code.as_deref(), Some("bad-result"));
    }

    #[test]
    fn bytes_are_stored_as_they_are() {
        let blob = Blob::new("image/png", vec![0x89]);
        assert_eq!(blob.clone().into_blob().expect("bytes"), Some(blob));
    }
}
