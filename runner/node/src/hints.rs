//! Wake-up hints: what notifications said since the claim loop last asked.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stokehold_queue::{Database, Hint, Lane, WakeListener};
use tokio::sync::Notify;

use crate::settler::{cause, pause};
use crate::upkeep::Bells;

/// Collects hints until they are taken. Lanes are few, so what waits here is small.
#[derive(Debug, Default)]
pub(crate) struct Hints {
    said: Mutex<Said>,
    bell: Notify,
}

/// Everything that was said.
#[derive(Debug, Default)]
pub(crate) struct Said {
    /// Lanes with work.
    pub(crate) lanes: HashSet<Lane>,
    /// Something that only a look can tell.
    pub(crate) look: bool,
}

impl Hints {
    /// What was said since the last call.
    pub(crate) fn take(&self) -> Said {
        std::mem::take(&mut *self.said())
    }

    /// Ends when something is said, or has been since the last call.
    pub(crate) async fn heard(&self) {
        self.bell.notified().await;
    }

    fn add(&self, hint: Hint) {
        let mut said = self.said();
        match hint {
            Hint::Lanes(lanes) => said.lanes.extend(lanes),
            Hint::Look => said.look = true,
            // Not the claim loop's: see `listen`.
            Hint::Cancel => return,
        }
        drop(said);
        self.bell.notify_one();
    }

    fn said(&self) -> MutexGuard<'_, Said> {
        // Whole after any panic: each step adds one thing.
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Turns notifications into hints, and connects again when the connection is gone.
pub(crate) async fn listen(database: Database, hints: Arc<Hints>, bells: Arc<Bells>) {
    let mut failures = 0;
    loop {
        match WakeListener::connect(&database).await {
            Ok(mut listener) => {
                failures = 0;
                hints.add(Hint::Look);
                while let Ok(hint) = listener.heard().await {
                    if hint == Hint::Cancel {
                        bells.cancels.notify_one();
                    }
                    hints.add(hint);
                }
            }
            Err(error) => {
                if failures == 0 {
                    tracing::warn!(%error, cause = cause(&error), "no wake-up hints: polling only");
                }
            }
        }
        failures += 1;
        tokio::time::sleep(pause(failures)).await;
    }
}
