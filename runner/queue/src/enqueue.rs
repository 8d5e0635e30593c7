//! Enqueueing: one call of the SQL contract, whatever the number of jobs.

use chrono::{DateTime, Utc};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use stokehold_domain::{Blob, Digest, JobId, JobOptions};

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
    /// What else it says about itself.
    pub options: JobOptions,
}

/// What enqueueing a job came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enqueued {
    /// It is a job of its own.
    Inserted(JobId),
    /// This job has its unique key, and nothing was made.
    Existing(JobId),
    /// This job has its unique key, and has its input from now on.
    Replaced(JobId),
}

impl Enqueued {
    /// The job that was made, or the one that was there.
    pub fn id(self) -> JobId {
        let (Enqueued::Inserted(id) | Enqueued::Existing(id) | Enqueued::Replaced(id)) = self;
        id
    }

    fn read(id: i64, answer: &str) -> Self {
        match answer {
            "existing" => Enqueued::Existing(JobId(id)),
            "replaced" => Enqueued::Replaced(JobId(id)),
            _ => Enqueued::Inserted(JobId(id)),
        }
    }
}

/// A request that may be repeated.
#[derive(Clone, Copy, Debug)]
pub struct Repeatable<'a> {
    /// Whose keys these are, at most 255 bytes.
    pub scope: &'a str,
    /// The key, 1 to 255 bytes; remembered for 7 days.
    pub key: &'a str,
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
            options: JobOptions::default(),
        }
    }
}

/// Jobs as the enqueue functions take them, one vector for each parameter.
struct Columns<'a> {
    kinds: Vec<&'a str>,
    payloads: Vec<&'a [u8]>,
    media_types: Vec<&'a str>,
    run_ats: Vec<Option<DateTime<Utc>>>,
    priorities: Vec<Option<i32>>,
    max_attempts: Vec<Option<i32>>,
    metadatas: Vec<Option<&'a Value>>,
    /// Absent when no job has any: they are not looked at then.
    options: Option<Vec<Option<Value>>>,
}

impl<'a> Columns<'a> {
    fn of(jobs: &'a [NewJob]) -> Self {
        let options: Vec<Option<Value>> = jobs.iter().map(|job| job.options.to_json()).collect();
        Columns {
            kinds: jobs.iter().map(|job| job.kind.as_str()).collect(),
            payloads: jobs.iter().map(|job| job.payload.bytes.as_slice()).collect(),
            media_types: jobs.iter().map(|job| job.payload.media_type.as_str()).collect(),
            run_ats: jobs.iter().map(|job| job.run_at).collect(),
            priorities: jobs.iter().map(|job| job.priority).collect(),
            max_attempts: jobs.iter().map(|job| job.max_attempts).collect(),
            metadatas: jobs.iter().map(|job| job.metadata.as_ref()).collect(),
            options: options.iter().any(Option::is_some).then_some(options),
        }
    }

    /// Tells whether another request is the same.
    fn digest(&self) -> Digest {
        let rest = (
            (&self.kinds, &self.media_types, &self.run_ats),
            (&self.priorities, &self.max_attempts, &self.metadatas, &self.options),
        );
        let mut bytes =
            serde_json::to_vec(&rest).expect("texts, times and numbers, which JSON can carry");
        for payload in &self.payloads {
            bytes.extend((payload.len() as u64).to_be_bytes());
            bytes.extend(*payload);
        }
        Digest(Sha256::digest(&bytes).into())
    }
}

impl Database {
    /// Makes all jobs or none and returns their ids in the same order; where a job has a unique key that another
    /// job holds, that one's. When it returns they are committed.
    ///
    /// # Errors
    /// [`QueueError::Refused`] names the first job that is wrong, counted from 1, and why.
    pub async fn enqueue(&self, jobs: &[NewJob]) -> Result<Vec<JobId>, QueueError> {
        Ok(self.enqueue_all(jobs).await?.into_iter().map(Enqueued::id).collect())
    }

    /// As [`Database::enqueue`], and says what became of each.
    ///
    /// # Errors
    /// As [`Database::enqueue`].
    pub async fn enqueue_all(&self, jobs: &[NewJob]) -> Result<Vec<Enqueued>, QueueError> {
        let columns = Columns::of(jobs);
        let rows = bounded!(self, "enqueue jobs", |conn| {
            sqlx::query!(
                r#"select id as "id!", answer as "answer!"
               from stokehold.enqueue_many($1, $2, $3, $4, $5, $6, $7, $8)"#,
                &columns.kinds as &[&str],
                &columns.payloads as &[&[u8]],
                &columns.media_types as &[&str],
                &columns.run_ats as &[Option<DateTime<Utc>>],
                &columns.priorities as &[Option<i32>],
                &columns.max_attempts as &[Option<i32>],
                &columns.metadatas as &[Option<&Value>],
                columns.options.as_deref() as Option<&[Option<Value>]>,
            )
            .fetch_all(conn)
        })?;
        Ok(rows.into_iter().map(|row| Enqueued::read(row.id, &row.answer)).collect())
    }

    /// As [`Database::enqueue_all`], under a key: again with the same jobs it makes nothing and answers what it
    /// came to the first time, and `true`.
    ///
    /// # Errors
    /// As [`Database::enqueue`]; and [`crate::RefusalCode::Conflict`] when the key stands for other jobs.
    pub async fn enqueue_once(
        &self,
        request: Repeatable<'_>,
        jobs: &[NewJob],
    ) -> Result<(Vec<Enqueued>, bool), QueueError> {
        let columns = Columns::of(jobs);
        let digest = columns.digest();
        let rows = bounded!(self, "enqueue jobs under a key", |conn| {
            sqlx::query!(
                r#"select id as "id!", answer as "answer!", repeated as "repeated!"
               from stokehold.enqueue_once($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)"#,
                request.scope,
                request.key,
                &digest.0[..],
                &columns.kinds as &[&str],
                &columns.payloads as &[&[u8]],
                &columns.media_types as &[&str],
                &columns.run_ats as &[Option<DateTime<Utc>>],
                &columns.priorities as &[Option<i32>],
                &columns.max_attempts as &[Option<i32>],
                &columns.metadatas as &[Option<&Value>],
                columns.options.as_deref() as Option<&[Option<Value>]>,
            )
            .fetch_all(conn)
        })?;
        let repeated = rows.first().is_some_and(|row| row.repeated);
        Ok((rows.into_iter().map(|row| Enqueued::read(row.id, &row.answer)).collect(), repeated))
    }
}
