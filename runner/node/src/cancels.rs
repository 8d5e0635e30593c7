//! Cancelling of running jobs: stops what runs here, and follows requests whose job has come to wait or
//! to an end meanwhile, wherever it ran.
//!
//! Rung by the notification that a request was left, and by every look while one stands: a request that
//! comes while its job is between the database and its slot is seen again a second later. If the process
//! dies here, the request stands, and whoever claims the job next stops it.

use std::sync::Arc;

use stokehold_queue::QueueError;

use crate::session::Session;
use crate::upkeep::Bells;

/// Works whenever it is rung.
pub(crate) async fn run(session: Arc<Session>, bells: Arc<Bells>) {
    loop {
        bells.cancels.notified().await;
        match follow(&session).await {
            Ok(0) => {}
            Ok(jobs) => tracing::info!(jobs, "cancelled what was to be cancelled while it ran"),
            Err(error) => tracing::warn!(%error, "requests to cancel could not be followed"),
        }
    }
}

async fn follow(session: &Arc<Session>) -> Result<i32, QueueError> {
    session.cancel(session.database.cancel_requests().await?);
    session.database.follow_cancels().await
}
