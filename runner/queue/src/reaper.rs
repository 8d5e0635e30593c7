//! The reaper: finds runners whose lease is over and gives back what they held.
//!
//! Every node runs it; SKIP LOCKED lets the sweeps pass each other, so there is no leader to lose. The
//! database decides who is dead, by its own clock. A node that dies in the middle of a sweep leaves
//! nothing half-done: each statement is one transaction.

use std::time::Duration;

use crate::database::bounded;
use crate::{Database, QueueError};

/// A job is discarded when this many nodes died under it.
pub const MAX_LOST: i32 = 3;
/// Jobs given back in one statement.
const PAGE: i64 = 1_000;

/// Live jobs that one statement of the search for strays looks at.
const STRAYS_PAGE: i64 = 20_000;

/// What one sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reaped {
    /// Runners found dead.
    pub runners: i64,
    /// Jobs made available again.
    pub available: i64,
    /// Jobs discarded, for nodes kept dying under them.
    pub discarded: i64,
}

impl Database {
    /// Sweeps once. `lease` is the fleet's lease: when many runners expire together it is waited once
    /// more before they count as dead.
    pub async fn reap(&self, lease: Duration) -> Result<Reaped, QueueError> {
        let runners = bounded!(self, "find dead runners", |conn| sqlx::query_file_scalar!(
            "src/sql/expire.sql",
            lease.as_secs_f64()
        )
        .fetch_one(conn))?;
        let mut reaped = Reaped { runners, ..Reaped::default() };
        loop {
            let page = bounded!(self, "give back jobs", |conn| sqlx::query_file!(
                "src/sql/give_back.sql",
                PAGE,
                MAX_LOST
            )
            .fetch_one(conn))?;
            reaped.available += page.available;
            reaped.discarded += page.discarded;
            if page.available + page.discarded < PAGE {
                break;
            }
        }
        bounded!(self, "forget the claims of dead runners", |conn| sqlx::query_file!(
            "src/sql/forget_claims.sql"
        )
        .execute(conn))?;
        Ok(reaped)
    }

    /// Whether it is this caller's turn to look for stray jobs: once in `every` one of a fleet is told so.
    pub async fn is_turn_for_strays(&self, every: Duration) -> Result<bool, QueueError> {
        let taken = bounded!(self, "take the turn to look for stray jobs", |conn| sqlx::query!(
            "update stokehold.settings set strays_sought_at = clock_timestamp()
             where strays_sought_at < clock_timestamp() - $1::float8 * interval '1 second'",
            every.as_secs_f64()
        )
        .execute(conn))?;
        Ok(taken.rows_affected() == 1)
    }

    /// Looks through all live jobs for such as nobody would ever claim or give back, makes them ready
    /// again and returns how many there were. Nothing leaves any; it is the net under everything else, for
    /// now and then: it reads every row, and while a snapshot is held those that have ended too.
    pub async fn restore_strays(&self) -> Result<i64, QueueError> {
        let (mut after, mut restored) = (i64::MIN, 0);
        loop {
            let page = bounded!(self, "look for stray jobs", |conn| sqlx::query_file!(
                "src/sql/strays.sql",
                after,
                STRAYS_PAGE
            )
            .fetch_one(conn))?;
            restored += page.restored;
            match page.last {
                Some(last) => after = last,
                None => return Ok(restored),
            }
        }
    }
}
