//! Runners: registration, the lease that one small row carries, and the way out.

use std::time::Duration;

use chrono::{DateTime, Utc};
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, PgConnection};
use stokehold_domain::{JobId, RunnerId};

use crate::database::bounded;
use crate::{Database, QueueError};

/// What a runner says of itself when it registers.
#[derive(Clone, Debug)]
pub struct RunnerRegistration {
    /// A name for people, such as the host's; need not be unique.
    pub name: String,
    /// The version of the binary.
    pub version: String,
    /// The queues it serves; `None` serves all.
    pub queues: Option<Vec<String>>,
    /// Attempts it runs at once.
    pub slots: i32,
    /// How long the lease lasts without a beat.
    pub lease: Duration,
}

/// A runner as listed.
#[derive(Clone, Debug)]
pub struct RunnerRecord {
    /// Its id.
    pub id: RunnerId,
    /// Its name.
    pub name: String,
    /// The version of its binary.
    pub version: String,
    /// The queues it serves; `None` serves all.
    pub queues: Option<Vec<String>>,
    /// Attempts it runs at once.
    pub slots: i32,
    /// `live`, `stopped` or `dead`; a live one whose lease is over counts as dead already.
    pub state: String,
    /// When it registered.
    pub registered_at: DateTime<Utc>,
    /// Its last beat.
    pub beat_at: DateTime<Utc>,
    /// Jobs it holds now.
    pub running: i64,
    /// It has been told to stop in order.
    pub draining: bool,
}

impl Database {
    /// Registers a runner under a fresh id, with its lease begun. Rows of runners that ended over a
    /// day ago and hold nothing go on this occasion.
    pub async fn register_runner(
        &self,
        runner: &RunnerRegistration,
    ) -> Result<RunnerId, QueueError> {
        let id = bounded!(self, "register the runner", |conn| {
            sqlx::query_scalar!(
            r#"with forgotten as (
                 delete from stokehold.runners old
                 where old.state <> 'live' and old.ended_at < clock_timestamp() - interval '1 day'
                   and not exists (select from stokehold.claims claim where claim.runner_id = old.id))
               insert into stokehold.runners (name, version, queues, slots, lease_expires_at)
               values ($1, $2, $3, $4, clock_timestamp() + $5::float8 * interval '1 second')
               returning id"#,
            runner.name,
            runner.version,
            runner.queues.as_deref() as Option<&[String]>,
            runner.slots,
            runner.lease.as_secs_f64(),
        )
        .fetch_one(conn)
        })?;
        Ok(RunnerId(id))
    }

    /// Ends a registration. What it still holds is given back by the next sweep.
    pub async fn stop_runner(&self, runner: RunnerId) -> Result<(), QueueError> {
        bounded!(self, "stop the runner", |conn| sqlx::query!(
            r#"with stopped as (
                 update stokehold.runners set state = 'stopped', ended_at = clock_timestamp()
                 where id = $1 and state = 'live')
               delete from stokehold.sleepers where runner_id = $1"#,
            runner.0
        )
        .execute(conn))?;
        Ok(())
    }

    /// Tells the live runners of this name or id to stop in order, and says which they are. They learn of it with
    /// their next beat.
    pub async fn drain(&self, runner: &str) -> Result<Vec<RunnerId>, QueueError> {
        let ids = bounded!(self, "drain a runner", |conn| sqlx::query_scalar!(
            "update stokehold.runners set drain_at = coalesce(drain_at, clock_timestamp())
             where state = 'live' and (name = $1 or id::text = $1)
             returning id",
            runner
        )
        .fetch_all(conn))?;
        Ok(ids.into_iter().map(RunnerId).collect())
    }

    /// Says which job with losses behind it the runner runs now, before it runs; only the loss of
    /// that one counts on.
    pub async fn mark_suspect(
        &self,
        runner: RunnerId,
        job: Option<JobId>,
    ) -> Result<(), QueueError> {
        bounded!(self, "mark the suspect", |conn| sqlx::query!(
            "update stokehold.runners set suspect_job = $2 where id = $1",
            runner.0,
            job.map(|job| job.0)
        )
        .execute(conn))?;
        Ok(())
    }

    /// Announces that the runner waits for work, or that it no longer does. While it is announced,
    /// enqueueing notifies.
    pub async fn set_sleeping(&self, runner: RunnerId, sleeping: bool) -> Result<(), QueueError> {
        if sleeping {
            bounded!(self, "announce sleep", |conn| sqlx::query!(
                "insert into stokehold.sleepers (runner_id) values ($1) on conflict do nothing",
                runner.0
            )
            .execute(conn))?;
        } else {
            bounded!(self, "announce waking", |conn| sqlx::query!(
                "delete from stokehold.sleepers where runner_id = $1",
                runner.0
            )
            .execute(conn))?;
        }
        Ok(())
    }

    /// Runners that live or ended within the last day, newest first.
    pub async fn runners(&self) -> Result<Vec<RunnerRecord>, QueueError> {
        let rows =
            bounded!(self, "list runners", |conn| sqlx::query_file!("src/sql/list_runners.sql")
                .fetch_all(conn))?;
        Ok(rows
            .into_iter()
            .map(|row| RunnerRecord {
                id: RunnerId(row.id),
                name: row.name,
                version: row.version,
                queues: row.queues,
                slots: row.slots,
                state: row.state,
                registered_at: row.registered_at,
                beat_at: row.beat_at,
                running: row.running,
                draining: row.draining,
            })
            .collect())
    }
}

/// What a beat is answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beat {
    /// The lease is renewed.
    Alive,
    /// It is renewed, and somebody wants the runner to stop in order.
    Drain,
    /// The id is dead for ever.
    Dead,
}

/// The connection that renews a lease: its own, so that no pool and no slow statement stands between
/// a runner and its life.
#[derive(Debug)]
pub struct LeaseConnection {
    options: PgConnectOptions,
    lease: Duration,
    connection: Option<PgConnection>,
}

impl LeaseConnection {
    /// Connects at the first beat.
    pub fn new(database: &Database, lease: Duration) -> Self {
        let options = database.options().connect.clone().application_name("stokehold-lease");
        LeaseConnection { options, lease, connection: None }
    }

    /// Renews the lease, and says what the database thinks of the runner.
    pub async fn beat(&mut self, runner: RunnerId, limit: Duration) -> Result<Beat, QueueError> {
        const WHAT: &str = "renew the lease";
        // Taken out: whatever goes wrong with it, the next beat opens a new one.
        let connection = self.connection.take();
        let renewed = tokio::time::timeout(limit, async {
            let mut connection = match connection {
                Some(connection) => connection,
                None => self.options.connect().await?,
            };
            let done = sqlx::query!(
                r#"update stokehold.runners
                   set beat_at = clock_timestamp(),
                     lease_expires_at = clock_timestamp() + $2::float8 * interval '1 second'
                   where id = $1 and state = 'live'
                   returning drain_at is not null as "drains!""#,
                runner.0,
                self.lease.as_secs_f64(),
            )
            .fetch_optional(&mut connection)
            .await?;
            let beat = match done {
                None => Beat::Dead,
                Some(row) if row.drains => Beat::Drain,
                Some(_) => Beat::Alive,
            };
            Ok::<_, sqlx::Error>((connection, beat))
        })
        .await;
        match renewed {
            Ok(Ok((connection, beat))) => {
                self.connection = Some(connection);
                Ok(beat)
            }
            Ok(Err(source)) => Err(QueueError::from_driver(WHAT, source)),
            Err(_) => Err(QueueError::Timeout { what: WHAT, limit }),
        }
    }
}
