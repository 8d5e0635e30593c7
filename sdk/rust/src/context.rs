//! Read-only facts about the running attempt.
//!
//! Each is one call to the host, so they work only inside a sandbox, not in native tests.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::bindings::stokehold::job::context as host;
use crate::failure::Problem;
use crate::payload::Blob;

/// When the host ends this attempt.
pub fn deadline() -> SystemTime {
    time(host::deadline())
}

/// How long until the deadline; zero when it has passed.
pub fn remaining() -> Duration {
    Duration::from_millis(host::remaining())
}

/// Why the job should stop, once someone asked or the node is draining. A short grace time
/// follows: ask now and then in long work, and end with [`Failure::retry`](crate::Failure::retry)
/// or a result.
pub fn cancelled() -> Option<String> {
    host::cancelled()
}

/// The queue that the job came from.
pub fn queue() -> String {
    host::queue()
}

/// When the job was enqueued.
pub fn enqueued_at() -> SystemTime {
    time(host::enqueued_at())
}

/// When the job was meant to run.
pub fn scheduled_at() -> SystemTime {
    time(host::scheduled_at())
}

/// What was attached to the job beside its payload.
pub fn metadata() -> BTreeMap<String, String> {
    host::metadata().into_iter().collect()
}

/// A key that is the same for every attempt of this job: send it to payment providers and the
/// like, so that a second attempt does not act twice.
pub fn idempotency_key() -> String {
    host::idempotency_key()
}

/// The job that enqueued this one, if one did.
pub fn parent() -> Option<u64> {
    host::parent()
}

/// A W3C `traceparent` for outgoing calls.
pub fn traceparent() -> Option<String> {
    host::traceparent()
}

/// How the previous attempt ended, if there was one.
pub fn last_problem() -> Option<Problem> {
    host::last_problem().map(Into::into)
}

/// A job that this one waited for, as it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FinishedJob {
    /// Its number.
    pub id: u64,
    /// Its kind's name.
    pub kind: String,
    /// Whether it succeeded.
    pub completed: bool,
    /// What it gave back.
    pub output: Option<Blob>,
}

/// The jobs this one waited for, in order: at most `limit` from `offset` on.
pub fn dependencies(offset: u32, limit: u32) -> Vec<FinishedJob> {
    host::dependencies(offset, limit)
        .into_iter()
        .map(|job| FinishedJob {
            id: job.id,
            kind: job.kind,
            completed: job.completed,
            output: job.output.map(Into::into),
        })
        .collect()
}

fn time(millis: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(millis)
}
