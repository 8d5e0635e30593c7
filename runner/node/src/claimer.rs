//! The claim loop: looks for lanes with work and claims as much as there is room for.
//!
//! The database decides who gets a job. The loop itself holds nothing but cursors; if the process
//! dies here, what it claimed comes back with its lease. A full batch with room left is followed by
//! the next at once; only an idle node waits, for a wake-up hint, for the next due job or for the
//! next tick, whichever is first.

use std::sync::Arc;
use std::time::{Duration, Instant};

use stokehold_queue::{Database, QueueError, Tick, WakeListener};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::attempt;
use crate::lanes::Lanes;
use crate::prefetch::Prefetch;
use crate::session::Session;
use crate::settler::{cause, pause};

/// How long to wait when lanes have work that others hold locked.
const CONTENDED: Duration = Duration::from_millis(15);

/// Claims until the session closes. A claim that is under way then is waited for and handed on: cut
/// off in the middle it might be committed and known to nobody.
pub(crate) async fn run(session: Arc<Session>, dead_runners: Arc<Notify>) {
    let wake = Arc::new(Notify::new());
    // In a set, so that it ends with this loop however that ends.
    let mut listener = JoinSet::new();
    listener.spawn(listen(session.database.clone(), Arc::clone(&wake)));
    let mut claimer = Claimer {
        lanes: Lanes::default(),
        prefetch: Prefetch::new(),
        looked_at: None,
        rescanned_at: None,
        next_look: Duration::ZERO,
        asleep: false,
        failures: 0,
        session,
        dead_runners,
        wake,
    };
    claimer.run().await;
}

struct Claimer {
    session: Arc<Session>,
    dead_runners: Arc<Notify>,
    wake: Arc<Notify>,
    lanes: Lanes,
    prefetch: Prefetch,
    looked_at: Option<Instant>,
    rescanned_at: Option<Instant>,
    /// How long after `looked_at` the next look is due.
    next_look: Duration,
    /// Announced as sleeping, so that enqueueing notifies.
    asleep: bool,
    failures: u32,
}

impl Claimer {
    async fn run(&mut self) {
        let closing = self.session.closing.clone();
        while !closing.is_cancelled() {
            match self.step().await {
                Ok(()) => {
                    if self.failures > 0 {
                        tracing::info!("claiming again");
                    }
                    self.failures = 0;
                }
                Err(error) => {
                    if self.failures == 0 {
                        tracing::warn!(%error, cause = cause(&error), "claiming stopped: the database does not answer");
                    }
                    self.failures += 1;
                    let pause = tokio::time::sleep(pause(self.failures));
                    closing.run_until_cancelled(pause).await;
                }
            }
        }
    }

    async fn step(&mut self) -> Result<(), QueueError> {
        let closing = self.session.closing.clone();
        if self.looked_at.is_none_or(|at| at.elapsed() >= self.next_look) {
            // Looking may be cut off, claiming may not.
            match closing.run_until_cancelled(self.look()).await {
                Some(looked) => looked?,
                None => return Ok(()),
            }
        }
        let room = self.room();
        if room > 0 && !self.lanes.is_empty() {
            return self.claim(room).await;
        }
        if room > 0 && !self.asleep {
            // Announce first, look after: what was enqueued between is seen by the look.
            self.session.database.set_sleeping(self.session.runner, true).await?;
            self.asleep = true;
            return self.look().await;
        }
        self.wait(room == 0).await;
        Ok(())
    }

    /// One tick, and what follows from it.
    async fn look(&mut self) -> Result<(), QueueError> {
        let interval = self.session.config.tick;
        let begun = Instant::now();
        let Tick { lanes, released, next_due, dead_runners } =
            self.session.database.tick(self.session.config.queues.as_deref()).await?;
        let rescan = self.rescanned_at.is_none_or(|at| at.elapsed() >= interval);
        if rescan {
            self.rescanned_at = Some(begun);
        }
        self.lanes.update(lanes, rescan);
        if dead_runners {
            self.dead_runners.notify_one();
        }
        self.looked_at = Some(begun);
        // What this tick released may still be counted as due: look again soon, not at once.
        let soonest =
            if released > 0 { Duration::from_millis(5) } else { Duration::from_millis(1) };
        self.next_look = next_due.map_or(interval, |due| due.clamp(soonest, interval));
        Ok(())
    }

    async fn claim(&mut self, room: usize) -> Result<(), QueueError> {
        if self.asleep {
            self.session.database.set_sleeping(self.session.runner, false).await?;
            self.asleep = false;
        }
        let asked = self.lanes.share(room);
        let jobs = self.session.database.claim(self.session.runner, &asked).await?;
        self.lanes.claimed(&asked, &jobs);
        self.session.stats.add_claimed(jobs.len());
        if jobs.is_empty() {
            // Others were faster, or hold it locked.
            self.next_look = self.next_look.min(CONTENDED);
            tokio::select! {
                () = tokio::time::sleep(CONTENDED) => {}
                () = self.wake.notified() => {}
                () = self.session.closing.cancelled() => {}
            }
            self.looked_at = None;
            return Ok(());
        }
        for job in jobs {
            self.session.tasks.spawn(attempt::run(Arc::clone(&self.session), job));
        }
        if self.lanes.is_empty() {
            self.looked_at = None;
        }
        Ok(())
    }

    /// Jobs to claim now: none while the slots are busy and enough is held in advance.
    fn room(&mut self) -> usize {
        let slots = self.session.config.slots;
        let held = self.session.tasks.len();
        let ahead = self.prefetch.jobs(self.session.stats.ended());
        let room = (slots + ahead).saturating_sub(held);
        // With every slot busy, claim in halves of what is held in advance, not one by one.
        if held >= slots && room < ahead.div_ceil(2) { 0 } else { room }
    }

    async fn wait(&mut self, for_room: bool) {
        let until =
            self.looked_at.map_or(Duration::ZERO, |at| self.next_look.saturating_sub(at.elapsed()));
        tokio::select! {
            () = self.session.closing.cancelled() => {}
            () = tokio::time::sleep(until) => {}
            () = self.session.room.notified(), if for_room => {}
            () = self.wake.notified(), if !for_room => self.looked_at = None,
        }
    }
}

/// Turns notifications into rings of the bell, and connects again when the connection is gone.
async fn listen(database: Database, wake: Arc<Notify>) {
    let mut failures = 0;
    loop {
        match WakeListener::connect(&database).await {
            Ok(mut listener) => {
                failures = 0;
                wake.notify_one();
                while listener.heard().await.is_ok() {
                    wake.notify_one();
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
