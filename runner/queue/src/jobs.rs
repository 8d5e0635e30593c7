//! Jobs as people see them: one, a page, the attempts, and cancelling one that waits.

use chrono::{DateTime, Utc};
use serde_json::Value;
use stokehold_domain::{
    Blob, ClaimToken, JobId, JobOptions, JobState, KindId, Problem, Receipt, RunnerId,
};

use crate::claim::{blob, count, problem};
use crate::database::bounded;
use crate::{Database, QueueError};

/// In how many of the newest jobs that the other filters leave the metadata is looked at.
pub const METADATA_WINDOW: i64 = 100_000;

/// Which jobs to list.
#[derive(Clone, Debug, Default)]
pub struct JobFilter {
    /// Only of this kind.
    pub kind: Option<KindId>,
    /// Only in one of these states; empty for any.
    pub states: Vec<JobState>,
    /// Only with each of these tags.
    pub tags: Vec<String>,
    /// Only such as have these pairs in their metadata; of the newest [`METADATA_WINDOW`] that the rest leaves.
    pub metadata: Option<Value>,
    /// Only ids below this one: where the last page ended.
    pub before: Option<JobId>,
}

/// A job in a list.
#[derive(Clone, Debug)]
pub struct JobSummary {
    /// Its id.
    pub id: JobId,
    /// Its kind.
    pub kind_id: KindId,
    /// Where it is in its life.
    pub state: JobState,
    /// Lower runs first.
    pub priority: i16,
    /// The latest attempt, from 1; 0 before the first.
    pub attempt: u16,
    /// Tries in all.
    pub max_attempts: u16,
    /// Nodes that died under it.
    pub lost: u16,
    /// When it is or was due.
    pub run_at: DateTime<Utc>,
    /// When it was enqueued.
    pub enqueued_at: DateTime<Utc>,
    /// When the latest attempt began, if it runs or has ended.
    pub started_at: Option<DateTime<Utc>>,
    /// When it ended.
    pub finished_at: Option<DateTime<Utc>>,
    /// The code of the outcome that ended it.
    pub outcome: Option<String>,
}

/// A job with all that is known of it.
#[derive(Clone, Debug)]
pub struct JobRecord {
    /// What a list shows.
    pub summary: JobSummary,
    /// Its kind's name.
    pub kind: String,
    /// The queue that its kind belongs to.
    pub queue: String,
    /// Snoozes so far.
    pub snoozes: u16,
    /// The runner that holds it or ended it.
    pub runner: Option<RunnerId>,
    /// The release that ended it; while it lives, the one that it is pinned to.
    pub release: Option<i32>,
    /// The ended job that it is a new try of.
    pub retry_of: Option<JobId>,
    /// The job that it was retried as.
    pub retried_as: Option<JobId>,
    /// The input.
    pub payload: Blob,
    /// Pairs given at enqueue.
    pub metadata: Option<Value>,
    /// What else it says about itself.
    pub options: JobOptions,
    /// The result of a success, if it had one.
    pub result: Option<Blob>,
    /// What went wrong last.
    pub problem: Option<Problem>,
    /// What the last attempt used; present when it has ended by one.
    pub receipt: Option<Receipt>,
}

/// One attempt of a job.
#[derive(Clone, Debug)]
pub struct AttemptRecord {
    /// From 1. Attempts that did not count share the number of the next.
    pub attempt: u16,
    /// The claim.
    pub token: ClaimToken,
    /// Who ran it.
    pub runner: Option<RunnerId>,
    /// What it ran.
    pub release: Option<i32>,
    /// When it began.
    pub started_at: Option<DateTime<Utc>>,
    /// When it ended; `None` while it runs.
    pub finished_at: Option<DateTime<Utc>>,
    /// How it ended.
    pub outcome: Option<String>,
    /// What went wrong.
    pub problem: Option<Problem>,
    /// What it used.
    pub receipt: Option<Receipt>,
}

