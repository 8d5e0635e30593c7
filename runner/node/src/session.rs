//! One registration of a node: its id, its lease, and what it holds under them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stokehold_domain::{ClaimToken, JobId, RunnerId};
use stokehold_queue::{Database, Ended};
use stokehold_sandbox::{Control, Sandbox, StopReason};
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::releases::Releases;
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
    /// One permit for each attempt at once.
    pub(crate) slots: Semaphore,
    /// One permit: a node runs one suspect at a time.
    pub(crate) suspect: Semaphore,
    /// Rung when an attempt ends or a job is handed back: there is room.
    pub(crate) room: Notify,
    /// Cancelled when nothing new may start: claims end, jobs that wait for a slot are handed back.
    pub(crate) closing: CancellationToken,
    /// The claim loop, which ends only after the claim that it is in.
    pub(crate) claims: TaskTracker,
    /// The tasks of claimed jobs.
    pub(crate) tasks: TaskTracker,
    pub(crate) outcomes: mpsc::Sender<Ended>,
    running: Mutex<HashMap<JobId, Running>>,
}

/// A handler that runs now.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    pub(crate) token: ClaimToken,
    pub(crate) attempt: u16,
    pub(crate) control: Control,
}

impl Session {
    pub(crate) fn new(
        database: Database,
        sandbox: Sandbox,
        config: NodeConfig,
        stats: Arc<Stats>,
        releases: Arc<Releases>,
        runner: RunnerId,
        outcomes: mpsc::Sender<Ended>,
    ) -> Self {
        Session {
            slots: Semaphore::new(config.slots),
            suspect: Semaphore::new(1),
            room: Notify::new(),
            closing: CancellationToken::new(),
            claims: TaskTracker::new(),
            tasks: TaskTracker::new(),
            running: Mutex::default(),
            database,
            sandbox,
            config,
            stats,
            releases,
            runner,
            outcomes,
        }
    }

    /// Starts nothing new: claims end, and jobs that wait for a slot are handed back.
    pub(crate) fn close(&self) {
        self.closing.cancel();
        self.claims.close();
        self.tasks.close();
    }

    /// Ends, once closed, when no claim is under way and every claimed job has an outcome.
    pub(crate) async fn quiet(&self) {
        self.claims.wait().await;
        self.tasks.wait().await;
    }

    /// Enters a handler that is about to run.
    pub(crate) fn enter(&self, job: JobId, running: Running) {
        self.running().insert(job, running);
    }

    /// Leaves a handler that has ended.
    pub(crate) fn leave(&self, job: JobId) {
        self.running().remove(&job);
    }

    /// The handlers that run now.
    pub(crate) fn snapshot(&self) -> Vec<(JobId, Running)> {
        self.running().iter().map(|(job, running)| (*job, running.clone())).collect()
    }

    /// Orders every running handler to stop.
    pub(crate) fn stop_all(&self, reason: &StopReason) {
        for (_, running) in self.snapshot() {
            running.control.cancel(reason.clone());
        }
    }

    fn running(&self) -> MutexGuard<'_, HashMap<JobId, Running>> {
        // The map is whole after any panic: each step moves one value.
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
