//! The tick: one statement that does all the routine looking, so that an idle fleet stays cheap.

use std::time::Duration;

use stokehold_domain::KindId;

use crate::database::bounded;
use crate::{Database, QueueError};

/// Jobs released by one tick; more come with the next, which follows at once.
pub const MAX_RELEASED: i64 = 1_000;

/// A kind and a priority for which jobs are available.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lane {
    /// The kind.
    pub kind_id: KindId,
    /// Lower runs first.
    pub priority: i16,
}

/// What a tick saw.
#[derive(Clone, Debug, Default)]
pub struct Tick {
    /// Lanes with something to claim, most urgent first.
    pub lanes: Vec<Lane>,
    /// Scheduled and retried jobs that it made available.
    pub released: i64,
    /// How long until the next job becomes due; zero when one is due already.
    pub next_due: Option<Duration>,
    /// A runner's lease is over, or a dead one still holds jobs: the reaper has work.
    pub dead_runners: bool,
}

impl Database {
    /// Looks once. `queues` limits the lanes to those of these queues.
    pub async fn tick(&self, queues: Option<&[String]>) -> Result<Tick, QueueError> {
        let row = bounded!(self, "tick", |conn| sqlx::query_file!(
            "src/sql/tick.sql",
            queues as Option<&[String]>,
            MAX_RELEASED
        )
        .fetch_one(conn))?;
        let lanes = row.kind_ids.into_iter().zip(row.priorities);
        Ok(Tick {
            lanes: lanes.map(|(kind, priority)| Lane { kind_id: KindId(kind), priority }).collect(),
            released: row.released,
            next_due: row.next_due_s.map(|s| Duration::try_from_secs_f64(s).unwrap_or_default()),
            dead_runners: row.dead_runners,
        })
    }
}
