//! Figures for the benchmark and the demo: counts, and the times that the database itself wrote down.

use stokehold_domain::{JobId, JobState, KindId};

use crate::database::bounded;
use crate::{Database, QueueError};

/// The times of one ended job, in seconds from its enqueueing, by the database's clock.
#[derive(Clone, Copy, Debug)]
pub struct JobTimes {
    /// Until the claim that ended it.
    pub start_s: f64,
    /// Until its outcome was written.
    pub done_s: f64,
    /// When it was enqueued, in seconds since 1970.
    pub enqueued_s: f64,
}

impl Database {
    /// How many jobs of a kind are in each state. Counts every row: for kinds of known size.
    pub async fn count_jobs(&self, kind: KindId) -> Result<Vec<(JobState, i64)>, QueueError> {
        let rows = bounded!(self, "count jobs", |conn| sqlx::query!(
            r#"select state::text as "state!", count(*) as "jobs!" from (
                 select state from stokehold.jobs where kind_id = $1
                 union all select state from stokehold.job_history where kind_id = $1) job
               group by state"#,
            kind.0
        )
        .fetch_all(conn))?;
        Ok(rows.into_iter().filter_map(|row| Some((row.state.parse().ok()?, row.jobs))).collect())
    }

    /// How many live jobs of a kind there are.
    pub async fn count_live(&self, kind: KindId) -> Result<i64, QueueError> {
        bounded!(self, "count live jobs", |conn| sqlx::query_scalar!(
            r#"select count(*) as "jobs!" from stokehold.jobs where kind_id = $1"#,
            kind.0
        )
        .fetch_one(conn))
    }

    /// The times of ended jobs of a kind with ids above `after`.
    pub async fn job_times(&self, kind: KindId, after: JobId) -> Result<Vec<JobTimes>, QueueError> {
        let rows = bounded!(self, "read job times", |conn| sqlx::query!(
            r#"select extract(epoch from started_at - enqueued_at)::float8 as "start_s!",
                 extract(epoch from finished_at - enqueued_at)::float8 as "done_s!",
                 extract(epoch from enqueued_at)::float8 as "enqueued_s!"
               from stokehold.job_history
               where kind_id = $1 and id > $2 and started_at is not null"#,
            kind.0,
            after.0
        )
        .fetch_all(conn))?;
        Ok(rows
            .into_iter()
            .map(|row| JobTimes {
                start_s: row.start_s,
                done_s: row.done_s,
                enqueued_s: row.enqueued_s,
            })
            .collect())
    }
}
