//! Takes away what a benchmark left, by the prefix of its names.

use std::time::Duration;

use sqlx::{ConnectOptions, Connection};
use stokehold_domain::{Digest, KindId};

use crate::database::bounded;
use crate::{Database, DatabaseOptions, QueueError};

/// Rows deleted in one call.
const BATCH: i64 = 100_000;
/// How long a call of somebody who is gone may go on.
const STRAGGLERS: Duration = Duration::from_millis(300);

impl Database {
    /// Deletes every kind whose name begins with `prefix` and whatever belongs to it: live and ended
    /// jobs, attempts, logs, lanes, releases; then runners, with what they claimed, and keys of such
    /// names, and those of `modules` that no release uses. Returns how many jobs that were.
    ///
    /// For the benchmark's own rows: it locks and deletes without asking who works on them.
    pub async fn remove_bench(&self, prefix: &str, modules: &[Digest]) -> Result<u64, QueueError> {
        let kinds = bounded!(self, "find the benchmark's kinds", |conn| sqlx::query_scalar!(
            "select id from stokehold.kinds where starts_with(name, $1)",
            prefix
        )
        .fetch_all(conn))?;
        // Nothing new may be claimed meanwhile.
        bounded!(self, "close the benchmark's kinds", |conn| sqlx::query!(
            "update stokehold.kinds set active_release = null where id = any($1)",
            &kinds
        )
        .execute(conn))?;
        let mut removed = self.remove_jobs(&kinds).await?;
        // A client that was cut off may have had a call on its way, which commits all the same.
        tokio::time::sleep(STRAGGLERS).await;
        removed += self.remove_jobs(&kinds).await?;
        bounded!(self, "delete the benchmark's kinds", |conn| async {
            let mut transaction = conn.begin().await?;
            sqlx::query!("delete from stokehold.releases where kind_id = any($1)", &kinds)
                .execute(&mut *transaction)
                .await?;
            sqlx::query!("delete from stokehold.lanes where kind_id = any($1)", &kinds)
                .execute(&mut *transaction)
                .await?;
            sqlx::query!("delete from stokehold.kinds where id = any($1)", &kinds)
                .execute(&mut *transaction)
                .await?;
            sqlx::query!("delete from stokehold.api_keys where starts_with(name, $1)", prefix)
                .execute(&mut *transaction)
                .await?;
            sqlx::query!(
                r#"with gone as (
                     delete from stokehold.runners where starts_with(name, $1) returning id
                   ), claimed as (
                     delete from stokehold.claims where runner_id in (select id from gone))
                   delete from stokehold.sleepers where runner_id in (select id from gone)"#,
                prefix
            )
            .execute(&mut *transaction)
            .await?;
            let digests: Vec<&[u8]> = modules.iter().map(|digest| &digest.0[..]).collect();
            sqlx::query!(
                r#"delete from stokehold.modules m where digest = any($1)
                     and not exists (select from stokehold.releases r where r.digest = m.digest)"#,
                &digests as &[&[u8]]
            )
            .execute(&mut *transaction)
            .await?;
            transaction.commit().await
        })?;
        Ok(removed)
    }

    async fn remove_jobs(&self, kinds: &[i32]) -> Result<u64, QueueError> {
        let mut removed = 0;
        loop {
            let live = self.remove_live_jobs(kinds).await?;
            let ended = bounded!(self, "delete the benchmark's history", |conn| sqlx::query!(
                r#"with gone as (
                     delete from stokehold.job_history h using (
                       select tableoid as part, ctid as place from stokehold.job_history
                       where kind_id = any($1) limit $2) picked
                     where h.tableoid = picked.part and h.ctid = picked.place
                     returning h.id
                   ), attempts as (
                     delete from stokehold.job_attempts a using gone where a.job_id = gone.id
                   ), logs as (
                     delete from stokehold.job_logs l using gone where l.job_id = gone.id
                   )
                   select count(*) as "jobs!" from gone"#,
                kinds,
                BATCH
            )
            .fetch_one(conn))?;
            let both = live + ended.jobs;
            removed += u64::try_from(both).unwrap_or_default();
            if both == 0 {
                return Ok(removed);
            }
        }
    }

    /// Deletes the live jobs of a kind.
    pub async fn remove_live(&self, kind: KindId) -> Result<(), QueueError> {
        while self.remove_live_jobs(&[kind.0]).await? > 0 {}
        Ok(())
    }

    async fn remove_live_jobs(&self, kinds: &[i32]) -> Result<i64, QueueError> {
        bounded!(self, "delete the benchmark's jobs", |conn| sqlx::query_scalar!(
            r#"with gone as (
                 delete from stokehold.jobs where ctid = any(array(
                   select ctid from stokehold.jobs where kind_id = any($1) limit $2))
                 returning id
               ), ready as (
                 -- Not by a join with the jobs: all of a kind goes in the end.
                 delete from stokehold.ready where ctid = any(array(
                   select ctid from stokehold.ready where kind_id = any($1) limit $2))
               ), attempts as (
                 delete from stokehold.job_attempts a using gone where a.job_id = gone.id
               ), logs as (
                 delete from stokehold.job_logs l using gone where l.job_id = gone.id
               )
               select count(*) as "jobs!" from gone"#,
            kinds,
            BATCH
        )
        .fetch_one(conn))
    }
}

/// Drops a database that was made for a benchmark, through a connection to another one on the same
/// server. Whoever is still connected to it is cut off.
pub async fn drop_database(server_url: &str, name: &str) -> Result<(), QueueError> {
    const WHAT: &str = "drop the benchmark's database";
    let driver = |source| QueueError::from_driver(WHAT, source);
    let mut connection =
        DatabaseOptions::from_url(server_url)?.connect.connect().await.map_err(driver)?;
    // A utility statement takes no parameters; the name is ours and quoted all the same.
    let name = name.replace('"', "\"\"");
    let statement = format!("drop database if exists \"{name}\" with (force)");
    sqlx::query(sqlx::AssertSqlSafe(statement)).execute(&mut connection).await.map_err(driver)?;
    connection.close().await.map_err(driver)
}