impl Database {
    /// One page of jobs, newest first, at most `limit`.
    pub async fn jobs(
        &self,
        filter: &JobFilter,
        limit: i64,
    ) -> Result<Vec<JobSummary>, QueueError> {
        let states: Vec<&str> = filter.states.iter().map(|state| state.as_str()).collect();
        let states = (!states.is_empty()).then_some(states);
        let rows = bounded!(self, "list jobs", |conn| sqlx::query_file!(
            "src/sql/list_jobs.sql",
            filter.kind.map(|kind| kind.0),
            states.as_deref() as Option<&[&str]>,
            filter.before.map(|id| id.0),
            limit,
            (!filter.tags.is_empty()).then_some(filter.tags.as_slice()) as Option<&[String]>,
            filter.metadata,
            METADATA_WINDOW
        )
        .fetch_all(conn))?;
        Ok(rows
            .into_iter()
            .map(|row| JobSummary {
                id: JobId(row.id),
                kind_id: KindId(row.kind_id),
                state: state(&row.state),
                priority: row.priority,
                attempt: count(row.attempt),
                max_attempts: count(row.max_attempts),
                lost: count(row.lost),
                run_at: row.run_at,
                enqueued_at: row.enqueued_at,
                started_at: row.started_at,
                finished_at: row.finished_at,
                outcome: row.outcome,
            })
            .collect())
    }

    /// One job, live or ended.
    pub async fn job(&self, id: JobId) -> Result<Option<JobRecord>, QueueError> {
        let row =
            bounded!(self, "read a job", |conn| sqlx::query_file!("src/sql/get_job.sql", id.0)
                .fetch_optional(conn))?;
        Ok(row.map(|row| JobRecord {
            receipt: receipt(row.fuel, row.wall_us, row.peak_memory_bytes, row.host_calls),
            summary: JobSummary {
                id: JobId(row.id),
                kind_id: KindId(row.kind_id),
                state: state(&row.state),
                priority: row.priority,
                attempt: count(row.attempt),
                max_attempts: count(row.max_attempts),
                lost: count(row.lost),
                run_at: row.run_at,
                enqueued_at: row.enqueued_at,
                started_at: row.started_at,
                finished_at: row.finished_at,
                outcome: row.outcome,
            },
            kind: row.kind,
            queue: row.queue,
            snoozes: count(row.snoozes),
            runner: row.runner_id.map(RunnerId),
            release: row.release,
            retry_of: row.retry_of.map(JobId),
            retried_as: row.retried_as.map(JobId),
            payload: blob(row.media_type, row.payload),
            metadata: row.metadata,
            options: row.options.map(JobOptions::from_json).unwrap_or_default(),
            result: row.result.map(|bytes| blob(row.result_media_type, bytes)),
            problem: row.problem.and_then(problem),
        }))
    }

    /// Whether the job still lives: a cheap look, one index probe, for those who wait for its end.
    pub async fn is_live(&self, id: JobId) -> Result<bool, QueueError> {
        bounded!(self, "look whether a job lives", |conn| sqlx::query_scalar!(
            r#"select exists (select from stokehold.jobs where id = $1) as "lives!""#,
            id.0
        )
        .fetch_one(conn))
    }

    /// The attempts of a job in order, at most 1,000; empty for a job that does not exist.
    pub async fn attempts(&self, id: JobId) -> Result<Vec<AttemptRecord>, QueueError> {
        let rows = bounded!(self, "list attempts", |conn| sqlx::query_file!(
            "src/sql/attempts.sql",
            id.0
        )
        .fetch_all(conn))?;
        Ok(rows
            .into_iter()
            .map(|row| AttemptRecord {
                attempt: count(row.attempt),
                token: ClaimToken(row.token),
                runner: row.runner_id.map(RunnerId),
                release: row.release,
                started_at: row.started_at,
                finished_at: row.finished_at,
                outcome: row.outcome,
                problem: row.problem.and_then(problem),
                receipt: receipt(row.fuel, row.wall_us, row.peak_memory_bytes, row.host_calls),
            })
            .collect())
    }
}

fn state(text: &str) -> JobState {
    text.parse()
        .expect("the job_state type has exactly the words of JobState; a test compares them")
}

fn receipt(
    fuel: Option<i64>,
    wall_us: Option<i64>,
    peak_memory_bytes: Option<i64>,
    host_calls: Option<i64>,
) -> Option<Receipt> {
    let number = |value: Option<i64>| value.and_then(|value| u64::try_from(value).ok());
    Some(Receipt {
        fuel: number(fuel)?,
        wall_us: number(wall_us)?,
        peak_memory_bytes: number(peak_memory_bytes)?,
        host_calls: number(host_calls)?,
    })
}
