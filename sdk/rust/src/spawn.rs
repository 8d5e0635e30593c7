//! Child jobs: more work, enqueued by a job.
//!
//! ```no_run
//! # use std::time::Duration;
//! # use stokehold_sdk::{Failure, spawn::{self, Child}};
//! # fn example() -> Result<(), Failure> {
//! let reminder = Child::json("email.send", &"remember")?.run_in(Duration::from_secs(3600));
//! spawn::with_outcome(reminder)?;
//! # Ok(())
//! # }
//! ```

use std::error::Error;
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::bindings::stokehold::job::spawn as host;
use crate::payload::Blob;

pub use host::Commit;

/// Why a child job was not enqueued.
///
/// With `?` the attempt is tried again: a kind that is not granted today may be tomorrow.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// This handler's kind was not granted to enqueue that kind.
    KindNotAllowed(String),
    /// There is no such kind.
    UnknownKind(String),
    /// A limit was met; the text says which.
    Quota(String),
    /// The payload is larger than this many bytes.
    TooLarge(u64),
    /// The host could not do it now.
    Unavailable(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the child job was not enqueued: ")?;
        match self {
            Self::KindNotAllowed(kind) => {
                write!(f, "this kind was not granted to enqueue `{kind}`")
            }
            Self::UnknownKind(kind) => write!(f, "there is no kind `{kind}`"),
            Self::Quota(limit) => write!(f, "a limit was met: {limit}"),
            Self::TooLarge(bytes) => write!(f, "its payload is larger than {bytes} bytes"),
            Self::Unavailable(reason) => write!(f, "{reason}"),
        }
    }
}

impl Error for Refusal {}

impl From<host::Refusal> for Refusal {
    fn from(refusal: host::Refusal) -> Self {
        match refusal {
            host::Refusal::KindNotAllowed(kind) => Self::KindNotAllowed(kind),
            host::Refusal::UnknownKind(kind) => Self::UnknownKind(kind),
            host::Refusal::Quota(limit) => Self::Quota(limit),
            host::Refusal::TooLarge(bytes) => Self::TooLarge(bytes),
            host::Refusal::Unavailable(reason) => Self::Unavailable(reason),
        }
    }
}

/// A job to enqueue.
#[derive(Debug, Clone)]
pub struct Child {
    request: host::Request,
}

impl Child {
    /// A job of this kind with a JSON payload.
    pub fn json<T: Serialize + ?Sized>(
        kind: impl Into<String>,
        payload: &T,
    ) -> Result<Self, serde_json::Error> {
        Ok(Self::new(kind, Blob::json(payload)?))
    }

    /// A job of this kind with a payload of bytes.
    pub fn new(kind: impl Into<String>, payload: Blob) -> Self {
        let request = host::Request {
            kind: kind.into(),
            payload: payload.into(),
            run_at: None,
            priority: None,
            queue: None,
            max_attempts: None,
            concurrency_key: None,
            unique_key: None,
            metadata: Vec::new(),
        };
        Self { request }
    }

    /// Runs it no sooner than this time.
    #[must_use]
    pub fn run_at(mut self, time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.request.run_at = Some(u64::try_from(since.as_millis()).unwrap_or(u64::MAX));
        self
    }

    /// Runs it no sooner than this delay from now.
    #[must_use]
    pub fn run_in(self, delay: Duration) -> Self {
        let now = SystemTime::now();
        self.run_at(now.checked_add(delay).unwrap_or(now))
    }

    /// Its priority, by the queue's order.
    #[must_use]
    pub fn priority(mut self, priority: i16) -> Self {
        self.request.priority = Some(priority);
        self
    }

    /// The queue to put it in, rather than its kind's.
    #[must_use]
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.request.queue = Some(queue.into());
        self
    }

    /// How many tries it has, rather than its kind's number.
    #[must_use]
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.request.max_attempts = Some(attempts);
        self
    }

    /// Jobs with the same key share a concurrency limit.
    #[must_use]
    pub fn concurrency_key(mut self, key: impl Into<String>) -> Self {
        self.request.concurrency_key = Some(key.into());
        self
    }

    /// While a job with this key is unfinished, another request gets that job instead.
    #[must_use]
    pub fn unique_key(mut self, key: impl Into<String>) -> Self {
        self.request.unique_key = Some(key.into());
        self
    }

    /// Attaches a word to the job beside its payload.
    #[must_use]
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.request.metadata.push((key.into(), value.into()));
        self
    }
}

/// Enqueues a job with this one's outcome: if the attempt fails, nothing was enqueued.
pub fn with_outcome(child: Child) -> Result<(), Refusal> {
    host::enqueue(&child.request, Commit::WithOutcome)?;
    Ok(())
}

/// Enqueues a job at once, whatever happens here, and tells its number.
pub fn now(child: Child) -> Result<u64, Refusal> {
    let id = host::enqueue(&child.request, Commit::Now)?;
    id.ok_or_else(|| Refusal::Unavailable("the host stored the job without a number".into()))
}

/// Enqueues many jobs, and optionally one that runs when all of them have ended and reads their
/// results with [`context::dependencies`](crate::context::dependencies).
pub fn batch(children: Vec<Child>, then: Option<Child>, commit: Commit) -> Result<(), Refusal> {
    let children: Vec<_> = children.into_iter().map(|child| child.request).collect();
    host::enqueue_batch(&children, then.map(|child| child.request).as_ref(), commit)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_carries_what_it_was_given_and_leaves_the_rest_to_its_kind() {
        let child = Child::json("email.send", &7)
            .expect("serializes")
            .run_at(UNIX_EPOCH + Duration::from_millis(1_500))
            .unique_key("k")
            .metadata("tenant", "acme");
        let request = child.request;
        assert_eq!((request.kind.as_str(), request.run_at), ("email.send", Some(1_500)));
        assert_eq!(request.payload.bytes, b"7");
        assert_eq!(request.unique_key.as_deref(), Some("k"));
        assert_eq!(request.metadata, [("tenant".to_owned(), "acme".to_owned())]);
        assert_eq!((request.queue, request.max_attempts, request.priority), (None, None, None));
    }

    #[test]
    fn a_time_before_1970_means_at_once() {
        let early = UNIX_EPOCH - Duration::from_secs(1);
        let child = Child::new("k", Blob::text("")).run_at(early);
        assert_eq!(child.request.run_at, Some(0));
    }
}
