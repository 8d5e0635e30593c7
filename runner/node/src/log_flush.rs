//! Stores what running handlers have logged, each second, so that a lost attempt keeps what it said.
//!
//! The lines go under the attempt's claim: those of a claim that is over are dropped by the database.

use std::sync::Arc;
use std::time::Duration;

use stokehold_queue::LogChunk;

use crate::session::{Running, Session};

const INTERVAL: Duration = Duration::from_secs(1);

/// Flushes until the session has closed and its handlers are done; the settler stores what is left.
pub(crate) async fn run(session: Arc<Session>) {
    let mut interval = tokio::time::interval(INTERVAL);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        run_once(&session).await;
    }
}

async fn run_once(session: &Session) {
    let chunks: Vec<LogChunk> = session
        .snapshot()
        .into_iter()
        .filter_map(|(job, running)| {
            let lines = running.control.take_new_lines();
            let Running { token, claim, attempt, .. } = running;
            let chunk = || LogChunk::new(job, token, claim, attempt, &lines);
            (!lines.is_empty()).then(chunk)
        })
        .collect();
    if chunks.is_empty() {
        return;
    }
    if let Err(error) = session.database.append_logs(session.runner, &chunks).await {
        tracing::warn!(%error, chunks = chunks.len(), "log lines lost: they could not be stored");
    }
}
