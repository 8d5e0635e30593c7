//! Changing jobs that wait: when they run, how urgently, with what.

use chrono::{DateTime, Utc};
use serde_json::Value;
use stokehold_domain::{Blob, JobId, JobState};

use crate::database::bounded;
use crate::{Database, QueueError};

/// What to change of a job; `None` leaves it as it is.
#[derive(Clone, Debug, Default)]
pub struct Edit {
    /// Not before this time; at once if past.
    pub run_at: Option<DateTime<Utc>>,
    /// Lower runs first; −1000 to 1000.
    pub priority: Option<i32>,
    /// Tries in all, more than it has had; up to 1000.
    pub max_attempts: Option<i32>,
    /// The input.
    pub payload: Option<Blob>,
    /// A JSON object of at most 16 KiB.
    pub metadata: Option<Value>,
    /// The release that every further attempt is to run.
    pub release: Option<i32>,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edited {
    /// It is as it should be.
    Done,
    /// It runs: nothing changed.
    Runs,
    /// Its kind has no such release: nothing changed.
    NoRelease,
    /// It had ended before, in this state.
    Ended(JobState),
    /// There is no such job.
    Unknown,
}

impl Database {
    /// Changes a job that waits, all of it or nothing.
    ///
    /// # Errors
    /// [`QueueError::Refused`] for what enqueueing would refuse.
    pub async fn edit(&self, id: JobId, edit: &Edit) -> Result<Edited, QueueError> {
        let payload = edit.payload.as_ref();
        let answer = bounded!(self, "change a job", |conn| sqlx::query_scalar!(
            r#"select stokehold.edit_job($1, $2, $3, $4, $5, $6, $7, $8) as "answer!""#,
            id.0,
            edit.run_at,
            edit.priority,
            edit.max_attempts,
            payload.map(|payload| payload.bytes.as_slice()),
            payload.map(|payload| payload.media_type.as_str()),
            edit.metadata,
            edit.release
        )
        .fetch_one(conn))?;
        Ok(match answer.as_str() {
            "edited" => Edited::Done,
            "runs" => Edited::Runs,
            "no-release" => Edited::NoRelease,
            other => match other.strip_prefix("was-").and_then(|state| state.parse().ok()) {
                Some(state) => Edited::Ended(state),
                None => Edited::Unknown,
            },
        })
    }
}
