//! Where a page ended, as text that clients hand back and never read.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use stokehold_domain::JobId;

use crate::codes::Code;
use crate::problem::ApiError;

/// Changes when what a cursor means does, so that an old one is refused and not misread.
const VERSION: u8 = 1;

/// The cursor of the page that follows the job.
pub(crate) fn encode(last: JobId) -> String {
    let mut bytes = [VERSION; 9];
    bytes[1..].copy_from_slice(&last.0.to_be_bytes());
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Where the last page ended.
pub(crate) fn decode(text: &str) -> Result<JobId, ApiError> {
    let bytes = URL_SAFE_NO_PAD.decode(text).unwrap_or_default();
    let id = bytes.strip_prefix(&[VERSION]).and_then(|id| id.try_into().ok());
    id.map(|id| JobId(i64::from_be_bytes(id))).ok_or_else(|| {
        ApiError::new(Code::RequestCursor, "The cursor was not made by this API.")
            .hint("Give the `next` of the page before as it is, or leave `cursor` out.")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_reads_back_and_anything_else_is_refused() {
        for id in [0, 1, i64::MAX] {
            assert_eq!(decode(&encode(JobId(id))).unwrap(), JobId(id));
        }
        let other_version = URL_SAFE_NO_PAD.encode([2; 9]);
        for bad in ["", "42", "AQ", "ä", "AQAAAAAAAAAA=", "' or 1=1", &other_version] {
            let error = decode(bad).unwrap_err();
            assert_eq!(error.code(), Code::RequestCursor, "{bad:?}");
        }
    }
}
