//! What to make of an image, from a JSON payload or from the job's metadata.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde::Deserialize;
use stokehold_sdk::Failure;

/// The side, in pixels, of a thumbnail for which nothing was asked.
const DEFAULT_SIDE: u32 = 256;
/// The longest side that may be asked for: a thumbnail is not a poster.
const LONGEST_SIDE: u32 = 4096;
const DEFAULT_QUALITY: u8 = 82;

/// What to make of an image.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Options {
    /// The result is at most this wide.
    pub(crate) max_width: u32,
    /// The result is at most this high.
    pub(crate) max_height: u32,
    /// The result's format; the original's if none is given.
    pub(crate) format: Option<Format>,
    /// The quality of a JPEG, 1 to 100.
    pub(crate) quality: u8,
}

/// The formats that can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Format {
    /// For photographs; no transparency.
    #[serde(alias = "jpg")]
    Jpeg,
    /// Lossless, with transparency.
    Png,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max_width: DEFAULT_SIDE,
            max_height: DEFAULT_SIDE,
            format: None,
            quality: DEFAULT_QUALITY,
        }
    }
}

impl Options {
    /// Reads `max-width`, `max-height`, `format` and `quality`; other keys are not ours.
    pub(crate) fn from_metadata(metadata: &BTreeMap<String, String>) -> Result<Self, Failure> {
        let mut options = Self::default();
        if let Some(text) = metadata.get("max-width") {
            options.max_width = parse("max-width", text)?;
        }
        if let Some(text) = metadata.get("max-height") {
            options.max_height = parse("max-height", text)?;
        }
        if let Some(text) = metadata.get("quality") {
            options.quality = parse("quality", text)?;
        }
        options.format = match metadata.get("format").map(String::as_str) {
            None => None,
            Some("jpeg" | "jpg") => Some(Format::Jpeg),
            Some("png") => Some(Format::Png),
            Some(other) => return Err(bad(format!("format `{other}` is neither jpeg nor png"))),
        };
        options.check()?;
        Ok(options)
    }

    /// Refuses what would make no image or a huge one.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        for (name, side) in [("max width", self.max_width), ("max height", self.max_height)] {
            if !(1..=LONGEST_SIDE).contains(&side) {
                return Err(bad(format!("{name} is {side}: it must be from 1 to {LONGEST_SIDE}")));
            }
        }
        if !(1..=100).contains(&self.quality) {
            return Err(bad(format!("quality is {}: it must be from 1 to 100", self.quality)));
        }
        Ok(())
    }
}

fn parse<T: FromStr>(name: &str, text: &str) -> Result<T, Failure> {
    text.trim().parse().map_err(|_| bad(format!("{name} is `{text}`: it must be a whole number")))
}

fn bad(message: String) -> Failure {
    Failure::permanent(message).code("bad-options")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Options, Failure> {
        let metadata = pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned()));
        Options::from_metadata(&metadata.collect())
    }

    #[test]
    fn metadata_changes_the_defaults() {
        assert_eq!(read(&[("tenant", "acme")]).expect("defaults"), Options::default());
        let options = read(&[("max-width", "64"), ("format", "png")]).expect("options");
        assert_eq!((options.max_width, options.max_height), (64, DEFAULT_SIDE));
        assert_eq!(options.format, Some(Format::Png));
    }

    #[test]
    fn what_cannot_be_done_is_refused_by_name() {
        for (key, value, text) in [
            ("max-width", "wide", "max-width is `wide`"),
            ("max-height", "0", "max height is 0"),
            ("max-width", "5000", "max width is 5000"),
            ("quality", "101", "quality is 101"),
            ("format", "gif", "format `gif`"),
        ] {
            let failure = read(&[(key, value)]).expect_err(value);
            assert!(!failure.is_retryable());
            assert!(failure.to_string().contains(text), "{failure}");
        }
    }
}
