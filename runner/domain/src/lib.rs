//! What a job is and what may happen to it: pure types and decisions, no I/O.
//!
//! `queue` writes what this crate decides, `sandbox` produces its outcomes, `node` carries the one to
//! the other. Nothing here reads a clock, a socket or a database.

pub mod attempt;
pub mod blob;
pub mod bytes_text;
pub mod decide;
pub mod digest;
pub mod ids;
pub mod kind_limits;
pub mod limits;
pub mod log;
pub mod name;
pub mod options;
pub mod outcome;
pub mod problem;
pub mod receipt;
pub mod retry;
pub mod schedule;
pub mod state;

pub use attempt::Attempt;
pub use blob::Blob;
pub use decide::{Next, decide};
pub use digest::Digest;
pub use ids::{ClaimToken, JobId, KindId, RunnerId};
pub use kind_limits::KindLimits;
pub use limits::{EngineLimits, Limits};
pub use log::{Level, LogLine, LogTail};
pub use name::{InvalidName, check_name};
pub use options::{JobOptions, Unique, UniqueMode};
pub use outcome::{FailureCode, HandBack, Outcome, TrapName, Verdict};
pub use problem::Problem;
pub use receipt::Receipt;
pub use retry::{Backoff, BackoffForm, RetryPolicy};
pub use schedule::{Cron, InvalidCron, InvalidTiming, Timing, TooManyFires};
pub use state::JobState;
