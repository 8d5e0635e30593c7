//! How far the job has come, for those who wait for it. The host keeps the latest report.

use crate::bindings::stokehold::job::progress as host;

/// Reports `done` of `total`; a total of 0 means that it is not known.
pub fn report(done: u64, total: u64) {
    host::report(done, total, None);
}

/// Reports `done` of `total` with a few words on what is going on.
pub fn report_with_note(done: u64, total: u64, note: &str) {
    host::report(done, total, Some(note));
}
