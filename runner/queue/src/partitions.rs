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
        Ok((kept.made, kept.dropped))
    }
}
