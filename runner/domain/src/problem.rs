//! What went wrong, for people and for dashboards.

use serde::{Deserialize, Serialize};

use crate::Blob;

/// The longest stored message, in bytes.
pub const MAX_MESSAGE_BYTES: usize = 16 << 10;
/// The longest stored code, in bytes.
pub const MAX_CODE_BYTES: usize = 63;
/// The largest stored detail, in bytes.
pub const MAX_DETAIL_BYTES: usize = 64 << 10;

/// A failure as stored and shown. The text may come from a hostile handler: it is bounded and
/// cleaned on the way in and escaped on the way out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// One or two sentences that name what went wrong, with numbers.
    pub message: String,
    /// A short stable word that the handler's author picked; failures are grouped by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Data that the handler attached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Blob>,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
    /// Guest frames, innermost first, demangled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub frames: Vec<String>,
}

impl Problem {
    /// A problem with a message alone, bounded and cleaned.
    pub fn new(message: impl AsRef<str>) -> Self {
        Problem { message: clean(message.as_ref(), MAX_MESSAGE_BYTES), ..Problem::default() }
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn advice(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }

    /// The same problem with every part bounded and cleaned; for what a handler made itself.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        self.message = clean(&self.message, MAX_MESSAGE_BYTES);
        self.code = self.code.map(|code| clean(&code, MAX_CODE_BYTES));
        self.detail = self.detail.filter(|detail| detail.bytes.len() <= MAX_DETAIL_BYTES);
        if let Some(detail) = &mut self.detail {
            detail.media_type = clean(&detail.media_type, crate::blob::MAX_MEDIA_TYPE_BYTES);
        }
        self
    }
}

/// Makes text from a stranger fit to store and to print: at most `most` bytes, cut at a character;
/// control characters (PostgreSQL refuses NUL; terminals obey ESC) and the marks that reorder or
/// hide text become U+FFFD. Line feeds and tabs stay.
pub fn clean(text: &str, most: usize) -> String {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].chars().map(|c| if is_harmful(c) { '\u{fffd}' } else { c }).collect()
}

fn is_harmful(c: char) -> bool {
    let reorders = matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}');
    c.is_control() && c != '\n' && c != '\t' || reorders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_is_neutralised_and_bounded_at_a_character() {
        assert_eq!(
            clean("a\0b\x1b[31m\u{202e}c\n\td", 100),
            "a\u{fffd}b\u{fffd}[31m\u{fffd}c\n\td"
        );
        assert_eq!(clean("aé", 2), "a");
        let big = Problem {
            detail: Some(Blob::json(vec![b'1'; MAX_DETAIL_BYTES + 1])),
            code: Some("x".repeat(100)),
            ..Problem::new("m")
        };
        let bounded = big.bounded();
        assert_eq!(bounded.detail, None);
        assert_eq!(bounded.code.unwrap().len(), MAX_CODE_BYTES);
    }
}
