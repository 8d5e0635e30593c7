//! Fills a database with what a queue has after months, without running it, and wakes what waits.

use stokehold_domain::KindId;

use crate::database::bounded;
use crate::{Database, QueueError};

impl Database {
    /// Adds ended jobs of a kind to the history of today. Their ids lie below those of all real jobs,
    /// from `from` down: what is older has lower ids.
    pub async fn fill_history(
        &self,
        kind: KindId,
        from: i64,
        jobs: i64,
        payload: &[u8],
    ) -> Result<(), QueueError> {
        bounded!(self, "fill the history", |conn| {
            sqlx::query!(
            r#"insert into stokehold.job_history (id, token, runner_id, run_at, enqueued_at, started_at,
                 kind_id, release, state, priority, attempt, max_attempts, snoozes, lost, outcome,
                 payload, fuel, wall_us, peak_memory_bytes, host_calls)
               select -n, 1, 1, clock_timestamp(), clock_timestamp(), clock_timestamp(), $1, 1,
                 'completed', 0, 1, 20, 0, 0, 'ok', $4, 68, 20, 65536, 0
               from generate_series($2::bigint, $2::bigint + $3::bigint - 1) n"#,
            kind.0,
            from,
            jobs,
            payload
        )
        .execute(conn)
        })?;
        Ok(())
    }

    /// Brings the tables into the state that a rest brings them to: vacuumed, their statistics up to
    /// date, and written out, so that what was filled in does not cost the next run anything.
    pub async fn settle_tables(&self) -> Result<(), QueueError> {
        for statement in [
            "vacuum (analyze) stokehold.jobs",
            "vacuum (analyze) stokehold.ready",
            "vacuum (analyze) stokehold.job_history",
        ] {
            bounded!(self, "vacuum the tables", |conn| sqlx::query(statement).execute(conn))?;
        }
        // Only a superuser may ask for it; elsewhere it comes when it comes.
        let written: Result<_, QueueError> =
            bounded!(self, "write everything out", |conn| sqlx::query("checkpoint").execute(conn));
        if let Err(error) = written {
            tracing::debug!(%error, "no checkpoint");
        }
        Ok(())
    }

    /// Wakes every runner that sleeps, as enqueueing does.
    pub async fn wake_runners(&self) -> Result<(), QueueError> {
        bounded!(self, "wake the runners", |conn| sqlx::query!(
            "select pg_notify('stokehold_wake', '') as notified"
        )
        .execute(conn))?;
        Ok(())
    }
}
