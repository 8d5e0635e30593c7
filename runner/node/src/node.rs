//! The node's life: session after session, and a bounded way out.
//!
//! States: registering → serving → closing (told to stop, drained, or lease lost) → settled → registering
//! again, or gone. Stopping claims nothing new, hands back what waits for a slot, lets handlers run on
//! for the grace time, stops the rest and hands it back uncounted, writes every outcome and ends the
//! registration. If the process dies anywhere here, the lease runs out and others take over.

use std::sync::Arc;
use std::time::Duration;

use stokehold_domain::RunnerId;
use stokehold_queue::{Database, QueueError, RunnerRegistration};
use stokehold_sandbox::{Sandbox, StopReason};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::clock::Moment;
use crate::lease::Lease;
use crate::releases::Releases;
use crate::session::Session;
use crate::settler::{Ledger, cause, pause};
use crate::upkeep::Bells;
use crate::{
    InvalidNodeConfig, NodeConfig, Stats, cancels, claimer, log_flush, settler, turns, upkeep,
};

/// How long the last outcomes may take to be written when the node stops. What is not written by
/// then runs again elsewhere.
const LAST_WRITES: Duration = Duration::from_secs(10);
/// How long stopped guests may take to be gone: the sandbox promises one second.
const GUESTS_GONE: Duration = Duration::from_secs(3);

/// A node that is set up and can be run.
#[derive(Debug)]
pub struct Node {
    database: Database,
    sandbox: Sandbox,
    config: NodeConfig,
    stats: Arc<Stats>,
    runner: watch::Sender<Option<RunnerId>>,
}

