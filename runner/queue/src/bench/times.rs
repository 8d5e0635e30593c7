//! The times that the database itself wrote down, in pieces that fit into memory and deadlines
//! however many jobs there are, and a cheap way to see whether any job is left.

use stokehold_domain::{JobId, JobState, KindId};

use crate::database::bounded;
use crate::{Database, QueueError};

/// The times of one ended job, by the database's clock.
#[derive(Clone, Copy, Debug)]
pub struct JobTimes {
    /// Which job.
    pub id: JobId,
    /// When it was enqueued, in seconds since 1970.
    pub enqueued_s: f64,
    /// From then until the claim that ended it, in seconds.
    pub start_s: f64,
    /// From then until its outcome was written, in seconds.
    pub done_s: f64,
    /// From then until the time that its handler answered with, in seconds, by the clock of the node: if
    /// the result is eight bytes that say a time of that span, as nanoseconds since 1970 with the lowest
    /// byte first.
    pub handler_s: Option<f64>,
}

/// When the jobs of a run began and ended, by the database's clock in seconds since 1970.
#[derive(Clone, Copy, Debug)]
pub struct JobSpan {
    /// How many have ended.
    pub jobs: i64,
    /// How many of them ended well.
    pub completed: i64,
    /// The first start.
    pub first_start_s: f64,
    /// The last outcome.
    pub last_end_s: f64,
}

impl Database {
    /// How many jobs of a kind are in each state. Counts every row: for kinds of known size.
    pub async fn count_jobs(&self, kind: KindId) -> Result<Vec<(JobState, i64)>, QueueError> {
        let rows = bounded!(self, "count jobs", |conn| sqlx::query!(
            r#"select state::text as "state!", count(*) as "jobs!" from (
                 select state from stokehold.live_jobs where kind_id = $1
                 union all select state from stokehold.job_history where kind_id = $1) job
               group by state"#,
            kind.0
        )
        .fetch_all(conn))?;
        Ok(rows.into_iter().filter_map(|row| Some((row.state.parse().ok()?, row.jobs))).collect())
    }

    /// The highest id of a job that was ever made: where the jobs of the next run begin.
    pub async fn newest_job(&self) -> Result<JobId, QueueError> {
        let newest = bounded!(self, "read the newest id", |conn| {
            sqlx::query_scalar!(
            "select pg_sequence_last_value(pg_get_serial_sequence('stokehold.jobs', 'id')::regclass)"
        )
        .fetch_one(conn)
        })?;
        Ok(JobId(newest.unwrap_or(0)))
    }

    /// Whether a job of the kinds with an id above `after` lives. It looks at the newest one first,
    /// whatever its kind: while a queue drains in order that row is the answer, and the dead entries of
    /// what has ended are not walked before the end. Asked for the kinds at once the planner may take
    /// them for rare, and scans the table.
    pub async fn any_live(&self, kinds: &[KindId], after: JobId) -> Result<bool, QueueError> {
        bounded!(self, "look for live jobs", |conn| sqlx::query_scalar!(
            r#"with newest as materialized (
                 select kind_id from stokehold.jobs where id > $2 order by id desc limit 1)
               select coalesce((
                 select kind_id = any($1) or exists (
                   select from stokehold.jobs where id > $2 and kind_id = any($1))
                 from newest), false) as "any!""#,
            &ids(kinds),
            after.0
        )
        .fetch_one(conn))
    }

    /// Rows ever deleted from the table of live jobs, up to a second ago: it grows while jobs end,
    /// and reading it touches no job.
    pub async fn ended_so_far(&self) -> Result<i64, QueueError> {
        let deleted = bounded!(self, "read the number of ended jobs", |conn| sqlx::query_scalar!(
            r#"select pg_stat_get_tuples_deleted('stokehold.jobs'::regclass) as "deleted!""#
        )
        .fetch_one(conn))?;
        Ok(deleted)
    }

    /// When the ended jobs of some kinds with ids above `after` began and ended; `None` when none has.
    pub async fn job_span(
        &self,
        kinds: &[KindId],
        after: JobId,
    ) -> Result<Option<JobSpan>, QueueError> {
        let row = bounded!(self, "read the span of a run", |conn| {
            sqlx::query!(
            r#"select count(*) as "jobs!", count(*) filter (where state = 'completed') as "completed!",
                 date_part('epoch', min(started_at)) as first_start_s,
                 date_part('epoch', max(finished_at)) as last_end_s
               from stokehold.job_history
               where kind_id = any($1) and id > $2 and started_at is not null"#,
            &ids(kinds),
            after.0
        )
        .fetch_one(conn)
        })?;
        Ok(row.first_start_s.zip(row.last_end_s).map(|(first_start_s, last_end_s)| JobSpan {
            jobs: row.jobs,
            completed: row.completed,
            first_start_s,
            last_end_s,
        }))
    }

    /// One page of the times of ended jobs of some kinds, in order of id, from after `after` on.
    pub async fn job_times(
        &self,
        kinds: &[KindId],
        after: JobId,
        most: i64,
    ) -> Result<Vec<JobTimes>, QueueError> {
        let rows = bounded!(self, "read job times", |conn| sqlx::query!(
            r#"select id, date_part('epoch', enqueued_at) as "enqueued_s!",
                 date_part('epoch', started_at - enqueued_at) as "start_s!",
                 date_part('epoch', finished_at - enqueued_at) as "done_s!",
                 case when octet_length(result) = 8 then result end as clock
               from stokehold.job_history
               where kind_id = any($1) and id > $2 and started_at is not null
               order by id limit $3"#,
            &ids(kinds),
            after.0,
            most
        )
        .fetch_all(conn))?;
        Ok(rows
            .into_iter()
            .map(|row| JobTimes {
                id: JobId(row.id),
                enqueued_s: row.enqueued_s,
                start_s: row.start_s,
                done_s: row.done_s,
                handler_s: row
                    .clock
                    .and_then(|bytes| Some(u64::from_le_bytes(bytes.try_into().ok()?)))
                    .map(|ns| ns as f64 / 1e9 - row.enqueued_s)
                    .filter(|s| (0.0..=row.done_s).contains(s)),
            })
            .collect())
    }
}

fn ids(kinds: &[KindId]) -> Vec<i32> {
    kinds.iter().map(|kind| kind.0).collect()
}
