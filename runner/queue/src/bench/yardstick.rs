//! The yardstick: what this server, on this machine and today, gives to a queue in bare SQL that has no
//! runner around it. Figures of two machines cannot be compared; their ratios to it can.
//!
//! A plain table with one partial index. A claim marks rows, completing deletes them and writes them to
//! an archive, so that ended rows are kept. Each is one statement and one commit.

use std::time::{Duration, Instant};

use sqlx::postgres::{PgListener, PgPoolOptions};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor, PgConnection};
use tokio::task::JoinSet;

use crate::{Database, QueueError};

const WHAT: &str = "measure bare SQL";
/// Jobs in one enqueueing statement.
const CALL_JOBS: i32 = 10_000;

const BEFORE: &str = "
    drop schema if exists stokehold_yardstick cascade;
    create schema stokehold_yardstick;
    create table stokehold_yardstick.jobs (
      id bigint generated always as identity primary key,
      kind text not null default 'bench', status text not null default 'pending',
      priority smallint not null default 0, run_at timestamptz not null default now(),
      attempt int not null default 0, max_attempts int not null default 20,
      payload bytea not null, locked_by int, locked_at timestamptz,
      created_at timestamptz not null default now());
    create index on stokehold_yardstick.jobs (priority, run_at, id) where status = 'pending';
    create table stokehold_yardstick.archive (
      like stokehold_yardstick.jobs, finished_at timestamptz not null default now());
    create index on stokehold_yardstick.archive (id);";
const ENQUEUE: &str = "
    insert into stokehold_yardstick.jobs (payload)
    select $2::bytea from generate_series(1, $1::int)";
const COMPLETE: &str = "
    with done as (
      delete from stokehold_yardstick.jobs
      where id = any($1::bigint[]) and status = 'running' and locked_by = $2::int
      returning id, kind, priority, run_at, attempt, max_attempts, payload, locked_by, locked_at, created_at)
    insert into stokehold_yardstick.archive (id, kind, status, priority, run_at, attempt, max_attempts,
      payload, locked_by, locked_at, created_at)
    select id, kind, 'completed', priority, run_at, attempt, max_attempts, payload, locked_by, locked_at,
      created_at
    from done";
const CHANNEL: &str = "stokehold_yardstick";
const ENQUEUE_AND_NOTIFY: &str = "
    with new as (insert into stokehold_yardstick.jobs (payload) values ('1') returning id)
    select pg_notify('stokehold_yardstick', '') from new";
const AFTER: &str = "drop schema stokehold_yardstick cascade";

/// The limit stands in the text: as a parameter the planner takes it for a tenth of the table.
fn claim(batch: u32) -> String {
    format!(
        "with next as materialized (
           select id from stokehold_yardstick.jobs where status = 'pending' and run_at <= now()
           order by priority, run_at, id limit {batch} for update skip locked)
         update stokehold_yardstick.jobs job
         set status = 'running', attempt = attempt + 1, locked_by = $1::int, locked_at = now()
         from next where job.id = next.id
         returning job.id, job.kind, job.payload, job.attempt"
    )
}

impl Database {
    /// Enqueues so many jobs with this payload, claims and completes them in batches over so many
    /// connections, and returns the jobs a second of the second part. It works in a schema of its own,
    /// which is gone afterwards.
    pub async fn yardstick(
        &self,
        jobs: i32,
        payload: &[u8],
        batch: u32,
        connections: i32,
    ) -> Result<f64, QueueError> {
        self.bare(jobs, payload, batch, connections)
            .await
            .map_err(|source| QueueError::from_driver(WHAT, source))
    }

    /// From just before a single job is enqueued until a session that waits for notifications has claimed
    /// it, for so many jobs so far apart.
    pub async fn yardstick_latency(
        &self,
        jobs: usize,
        spacing: Duration,
    ) -> Result<Vec<Duration>, QueueError> {
        self.bare_latency(jobs, spacing)
            .await
            .map_err(|source| QueueError::from_driver(WHAT, source))
    }

    async fn bare_latency(
        &self,
        jobs: usize,
        spacing: Duration,
    ) -> Result<Vec<Duration>, sqlx::Error> {
        let mut admin = self.options().connect.connect().await?;
        admin.execute(BEFORE).await?;
        // One connection would do for listening and claiming; the driver has another one for each.
        let pool = PgPoolOptions::new().connect_with(self.options().connect.clone()).await?;
        let mut listener = PgListener::connect_with(&pool).await?;
        listener.listen(CHANNEL).await?;
        let mut worker = self.options().connect.connect().await?;
        let claim = claim(1);
        let mut times = Vec::with_capacity(jobs);
        for _ in 0..jobs {
            tokio::time::sleep(spacing).await;
            let begun = Instant::now();
            let claimed = async {
                loop {
                    listener.recv().await?;
                    let claim = sqlx::query_scalar::<_, i64>(AssertSqlSafe(claim.as_str()));
                    if claim.bind(0).fetch_optional(&mut worker).await?.is_some() {
                        return Ok::<_, sqlx::Error>(begun.elapsed());
                    }
                }
            };
            let enqueued = async {
                sqlx::query(ENQUEUE_AND_NOTIFY).execute(&mut admin).await?;
                Ok::<_, sqlx::Error>(())
            };
            let (time, ()) = tokio::try_join!(claimed, enqueued)?;
            times.push(time);
        }
        admin.execute(AFTER).await?;
        admin.close().await?;
        Ok(times)
    }

    async fn bare(
        &self,
        jobs: i32,
        payload: &[u8],
        batch: u32,
        connections: i32,
    ) -> Result<f64, sqlx::Error> {
        let mut admin = self.options().connect.connect().await?;
        admin.execute(BEFORE).await?;
        for from in (0..jobs).step_by(CALL_JOBS as usize) {
            let call = sqlx::query(ENQUEUE).bind(CALL_JOBS.min(jobs - from)).bind(payload);
            call.execute(&mut admin).await?;
        }
        admin.execute("vacuum analyze stokehold_yardstick.jobs").await?;
        let mut workers = Vec::new();
        for _ in 0..connections {
            workers.push(self.options().connect.connect().await?);
        }
        let begun = Instant::now();
        let mut working: JoinSet<Result<(), sqlx::Error>> =
            (0..).zip(workers).map(|(worker, conn)| work(conn, worker, batch)).collect();
        while let Some(ended) = working.join_next().await {
            ended.map_err(|panic| sqlx::Error::Protocol(panic.to_string()))??;
        }
        let seconds = begun.elapsed().as_secs_f64();
        admin.execute(AFTER).await?;
        admin.close().await?;
        Ok(f64::from(jobs) / seconds)
    }
}

/// Claims and completes until nothing is left.
async fn work(mut conn: PgConnection, worker: i32, batch: u32) -> Result<(), sqlx::Error> {
    let claim = claim(batch);
    loop {
        let claim = sqlx::query_scalar::<_, i64>(AssertSqlSafe(claim.as_str()));
        let ids = claim.bind(worker).fetch_all(&mut conn).await?;
        if ids.is_empty() {
            return conn.close().await;
        }
        sqlx::query(COMPLETE).bind(ids).bind(worker).execute(&mut conn).await?;
    }
}
