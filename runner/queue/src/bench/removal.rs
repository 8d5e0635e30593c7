//! Takes away what a benchmark left, by the prefix of its names.

use stokehold_domain::Digest;

use crate::database::bounded;
use crate::{Database, QueueError};

/// Rows deleted in one call.
const BATCH: i64 = 100_000;

impl Database {
    /// Deletes every kind whose name begins with `prefix` and whatever belongs to it: live and ended
    /// jobs, attempts, logs, releases; then runners and keys of such names, and those of `modules`
    /// that no release uses. Returns how many jobs that were.
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
        let mut removed = 0;
        loop {
            let live = bounded!(self, "delete the benchmark's jobs", |conn| sqlx::query!(
                r#"with gone as (
                     delete from stokehold.jobs where ctid = any(array(
                       select ctid from stokehold.jobs where kind_id = any($1) limit $2))
                     returning id
                   ), attempts as (
                     delete from stokehold.job_attempts a using gone where a.job_id = gone.id
                   ), logs as (
                     delete from stokehold.job_logs l using gone where l.job_id = gone.id
                   )
                   select count(*) as "jobs!" from gone"#,
                &kinds,
                BATCH
            )
            .fetch_one(conn))?;
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
                &kinds,
                BATCH
            )
            .fetch_one(conn))?;
            let both = live.jobs + ended.jobs;
            removed += u64::try_from(both).unwrap_or_default();
            if both == 0 {
                break;
            }
        }
        bounded!(self, "delete the benchmark's kinds", |conn| async {
            use sqlx::Connection;
            let mut transaction = conn.begin().await?;
            sqlx::query!("delete from stokehold.releases where kind_id = any($1)", &kinds)
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
                     delete from stokehold.runners where starts_with(name, $1) returning id)
                   delete from stokehold.sleepers s using gone where s.runner_id = gone.id"#,
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
}
