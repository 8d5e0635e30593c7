//! Regular sweeps: jobs that came too late, and keys that nobody holds any more.

use std::time::Duration;

use crate::database::bounded;
use crate::{Database, QueueError};

/// Jobs ended by one call, and keys looked at.
const PAGE: i32 = 1_000;

impl Database {
    /// Ends jobs that wait and may not start any more, up to 1,000, and says how many.
    pub async fn end_expired(&self) -> Result<i32, QueueError> {
        bounded!(self, "end what came too late", |conn| sqlx::query_scalar!(
            r#"select stokehold.end_expired($1) as "ended!""#,
            PAGE
        )
        .fetch_one(conn))
    }

    /// Takes the turn to sweep keys, which one node of the fleet has once in a while.
    pub async fn is_turn_for_keys(&self, every: Duration) -> Result<bool, QueueError> {
        let taken = bounded!(self, "take the turn to sweep keys", |conn| sqlx::query!(
            "update stokehold.settings set keys_swept_at = clock_timestamp()
             where keys_swept_at < clock_timestamp() - $1::float8 * interval '1 second'",
            every.as_secs_f64()
        )
        .execute(conn))?;
        Ok(taken.rows_affected() == 1)
    }

    /// Takes away the unique keys that no job holds any more and the idempotency keys that are over 7 days old;
    /// says how many.
    pub async fn sweep_keys(&self) -> Result<i64, QueueError> {
        let (mut kind, mut key, mut swept) = (0, String::new(), 0);
        loop {
            let page = bounded!(self, "sweep keys", |conn| {
                sqlx::query!(
                r#"select kind_id, key, swept as "swept!" from stokehold.sweep_keys($1, $2, $3)"#,
                kind,
                key,
                PAGE
            )
            .fetch_one(conn)
            })?;
            swept += i64::from(page.swept);
            match page.kind_id.zip(page.key) {
                Some(last) => (kind, key) = last,
                // A full page of requests: there may be more.
                None if page.swept >= PAGE => {}
                None => return Ok(swept),
            }
        }
    }
}
