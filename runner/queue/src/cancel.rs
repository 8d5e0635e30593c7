//! Cancelling. What waits ends at once. For a job that runs a request is left; the node that runs it is
//! told, sees the request at its next look at the latest, and stops the handler. A request stands until
//! its job has ended: one that is to be tried again meanwhile is cancelled as it waits.

use stokehold_domain::{JobId, JobState, Problem};

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

impl Database {
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
