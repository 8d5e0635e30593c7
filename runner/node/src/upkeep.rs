//! Upkeep that any node does for the whole fleet: the reaper when a tick saw work for it, the
//! partitions of history, and the search for jobs that everything else would have lost.
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
}

/// How often the partitions, which are made three days ahead, and stray jobs are looked after.
const HOURLY: Duration = Duration::from_secs(60 * 60);

/// Works whenever it is rung for dead runners, and hourly.
pub(crate) async fn run(session: Arc<Session>, bells: Arc<Bells>) {
    let mut hourly_at: Option<Instant> = None;
    loop {
        if hourly_at.is_none_or(|at| at.elapsed() >= HOURLY) {
            keep_partitions(&session).await;
            restore_strays(&session).await;
            hourly_at = Some(Instant::now());
        }
        tokio::select! {
            () = bells.dead_runners.notified() => reap(&session).await,
            () = tokio::time::sleep(HOURLY) => {}
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
        session.database.restore_strays().await
    };
    match search.await {
        Ok(0) => {}
        Ok(jobs) => tracing::error!(jobs, "jobs that nobody would have claimed are ready again"),
        Err(error) => tracing::warn!(%error, "the search for stray jobs failed"),
    }
}
