//! What the sandbox is told about the job it runs.

use crate::{Blob, ClaimToken, JobId, Problem};

/// One execution of a job, as handed to the sandbox.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// The job.
    pub job_id: JobId,
    /// The claim that this attempt belongs to.
    pub token: ClaimToken,
    /// The job's kind.
    pub kind: String,
    /// The queue its kind belongs to.
    pub queue: String,
    /// This try, from 1; snoozes and lost nodes do not advance it.
    pub attempt: u16,
    /// Tries allowed in all.
    pub max_attempts: u16,
    /// The input.
    pub payload: Blob,
    /// Pairs given at enqueue.
    pub metadata: Vec<(String, String)>,
    /// When it was enqueued, Unix milliseconds by the database's clock.
    pub enqueued_at_ms: u64,
    /// When it became due, Unix milliseconds by the database's clock.
    pub scheduled_at_ms: u64,
    /// How the previous attempt ended, if there was one.
    pub last_problem: Option<Problem>,
}

impl Attempt {
    /// The same for every attempt of one job.
    pub fn idempotency_key(&self) -> String {
        format!("stokehold-job-{}", self.job_id)
    }

    /// An attempt of a job that no database knows, for running a handler locally.
    pub fn local(kind: impl Into<String>, payload: Blob, now_ms: u64) -> Self {
        Attempt {
            job_id: JobId(0),
            token: ClaimToken(0),
            kind: kind.into(),
            queue: "local".to_owned(),
            attempt: 1,
            max_attempts: 1,
            payload,
            metadata: Vec::new(),
            enqueued_at_ms: now_ms,
            scheduled_at_ms: now_ms,
            last_problem: None,
        }
    }
}
