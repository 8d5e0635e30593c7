//! The tick: one statement that does all the routine looking, so that an idle fleet stays cheap.

use std::time::Duration;

use chrono::{DateTime, Utc};
use stokehold_domain::KindId;

use crate::database::bounded;
use crate::horizon::{Horizon, Mark};
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

/// A lane that has something to claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActiveLane {
    /// Which.
    pub lane: Lane,
    /// The position of its first available job; `None` when the job was released by this very tick,
    /// which puts it last.
    pub first: Option<i64>,
}

/// What a tick saw.
#[derive(Clone, Debug, Default)]
pub struct Tick {
    /// Lanes with something to claim, most urgent first.
    pub lanes: Vec<ActiveLane>,
    /// Scheduled and retried jobs that it made available.
    pub released: i64,
    /// How long until the next job or schedule becomes due; zero when a job is due already.
    pub next_due: Option<Duration>,
    /// A runner's lease is over, or a dead one still holds jobs: the reaper has work.
    pub dead_runners: bool,
    /// Running jobs are to be cancelled.
    pub cancels: bool,
    /// Kinds that have limits: they are claimed from in a way of its own.
    pub limited: Vec<KindId>,
    /// It is time to count permits anew.
    pub recount: bool,
    /// Jobs may not start any more.
    pub expired: bool,
    /// Schedules are to be fired.
    pub schedules: bool,
    /// Kinds that are paused.
    pub paused: Vec<KindId>,
    /// Grows when what was remembered of kinds may be out of date.
    pub kinds_version: i64,
}

impl Database {
    /// Looks once, and lets `horizon` learn from it. `queues` limits the lanes to those of these
    /// queues.
    pub async fn tick(
        &self,
        horizon: &mut Horizon,
        queues: Option<&[String]>,
    ) -> Result<Tick, QueueError> {
        let (tick, lanes) = self.look(horizon, queues, MAX_RELEASED).await?;
        // A new lane, or one that may have moved to another queue.
        if horizon.is_up_to_date(lanes, tick.kinds_version) {
            return Ok(tick);
        }
        self.learn_lanes(horizon, queues, tick.kinds_version).await?;
        let (again, _) = self.look(horizon, queues, MAX_RELEASED - tick.released).await?;
        Ok(Tick { released: tick.released + again.released, ..again })
    }

    async fn look(
        &self,
        horizon: &mut Horizon,
        queues: Option<&[String]>,
        most_released: i64,
    ) -> Result<(Tick, i64), QueueError> {
        let (kinds, priorities, cleared) = horizon.questions();
        let row = bounded!(self, "tick", |conn| sqlx::query_file!(
            "src/sql/tick.sql",
            queues as Option<&[String]>,
            most_released,
            &kinds,
            &priorities,
            &cleared,
            horizon.due_from()
        )
        .fetch_one(conn))?;
        let filled = row.kind_ids.into_iter().zip(row.priorities).zip(row.positions);
        let filled: Vec<ActiveLane> = filled
            .map(|((kind, priority), first)| ActiveLane {
                lane: Lane { kind_id: KindId(kind), priority },
                first,
            })
            .collect();
        let seen = Mark { position: row.last_position, at: row.now };
        horizon.learn(&filled, row.next_due, seen, row.writers);
        let open = filled.into_iter().zip(row.open).filter(|(_, open)| *open);
        let lanes = open.map(|(lane, _)| lane).collect();
        // One that is due is not waited for: whoever fires it makes jobs, and is told of then.
        let schedule_ahead = row.schedule_due.filter(|at| *at > row.now);
        let next_due = row.next_due.into_iter().chain(schedule_ahead).min();
        let tick = Tick {
            lanes,
            released: row.released,
            next_due: next_due.map(|at| until(at, row.now)),
            dead_runners: row.dead_runners,
            cancels: row.cancels,
            limited: row.limited.into_iter().map(KindId).collect(),
            recount: row.recount,
            expired: row.expired,
            schedules: row.schedule_due.is_some_and(|at| at <= row.now),
            paused: row.paused.into_iter().map(KindId).collect(),
            kinds_version: row.kinds_version,
        };
        Ok((tick, row.lanes))
    }

    /// Reads which lanes there are.
    async fn learn_lanes(
        &self,
        horizon: &mut Horizon,
        queues: Option<&[String]>,
        kinds_version: i64,
    ) -> Result<(), QueueError> {
        let rows = bounded!(self, "read the lanes", |conn| sqlx::query!(
            r#"select kind_id, priority, max(cleared) as "cleared!", count(*) as "rows!",
                 coalesce((select $1::text[] is null or queue = any($1)
                   from stokehold.kinds where id = kind_id), false) as "served!"
               from stokehold.lanes group by kind_id, priority"#,
            queues as Option<&[String]>
        )
        .fetch_all(conn))?;
        let seen = rows.iter().map(|row| row.rows).sum();
        let lane = |kind, priority| Lane { kind_id: KindId(kind), priority };
        let lanes =
            rows.iter().map(|row| (lane(row.kind_id, row.priority), row.cleared, row.served));
        horizon.set_lanes(lanes, seen, kinds_version);
        Ok(())
    }

    /// Lets nodes that start later begin where this one is, as far as that saves them something.
    pub async fn note_horizon(&self, horizon: &mut Horizon) -> Result<(), QueueError> {
        let lanes = horizon.worth_noting();
        if lanes.is_empty() {
            return Ok(());
        }
        let kinds: Vec<i32> = lanes.iter().map(|(lane, _)| lane.kind_id.0).collect();
        let priorities: Vec<i16> = lanes.iter().map(|(lane, _)| lane.priority).collect();
        let cleared: Vec<i64> = lanes.iter().map(|(_, cleared)| *cleared).collect();
        bounded!(self, "note how far lanes are empty", |conn| {
            sqlx::query!(
            "update stokehold.lanes lane set cleared = noted.cleared
             from unnest($1::int[], $2::smallint[], $3::bigint[]) as noted(kind_id, priority, cleared)
             where lane.kind_id = noted.kind_id and lane.priority = noted.priority
               and lane.cleared < noted.cleared",
            &kinds,
            &priorities,
            &cleared
        )
        .execute(conn)
        })?;
        horizon.noted(&lanes);
        Ok(())
    }
}

fn until(at: DateTime<Utc>, now: DateTime<Utc>) -> Duration {
    (at - now).to_std().unwrap_or_default()
}
