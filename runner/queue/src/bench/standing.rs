//! What stands in a database before a benchmark begins.

use crate::database::bounded;
use crate::{Database, QueueError};

/// Jobs and runners that a benchmark would meet, and who would meet it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Live jobs; never more than one over [`Standing::MOST_COUNTED`].
    pub live_jobs: i64,
    /// Runners that live.
    pub live_runners: i64,
}

impl Standing {
    /// Jobs are counted up to this number, so that looking costs nothing on a large queue.
    pub const MOST_COUNTED: i64 = 100_000;
}

impl Database {
    /// Counts the live jobs, up to a limit, and the live runners.
    pub async fn standing(&self) -> Result<Standing, QueueError> {
        let row = bounded!(self, "look what stands in the database", |conn| {
            sqlx::query!(
            r#"select (select count(*) from (select from stokehold.jobs limit $1::bigint + 1) job) as "jobs!",
                 (select count(*) from stokehold.runners
                   where state = 'live' and lease_expires_at > clock_timestamp()) as "runners!""#,
            Standing::MOST_COUNTED
        )
        .fetch_one(conn)
        })?;
        Ok(Standing { live_jobs: row.jobs, live_runners: row.runners })
    }
}
