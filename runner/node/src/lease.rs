//! The lease: what makes this node's claims valid, renewed from a thread of its own.
//!
//! The database decides whether the lease is alive, by its own clock. This side only ever gives up
//! *earlier*: when the last acknowledged beat was sent [`NodeConfig::self_fence`] ago, or when the
//! database says that the id is dead. Given up is for ever: the id is never beaten again. The thread
//! has its own connection and its own small runtime, so that no guest, no slow statement and no busy
//! pool stands between the node and its life. If this process dies here, the lease runs out.
//!
//! [`NodeConfig::self_fence`]: crate::NodeConfig::self_fence

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use stokehold_domain::RunnerId;
use stokehold_queue::Database;
use stokehold_queue::runners::{Beat, LeaseConnection};
use tokio_util::sync::CancellationToken;

use crate::NodeConfig;
use crate::clock::Moment;

/// How soon a failed beat is tried again.
const RETRY: Duration = Duration::from_millis(300);

/// A lease that is being renewed. Dropping it ends the renewing, not the lease.
#[derive(Debug)]
pub(crate) struct Lease {
    lost: CancellationToken,
    drain: CancellationToken,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Lease {
    /// Begins to renew. The registration itself was the first beat, sent at `sent_at`.
    pub(crate) fn keep(
        database: &Database,
        runner: RunnerId,
        sent_at: Moment,
        config: &NodeConfig,
    ) -> std::io::Result<Lease> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (lost, drain) = (CancellationToken::new(), CancellationToken::new());
        let stop = Arc::new(AtomicBool::new(false));
        let keeper = Keeper {
            connection: LeaseConnection::new(database, config.lease),
            runner,
            beat: config.beat,
            self_fence: config.self_fence,
            acknowledged: sent_at,
            drain: drain.clone(),
            stop: Arc::clone(&stop),
        };
        let token = lost.clone();
        let thread = std::thread::Builder::new().name("lease".to_owned()).spawn(move || {
            // Whatever ends the thread, a panic included, ends the lease for this side.
            let _lost = token.drop_guard();
            runtime.block_on(keeper.run());
        })?;
        Ok(Lease { lost, drain, stop, thread: Some(thread) })
    }

    /// Cancelled when the lease is lost or no longer renewed.
    pub(crate) fn lost(&self) -> &CancellationToken {
        &self.lost
    }

    /// Cancelled when somebody wants the node to stop in order.
    pub(crate) fn drain(&self) -> &CancellationToken {
        &self.drain
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // The thread notices within one short sleep; nobody has to wait for it.
        }
    }
}

struct Keeper {
    connection: LeaseConnection,
    runner: RunnerId,
    beat: Duration,
    self_fence: Duration,
    acknowledged: Moment,
    drain: CancellationToken,
    stop: Arc<AtomicBool>,
}

impl Keeper {
    /// Beats until told to stop or until the lease is lost.
    async fn run(mut self) {
        let mut wait = self.beat;
        let mut failing = false;
        while self.pause(wait).await {
            let sent_at = Moment::now();
            let left = self.self_fence.saturating_sub(self.acknowledged.elapsed());
            match self.connection.beat(self.runner, left).await {
                Ok(beat @ (Beat::Alive | Beat::Drain)) => {
                    if beat == Beat::Drain {
                        self.drain.cancel();
                    }
                    if failing {
                        tracing::info!(runner.id = %self.runner, "lease renewed again");
                    }
                    (self.acknowledged, wait, failing) = (sent_at, self.beat, false);
                }
                Ok(Beat::Dead) => {
                    tracing::warn!(runner.id = %self.runner, "the database counts this runner as dead");
                    return;
                }
                Err(error) => {
                    if !failing {
                        let cause = std::error::Error::source(&error).map(ToString::to_string);
                        tracing::warn!(runner.id = %self.runner, %error, cause, "lease not renewed");
                    }
                    (wait, failing) = (RETRY, true);
                }
            }
        }
    }

    /// Sleeps in short steps; `false` when told to stop or when the lease must be given up. The steps
    /// are short because a sleep measured by a clock that stands still while the machine is suspended
    /// would be noticed too late.
    async fn pause(&self, wait: Duration) -> bool {
        const STEP: Duration = Duration::from_millis(100);
        let from = Moment::now();
        loop {
            if self.stop.load(Ordering::Acquire) {
                return false;
            }
            if self.acknowledged.elapsed() >= self.self_fence {
                tracing::warn!(
                    runner.id = %self.runner,
                    since_ms = self.acknowledged.elapsed().as_millis() as u64,
                    "no beat acknowledged in time: giving the lease up"
                );
                return false;
            }
            let left = wait.saturating_sub(from.elapsed());
            if left.is_zero() {
                return true;
            }
            tokio::time::sleep(left.min(STEP)).await;
        }
    }
}
