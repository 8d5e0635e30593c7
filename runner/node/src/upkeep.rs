//! Upkeep that any node does for the whole fleet: the reaper when a tick saw work for it, the
//! partitions of history, schedules that are due, jobs that came too late, permits, keys that nobody holds any more, and
//! the search for jobs that everything else would have lost.
//!
//! Idempotent and safe from every node at once; if the process dies here, another node does it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::session::Session;

/// What calls for work before its time.
#[derive(Debug, Default)]
pub(crate) struct Bells {
    /// A runner's lease is over.
    pub(crate) dead_runners: Notify,
    /// A running job is to be cancelled.
    pub(crate) cancels: Notify,
    /// Jobs may not start any more.
    pub(crate) expired: Notify,
    /// It is time to count permits anew.
    pub(crate) recount: Notify,
    /// A schedule is to be fired.
    pub(crate) schedules: Notify,
}

/// How often the partitions, which are made three days ahead, and stray jobs are looked after.
const HOURLY: Duration = Duration::from_secs(60 * 60);
/// How often keys that nobody holds are taken away, by one of the fleet.
const KEYS_EVERY: Duration = Duration::from_secs(60);

/// Works whenever it is rung, each minute and hourly.
pub(crate) async fn run(session: Arc<Session>, bells: Arc<Bells>) {
    let (mut hourly_at, mut keys_at): (Option<Instant>, _) = (None, Instant::now());
    loop {
        if hourly_at.is_none_or(|at| at.elapsed() >= HOURLY) {
            keep_partitions(&session).await;
            restore_strays(&session).await;
            forget_fires(&session).await;
            hourly_at = Some(Instant::now());
        }
        if keys_at.elapsed() >= KEYS_EVERY {
            sweep_keys(&session).await;
            keys_at = Instant::now();
        }
        tokio::select! {
            () = bells.dead_runners.notified() => reap(&session).await,
            () = bells.expired.notified() => end_expired(&session).await,
            () = bells.recount.notified() => recount(&session).await,
            () = bells.schedules.notified() => fire_schedules(&session).await,
            () = tokio::time::sleep(KEYS_EVERY) => {}
        }
    }
}

async fn reap(session: &Session) {
    match session.database.reap(session.config.lease).await {
        Ok(reaped) if reaped != Default::default() => tracing::warn!(
            runners = reaped.runners,
            jobs.available = reaped.available,
            jobs.discarded = reaped.discarded,
            "gave back what dead runners held"
        ),
        Ok(_) => {}
        Err(error) => tracing::warn!(%error, "the sweep for dead runners failed"),
    }
}

async fn end_expired(session: &Session) {
    match session.database.end_expired().await {
        Ok(0) => {}
        Ok(jobs) => tracing::info!(jobs, "ended what was not started before it expired"),
        Err(error) => tracing::warn!(%error, "jobs that have expired could not be ended"),
    }
}

async fn recount(session: &Session) {
    match session.database.recount_due().await {
        Ok(0) => {}
        Ok(kinds) => tracing::debug!(kinds, "counted permits anew"),
        Err(error) => tracing::warn!(%error, "permits could not be counted"),
    }
}

async fn fire_schedules(session: &Session) {
    match session.database.fire_due_schedules().await {
        Ok(fired) => {
            if fired.jobs > 0 || fired.skipped > 0 {
                tracing::debug!(jobs = fired.jobs, skipped = fired.skipped, "schedules fired");
            }
            for failure in fired.failed {
                tracing::warn!(
                    schedule = failure.name,
                    problem = failure.problem,
                    "a schedule could not be fired; it is tried again in a minute"
                );
            }
        }
        Err(error) => tracing::warn!(%error, "schedules could not be fired"),
    }
}

async fn forget_fires(session: &Session) {
    match session.database.forget_fires().await {
        Ok(0) => {}
        Ok(fires) => tracing::debug!(fires, "forgot fires of schedules older than 14 days"),
        Err(error) => tracing::warn!(%error, "old fires of schedules could not be forgotten"),
    }
}

async fn sweep_keys(session: &Session) {
    let sweep = async {
        match session.database.is_turn_for_keys(KEYS_EVERY).await? {
            true => session.database.sweep_keys().await,
            false => Ok(0),
        }
    };
    match sweep.await {
        Ok(0) => {}
        Ok(keys) => tracing::debug!(keys, "took away keys that no job holds"),
        Err(error) => tracing::warn!(%error, "keys could not be swept"),
    }
}

async fn keep_partitions(session: &Session) {
    match session.database.keep_partitions().await {
        Ok((0, 0)) => {}
        Ok((made, dropped)) => tracing::info!(made, dropped, "partitions of history kept"),
        // The default partition takes what has no day, so nothing is lost meanwhile.
        Err(error) => tracing::warn!(%error, "partitions of history could not be kept"),
    }
}

async fn restore_strays(session: &Session) {
    let search = async {
        // One of the fleet does it.
        if !session.database.is_turn_for_strays(HOURLY).await? {
            return Ok(0);
        }
        session.database.recount_limits().await?;
        session.database.restore_strays().await
    };
    match search.await {
        Ok(0) => {}
        Ok(jobs) => tracing::error!(jobs, "jobs that nobody would have claimed are ready again"),
        Err(error) => tracing::warn!(%error, "the search for stray jobs failed"),
    }
}
