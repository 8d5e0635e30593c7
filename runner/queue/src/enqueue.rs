//! Enqueueing: one call of the SQL contract, whatever the number of jobs.

use chrono::{DateTime, Utc};
use serde_json::Value;
use stokehold_domain::{Blob, JobId};

use crate::database::bounded;
use crate::{Database, QueueError};

/// The most jobs in one call.
pub const MAX_JOBS: usize = 10_000;

/// A job to be made. What is `None` follows the kind's policy.
#[derive(Clone, Debug)]
pub struct NewJob {
    /// The kind's name.
    pub kind: String,
    /// The input; at most [`stokehold_domain::EngineLimits::PAYLOAD_BYTES`].
    pub payload: Blob,
    /// Not before this time; at once if past or `None`.
    pub run_at: Option<DateTime<Utc>>,
    /// Lower runs first; −1000 to 1000.
    pub priority: Option<i32>,
    /// Tries in all; 1 to 1000.
    pub max_attempts: Option<i32>,
    /// A JSON object of at most 16 KiB.
    pub metadata: Option<Value>,
}

impl NewJob {
    /// A job of the kind with this payload and the kind's policy in all else.
    pub fn new(kind: impl Into<String>, payload: Blob) -> Self {
        NewJob {
            kind: kind.into(),
            payload,
            run_at: None,
            priority: None,
            max_attempts: None,
            metadata: None,
        }
    }
}

impl Database {
    /// Makes all jobs or none and returns their ids in the same order. When it returns they are
    /// committed.
    ///
    /// # Errors
    /// [`QueueError::Refused`] names the first job that is wrong, counted from 1, and why.
    pub async fn enqueue(&self, jobs: &[NewJob]) -> Result<Vec<JobId>, QueueError> {
        let kinds: Vec<&str> = jobs.iter().map(|job| job.kind.as_str()).collect();
        let payloads: Vec<&[u8]> = jobs.iter().map(|job| job.payload.bytes.as_slice()).collect();
        let media_types: Vec<&str> =
            jobs.iter().map(|job| job.payload.media_type.as_str()).collect();
        let run_ats: Vec<Option<DateTime<Utc>>> = jobs.iter().map(|job| job.run_at).collect();
        let priorities: Vec<Option<i32>> = jobs.iter().map(|job| job.priority).collect();
        let max_attempts: Vec<Option<i32>> = jobs.iter().map(|job| job.max_attempts).collect();
        let metadatas: Vec<Option<&Value>> = jobs.iter().map(|job| job.metadata.as_ref()).collect();
        let ids = bounded!(self, "enqueue jobs", |conn| {
            sqlx::query_scalar!(
            r#"select id as "id!" from stokehold.enqueue_many($1, $2, $3, $4, $5, $6, $7) as id"#,
            &kinds as &[&str],
            &payloads as &[&[u8]],
            &media_types as &[&str],
            &run_ats as &[Option<DateTime<Utc>>],
            &priorities as &[Option<i32>],
            &max_attempts as &[Option<i32>],
            &metadatas as &[Option<&Value>],
        )
        .fetch_all(conn)
        })?;
        Ok(ids.into_iter().map(JobId).collect())
    }
}
