//! Days of history: made ahead of time, dropped when over the age kept.

use crate::database::bounded;
use crate::{Database, QueueError};

impl Database {
    /// Makes the coming days' partitions and drops those over the age kept; returns how many of each.
    /// Any node may call it at any time.
    pub async fn keep_partitions(&self) -> Result<(i32, i32), QueueError> {
        let kept = bounded!(self, "keep the partitions", |conn| sqlx::query!(
            r#"select made as "made!", dropped as "dropped!" from stokehold.keep_partitions()"#
        )
        .fetch_one(conn))?;
        self.forget_retries().await?;
        Ok((kept.made, kept.dropped))
    }

    /// Drops the links from jobs whose record is gone.
    async fn forget_retries(&self) -> Result<(), QueueError> {
        bounded!(self, "forget old retries", |conn| {
            sqlx::query!(
                "delete from stokehold.retries retry
             where retried_at < clock_timestamp() - interval '1 day'
               and not exists (select from stokehold.job_history where id = retry.of_job)"
            )
            .execute(conn)
        })?;
        Ok(())
    }
}
