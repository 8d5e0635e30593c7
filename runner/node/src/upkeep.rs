//! Upkeep that any node does for the whole fleet: the reaper when a tick saw work for it, and the
//! partitions of history.
//!
//! Idempotent and safe from every node at once; if the process dies here, another node does it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::session::Session;

/// How often the partitions are looked after: they are made three days ahead.
const PARTITIONS: Duration = Duration::from_secs(60 * 60);

/// Works whenever `dead_runners` is rung, and hourly.
pub(crate) async fn run(session: Arc<Session>, dead_runners: Arc<Notify>) {
    let mut partitions_at: Option<Instant> = None;
    loop {
        if partitions_at.is_none_or(|at| at.elapsed() >= PARTITIONS) {
            keep_partitions(&session).await;
            partitions_at = Some(Instant::now());
        }
        tokio::select! {
            () = dead_runners.notified() => reap(&session).await,
            () = tokio::time::sleep(PARTITIONS) => {}
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
