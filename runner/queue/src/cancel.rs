//! Cancelling. What waits ends at once. For a job that runs a request is left; the node that runs it is
//! told, sees the request at its next look at the latest, and stops the handler. A request stands until
//! its job has ended: one that is to be tried again meanwhile is cancelled as it waits.

use chrono::{DateTime, Utc};
use stokehold_domain::{JobId, JobState, KindId, Problem};

use crate::database::bounded;
use crate::{Database, QueueError};

/// Requests that one call answers or follows; what is beyond them comes with the next.
const PAGE: i32 = 1_000;

/// What cancelling found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelAnswer {
    /// It waited, and is cancelled.
    Cancelled,
    /// It runs: its node is told to stop it. It ends as cancelled unless it ends by itself first.
    Requested,
    /// It had ended before, in this state.
    Ended(JobState),
    /// There is no such job.
    Unknown,
}

/// A running job that is to be cancelled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CancelRequest {
    /// Which.
    pub job_id: JobId,
    /// Why, as whoever asked put it.
    pub reason: String,
}

/// Jobs that have not ended.
#[derive(Clone, Debug, Default)]
pub struct LiveFilter {
    /// Only of this kind.
    pub kind: Option<KindId>,
    /// Only of the kinds in this queue.
    pub queue: Option<String>,
    /// Only in one of these states; empty for any.
    pub states: Vec<JobState>,
    /// Only such as were enqueued before this time.
    pub enqueued_before: Option<DateTime<Utc>>,
}

/// What cancelling many found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CancelledMany {
    /// Jobs that waited and are cancelled.
    pub cancelled: i64,
    /// Jobs that run and whose nodes are told.
    pub requested: i64,
    /// The last job that was looked at; there may be more behind it.
    pub last: Option<JobId>,
}

impl Database {
    /// How many live jobs the filter is true of and nobody has asked to cancel, counted up to `most`.
    pub async fn count_live(&self, filter: &LiveFilter, most: i64) -> Result<i64, QueueError> {
        let ids = self.live(filter, JobId(0), most).await?;
        Ok(i64::try_from(ids.len()).unwrap_or(i64::MAX))
    }

    /// Cancels up to `most` of the live jobs behind `after` that the filter is true of, in order of id and
    /// in one transaction.
    pub async fn cancel_live(
        &self,
        filter: &LiveFilter,
        reason: &str,
        after: JobId,
        most: i64,
    ) -> Result<CancelledMany, QueueError> {
        let ids = self.live(filter, after, most).await?;
        let problem = serde_json::to_value(Problem::new(reason)).expect("a problem is strings");
        let row = bounded!(self, "cancel jobs", |conn| {
            sqlx::query!(
            r#"select count(*) filter (where answer = 'cancelled') as "cancelled!",
                 count(*) filter (where answer = 'requested') as "requested!"
               from (select stokehold.cancel_job(id, $2) as answer from unnest($1::bigint[]) as id) done"#,
            &ids,
            problem
        )
        .fetch_one(conn)
        })?;
        Ok(CancelledMany {
            cancelled: row.cancelled,
            requested: row.requested,
            last: ids.last().copied().map(JobId),
        })
    }

    /// The ids of up to `most` live jobs behind `after` that the filter is true of, in order.
    async fn live(
        &self,
        filter: &LiveFilter,
        after: JobId,
        most: i64,
    ) -> Result<Vec<i64>, QueueError> {
        let states: Vec<&str> = filter.states.iter().map(|state| state.as_str()).collect();
        let states = (!states.is_empty()).then_some(states);
        bounded!(self, "find live jobs", |conn| sqlx::query_file_scalar!(
            "src/sql/live.sql",
            filter.kind.map(|kind| kind.0),
            filter.queue,
            states.as_deref() as Option<&[&str]>,
            filter.enqueued_before,
            after.0,
            most
        )
        .fetch_all(conn))
    }

    /// Cancels the job if it waits, and leaves a request if it runs.
    pub async fn cancel(&self, id: JobId, reason: &str) -> Result<CancelAnswer, QueueError> {
        let problem = serde_json::to_value(Problem::new(reason)).expect("a problem is strings");
        let answer = bounded!(self, "cancel a job", |conn| sqlx::query_scalar!(
            r#"select stokehold.cancel_job($1, $2) as "answer!""#,
            id.0,
            problem
        )
        .fetch_one(conn))?;
        Ok(match answer.as_str() {
            "cancelled" => CancelAnswer::Cancelled,
            "requested" => CancelAnswer::Requested,
            other => match other.strip_prefix("was-").and_then(|state| state.parse().ok()) {
                Some(state) => CancelAnswer::Ended(state),
                None => CancelAnswer::Unknown,
            },
        })
    }

    /// Running jobs, of any node, that are to be cancelled: the oldest requests first.
    pub async fn cancel_requests(&self) -> Result<Vec<CancelRequest>, QueueError> {
        let rows = bounded!(self, "read requests to cancel", |conn| sqlx::query!(
            r#"select job_id, coalesce(problem->>'message', '') as "reason!"
               from stokehold.cancels order by requested_at limit $1"#,
            i64::from(PAGE)
        )
        .fetch_all(conn))?;
        let request = |job_id, reason| CancelRequest { job_id: JobId(job_id), reason };
        Ok(rows.into_iter().map(|row| request(row.job_id, row.reason)).collect())
    }

    /// Cancels what was to be cancelled while it ran and waits again, forgets the requests for what has
    /// ended, and says how many were cancelled. For any node, at any time.
    pub async fn follow_cancels(&self) -> Result<i32, QueueError> {
        bounded!(self, "follow requests to cancel", |conn| sqlx::query_scalar!(
            r#"select stokehold.follow_cancels($1) as "cancelled!""#,
            PAGE
        )
        .fetch_one(conn))
    }
}
