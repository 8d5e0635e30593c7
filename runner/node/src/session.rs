//! One registration of a node: its id, its lease, and what it holds under them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stokehold_domain::{ClaimToken, JobId, KindId, RunnerId};
use stokehold_queue::{CancelRequest, Claimant, Claimed, Database, Ended};
use stokehold_sandbox::{Control, Sandbox, StopReason};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::attempt;
use crate::claims::OpenClaims;
use crate::releases::Releases;
use crate::slots::Slots;
use crate::{NodeConfig, Stats};

/// What the parts of a session share.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) database: Database,
    pub(crate) sandbox: Sandbox,
    pub(crate) config: NodeConfig,
    pub(crate) stats: Arc<Stats>,
    pub(crate) releases: Arc<Releases>,
    pub(crate) runner: RunnerId,
    pub(crate) slots: Slots,
    pub(crate) open_claims: Arc<OpenClaims>,
    /// Cancelled when nothing new may start: claims end, jobs that wait for a slot are handed back.
    pub(crate) closing: CancellationToken,
    /// The claim loop, which ends only after the claims that it is in.
    pub(crate) claims: TaskTracker,
    /// The tasks of claimed jobs.
    pub(crate) tasks: TaskTracker,
    pub(crate) outcomes: mpsc::Sender<Ended>,
    /// The runtime that has the network; slots run on another.
    runtime: Handle,
    running: Mutex<HashMap<JobId, Running>>,
    /// Jobs that were to be cancelled when somebody last asked: one may be on its way to its slot just then.
    unwanted: Mutex<HashMap<JobId, String>>,
}

/// A handler that runs now.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    pub(crate) token: ClaimToken,
    pub(crate) claim: i64,
    pub(crate) attempt: u16,
    pub(crate) control: Control,
}

impl Session {
    #[expect(clippy::too_many_arguments, reason = "each is one part of the session, named once")]
    pub(crate) fn new(
        database: Database,
        sandbox: Sandbox,
        config: NodeConfig,
        stats: Arc<Stats>,
        releases: Arc<Releases>,
        runner: RunnerId,
        open_claims: Arc<OpenClaims>,
        outcomes: mpsc::Sender<Ended>,
    ) -> Self {
        Session {
            slots: Slots::new(config.slots),
            closing: CancellationToken::new(),
            claims: TaskTracker::new(),
            tasks: TaskTracker::new(),
            runtime: Handle::current(),
            running: Mutex::default(),
            unwanted: Mutex::default(),
            database,
            sandbox,
            config,
            stats,
            releases,
            runner,
            open_claims,
            outcomes,
        }
    }

    /// Takes in what a claim brought; its jobs run as slots come free. Hands them back when nothing
    /// may start any more.
    pub(crate) fn start(self: &Arc<Self>, claim: i64, jobs: Vec<Claimed>) {
        self.stats.add_claimed(jobs.len());
        self.open_claims.opened(claim, jobs.len());
        match self.slots.take(jobs) {
            Ok(slots) => {
                for _ in 0..slots {
                    let slot = attempt::slot(Arc::clone(self));
                    self.tasks.spawn_on(slot, self.sandbox.threads());
                }
            }
            Err(jobs) => self.hand_back(jobs),
        }
    }

    /// Who claims here.
    pub(crate) fn claimant(&self) -> Claimant<'_> {
        Claimant { runner: self.runner, queues: self.config.queues.as_deref() }
    }

    /// Gives jobs back that were not started.
    pub(crate) fn hand_back(self: &Arc<Self>, jobs: Vec<Claimed>) {
        if !jobs.is_empty() {
            self.tasks.spawn(attempt::hand_back(Arc::clone(self), jobs));
        }
    }

    /// Gives jobs of these kinds back that wait for a slot: somebody has paused the kinds.
    pub(crate) fn give_back_of(self: &Arc<Self>, kinds: &[KindId]) {
        if !kinds.is_empty() {
            self.hand_back(self.slots.take_out(|job| kinds.contains(&job.kind_id)));
        }
    }

    /// Starts nothing new: claims end, and jobs that wait for a slot are handed back.
    pub(crate) fn close(self: &Arc<Self>) {
        self.closing.cancel();
        self.hand_back(self.slots.close());
        self.claims.close();
        self.tasks.close();
    }

    /// Ends, once closed, when no claim is under way and every claimed job has an outcome.
    pub(crate) async fn quiet(&self) {
        self.claims.wait().await;
        self.tasks.wait().await;
    }

    /// Runs a call to the database from a slot, whose own threads have no network.
    pub(crate) async fn call<T: Send + 'static>(
        &self,
        call: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        self.runtime.spawn(call).await.ok()
    }

    /// Enters a handler that is about to run, and stops it if it is unwanted by now.
    pub(crate) fn enter(&self, job: JobId, running: Running) {
        let control = running.control.clone();
        self.running().insert(job, running);
        if let Some(reason) = self.unwanted().get(&job) {
            control.cancel(StopReason::Cancelled(reason.clone()));
        }
    }

    /// Leaves a handler that has ended.
    pub(crate) fn leave(&self, job: JobId) {
        self.running().remove(&job);
    }

    /// The handlers that run now.
    pub(crate) fn snapshot(&self) -> Vec<(JobId, Running)> {
        self.running().iter().map(|(job, running)| (*job, running.clone())).collect()
    }

    /// Stops what runs here of the jobs that are to be cancelled, and ends what waits for a slot.
    pub(crate) fn cancel(self: &Arc<Self>, requests: Vec<CancelRequest>) {
        if requests.is_empty() {
            return;
        }
        let reasons: HashMap<JobId, String> =
            requests.into_iter().map(|request| (request.job_id, request.reason)).collect();
        // First of all: what enters after the look at what runs sees it here.
        *self.unwanted() = reasons.clone();
        for (job, running) in self.snapshot() {
            if let Some(reason) = reasons.get(&job) {
                running.control.cancel(StopReason::Cancelled(reason.clone()));
            }
        }
        let waiting = self.slots.take_out(|job| reasons.contains_key(&job.id));
        if !waiting.is_empty() {
            self.tasks.spawn(attempt::cancel(Arc::clone(self), waiting, reasons));
        }
    }

    /// Orders every running handler to stop.
    pub(crate) fn stop_all(&self, reason: &StopReason) {
        for (_, running) in self.snapshot() {
            running.control.cancel(reason.clone());
        }
    }

    fn unwanted(&self) -> MutexGuard<'_, HashMap<JobId, String>> {
        // Whole after any panic: it is only ever replaced.
        self.unwanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn running(&self) -> MutexGuard<'_, HashMap<JobId, Running>> {
        // The map is whole after any panic: each step moves one value.
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