/// Why a node ended other than by being told to.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// Its settings do not fit.
    #[error(transparent)]
    Config(#[from] InvalidNodeConfig),
    /// The lease thread could not be started.
    #[error("the lease thread could not be started")]
    Lease(#[source] std::io::Error),
    /// The database refuses this node for good.
    #[error("the runner cannot be registered")]
    Register(#[source] QueueError),
    /// A part that has to run always has ended.
    #[error("the {0} ended unexpectedly; the node stops so that others take over")]
    PartEnded(&'static str),
}

impl Node {
    /// Checks the settings. Nothing happens before [`Node::run`].
    pub fn new(
        database: Database,
        sandbox: Sandbox,
        config: NodeConfig,
    ) -> Result<Node, NodeError> {
        config.check()?;
        let runner = watch::Sender::new(None);
        Ok(Node { database, sandbox, config, stats: Arc::default(), runner })
    }

    /// What the node has counted so far.
    pub fn stats(&self) -> Arc<Stats> {
        Arc::clone(&self.stats)
    }

    /// Follows the id it is registered under; `None` before and between registrations.
    pub fn registered(&self) -> watch::Receiver<Option<RunnerId>> {
        self.runner.subscribe()
    }

    /// Runs until `stop` is cancelled, or somebody drains it, and everything is handed back, however often the lease or the
    /// database is lost on the way.
    ///
    /// # Errors
    /// When the node cannot go on: its settings, the system or the schema do not allow it.
    pub async fn run(&self, stop: CancellationToken) -> Result<(), NodeError> {
        let releases = Arc::new(Releases::new(self.database.clone(), self.sandbox.clone()));
        while !stop.is_cancelled() {
            let Some((runner, sent_at)) =
                stop.run_until_cancelled(self.register()).await.transpose()?
            else {
                break;
            };
            if let Went::ForGood = self.serve(runner, sent_at, &releases, &stop).await? {
                break;
            }
        }
        Ok(())
    }

    /// Registers under a fresh id, waiting for the database as long as it takes.
    async fn register(&self) -> Result<(RunnerId, Moment), NodeError> {
        let registration = RunnerRegistration {
            name: self.config.name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            queues: self.config.queues.clone(),
            slots: i32::try_from(self.config.slots).unwrap_or(i32::MAX),
            lease: self.config.lease,
        };
        let mut failures = 0;
        loop {
            let sent_at = Moment::now();
            match self.database.register_runner(&registration).await {
                Ok(runner) => {
                    tracing::info!(runner.id = %runner, runner.name = %self.config.name,
                        slots = self.config.slots, "runner registered");
                    return Ok((runner, sent_at));
                }
                Err(error) if error.is_temporary() => {
                    if failures == 0 {
                        tracing::warn!(%error, cause = cause(&error), "waiting for the database");
                    }
                    failures += 1;
                    tokio::time::sleep(pause(failures)).await;
                }
                Err(error) => return Err(NodeError::Register(error)),
            }
        }
    }

    /// One session, to its end.
    async fn serve(
        &self,
        runner: RunnerId,
        sent_at: Moment,
        releases: &Arc<Releases>,
        stop: &CancellationToken,
    ) -> Result<Went, NodeError> {
        let lease =
            Lease::keep(&self.database, runner, sent_at, &self.config).map_err(NodeError::Lease)?;
        let (outcomes, gathered) = mpsc::channel(settler::CAPACITY);
        let (turns, offers) = turns::meet();
        let ledger = Ledger {
            turns,
            database: self.database.clone(),
            runner,
            stats: Arc::clone(&self.stats),
            open_claims: Arc::default(),
        };
        let session = Arc::new(Session::new(
            self.database.clone(),
            self.sandbox.clone(),
            self.config.clone(),
            Arc::clone(&self.stats),
            Arc::clone(releases),
            runner,
            Arc::clone(&ledger.open_claims),
            outcomes,
        ));
        let settler = tokio::spawn(settler::run(
            ledger,
            gathered,
            self.config.batch,
            self.config.flushes_at_once(),
        ));
        let bells = Arc::new(Bells::default());
        let mut parts = JoinSet::new();
        {
            let (session, bells) = (Arc::clone(&session), Arc::clone(&bells));
            let claims = session.claims.clone();
            parts.spawn(claims.track_future(async move {
                claimer::run(session, bells, offers).await;
                "claim loop"
            }));
        }
        {
            let (session, bells) = (Arc::clone(&session), Arc::clone(&bells));
            parts.spawn(async move {
                upkeep::run(session, bells).await;
                "upkeep"
            });
        }
        {
            let session = Arc::clone(&session);
            parts.spawn(async move {
                cancels::run(session, bells).await;
                "cancelling"
            });
        }
        {
            let session = Arc::clone(&session);
            parts.spawn(async move {
                log_flush::run(session).await;
                "log flush"
            });
        }
        self.runner.send_replace(Some(runner));
        let end = tokio::select! {
            () = stop.cancelled() => End::Told,
            () = lease.drain().cancelled() => End::Drained,
            () = lease.lost().cancelled() => End::LeaseLost,
            part = parts.join_next() => End::PartEnded(part.and_then(Result::ok).unwrap_or("node part")),
        };
        self.runner.send_replace(None);
        self.close(&session, &lease, &end).await;
        parts.shutdown().await;
        // The last sender: the settler ends when it has an answer for everything.
        drop(session);
        self.last_writes(settler, &end).await;
        if !matches!(end, End::LeaseLost)
            && let Err(error) = self.database.stop_runner(runner).await
        {
            tracing::warn!(%error, "the registration could not be ended; its lease runs out");
        }
        match end {
            End::PartEnded(part) => Err(NodeError::PartEnded(part)),
            End::Told | End::Drained => Ok(Went::ForGood),
            End::LeaseLost => Ok(Went::ToRegister),
        }
    }

    /// Starts nothing new and ends what runs: after the grace time when told to stop, at once when
    /// the lease is lost.
    async fn close(&self, session: &Arc<Session>, lease: &Lease, end: &End) {
        session.close();
        if matches!(end, End::LeaseLost) {
            self.stats.add_leases_lost(1);
            tracing::warn!(runner.id = %session.runner, "lease lost: stopping everything it ran");
        } else {
            let running = session.snapshot().len();
            tracing::info!(
                running,
                grace_s = self.config.grace.as_secs(),
                drained = matches!(end, End::Drained),
                "stopping: no new claims"
            );
            tokio::select! {
                () = session.quiet() => return,
                () = tokio::time::sleep(self.config.grace) => session.stop_all(&StopReason::Draining),
                () = lease.lost().cancelled() => {}
            }
        }
        if lease.lost().is_cancelled() {
            session.stop_all(&StopReason::LeaseLost);
        }
        if tokio::time::timeout(GUESTS_GONE, session.quiet()).await.is_err() {
            tracing::error!(running = session.snapshot().len(), "handlers did not stop in time");
        }
    }

    async fn last_writes(&self, mut settler: tokio::task::JoinHandle<()>, end: &End) {
        if matches!(end, End::LeaseLost) {
            // Results that it already holds are offered for as long as it takes, beside the next
            // session: they may still be the first.
            return;
        }
        if tokio::time::timeout(LAST_WRITES, &mut settler).await.is_err() {
            tracing::error!("outcomes were not written in time; their jobs run again elsewhere");
            settler.abort();
        }
    }
}

/// How a session is over.
enum Went {
    /// The node stops.
    ForGood,
    /// It goes on under another id.
    ToRegister,
}

enum End {
    Told,
    Drained,
    LeaseLost,
    PartEnded(&'static str),
}
