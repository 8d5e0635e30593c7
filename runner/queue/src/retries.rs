//! Running ended jobs again: as new jobs that are linked to the old ones.

use chrono::{DateTime, Utc};
use stokehold_domain::{Blob, JobId, JobState, KindId};

use crate::database::bounded;
use crate::{Database, QueueError};

/// How an ended job is to be run again.
#[derive(Clone, Debug, Default)]
pub struct Retry {
    /// Another input than it had.
    pub payload: Option<Blob>,
    /// The release that every attempt is to run; `None` for the one that is active at each claim.
    pub release: Option<i32>,
    /// Not before this time; at once if past or `None`.
    pub run_at: Option<DateTime<Utc>>,
    /// Even if it is completed.
    pub even_completed: bool,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retried {
    /// There is a new job.
    As(JobId),
    /// It had been retried, as this job.
    Before(JobId),
    /// This job has its unique key.
    Held(JobId),
    /// It is completed, and that is not to be run again.
    Completed,
    /// It has not ended.
    Live,
    /// Its kind has no such release.
    NoRelease,
    /// There is no such job.
    Unknown,
}

/// Ended jobs that did not complete and have not been retried yet.
#[derive(Clone, Debug, Default)]
pub struct EndedFilter {
    /// Only of this kind.
    pub kind: Option<KindId>,
    /// Only discarded or only cancelled ones; empty for both.
    pub states: Vec<JobState>,
    /// Only with this outcome, or with one that begins with it and a dot: `limit` has `limit.fuel`.
    pub outcome: Option<String>,
    /// Only such as ended at this time or after it.
    pub ended_from: Option<DateTime<Utc>>,
    /// Only such as ended before this time.
    pub ended_before: Option<DateTime<Utc>>,
}

impl Database {
    /// Enqueues an ended job anew: same kind, priority, attempts and metadata.
    ///
    /// # Errors
    /// [`QueueError::Refused`] for a payload that enqueueing would refuse.
    pub async fn retry(&self, id: JobId, retry: &Retry) -> Result<Retried, QueueError> {
        let payload = retry.payload.as_ref();
        let row = bounded!(self, "retry a job", |conn| {
            sqlx::query!(
            r#"select answer as "answer!", new_job from stokehold.retry_job($1, $2, $3, $4, $5, $6)"#,
            id.0,
            payload.map(|payload| payload.bytes.as_slice()),
            payload.map(|payload| payload.media_type.as_str()),
            retry.release,
            retry.run_at,
            retry.even_completed
        )
        .fetch_one(conn)
        })?;
        let job = JobId(row.new_job.unwrap_or_default());
        Ok(match row.answer.as_str() {
            "retried" => Retried::As(job),
            "before" => Retried::Before(job),
            "held" => Retried::Held(job),
            "was-completed" => Retried::Completed,
            "live" => Retried::Live,
            "no-release" => Retried::NoRelease,
            _ => Retried::Unknown,
        })
    }

    /// How many ended jobs the filter is true of, counted up to `most`.
    pub async fn count_ended(&self, filter: &EndedFilter, most: i64) -> Result<i64, QueueError> {
        let ids = self.ended(filter, JobId(0), most).await?;
        Ok(i64::try_from(ids.len()).unwrap_or(i64::MAX))
    }

    /// The ids of up to `most` ended jobs behind `after` that the filter is true of, in order.
    async fn ended(
        &self,
        filter: &EndedFilter,
        after: JobId,
        most: i64,
    ) -> Result<Vec<i64>, QueueError> {
        let states = match filter.states.as_slice() {
            [] => &[JobState::Discarded, JobState::Cancelled],
            states => states,
        };
        let states: Vec<&str> = states.iter().map(|state| state.as_str()).collect();
        bounded!(self, "find ended jobs", |conn| sqlx::query_file_scalar!(
            "src/sql/ended.sql",
            filter.kind.map(|kind| kind.0),
            &states as &[&str],
            filter.outcome,
            filter.ended_from,
            filter.ended_before,
            after.0,
            most
        )
        .fetch_all(conn))
    }

    /// Retries up to `most` of the ended jobs behind `after` that the filter is true of, in order of id and
    /// in one transaction; each with the payload that it had. Says how many were, and the last that was
    /// looked at: there may be more behind it.
    pub async fn retry_ended(
        &self,
        filter: &EndedFilter,
        retry: &Retry,
        after: JobId,
        most: i64,
    ) -> Result<(i64, Option<JobId>), QueueError> {
        let ids = self.ended(filter, after, most).await?;
        let last = ids.last().copied().map(JobId);
        let retried = bounded!(self, "retry jobs", |conn| sqlx::query_scalar!(
            r#"select count(*) filter (where done.answer = 'retried') as "retried!"
               from unnest($1::bigint[]) as old(id)
               cross join lateral stokehold.retry_job(old.id, null, null, $2, $3, false) done"#,
            &ids,
            retry.release,
            retry.run_at
        )
        .fetch_one(conn))?;
        Ok((retried, last))
    }
}
