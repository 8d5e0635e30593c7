//! The claim loop: looks for lanes with work and claims as much as there is room for.
//!
//! The database decides who gets a job. The loop itself holds nothing but cursors; if the process
//! dies here, what it claimed comes back with its lease. A full batch with room left is followed by
//! the next at once; only an idle node waits, for a hint, for the next due job or for the next tick,
//! whichever is first.
//!
//! States: *announced* (in the table of sleepers, so that enqueueing notifies; a hint is followed by a
//! claim at once), *busy* (not announced; when its lanes run dry it tries them again every few
//! milliseconds) and, between the two, a look: announce first, look after, so that nothing enqueued
//! between is missed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stokehold_queue::{
    ClaimNumber, Claimant, Claimed, Horizon, Lane, LaneQuota, Place, QueueError,
};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::hints::{Hints, listen};
use crate::lanes::Lanes;
use crate::prefetch::Prefetch;
use crate::session::Session;
use crate::settler::{cause, pause};

/// How long to wait when lanes have work that others hold locked.
const CONTENDED: Duration = Duration::from_millis(15);
/// How long a node that was busy tries its lanes again before it announces that it waits. Announced,
/// it makes every commit of an enqueueing session notify, and those go one after another.
const LINGER: Duration = Duration::from_millis(30);
/// How often it tries them.
const POLL: Duration = Duration::from_millis(2);
/// Claims after hints within [`LINGER`] that make a node busy.
const MANY_HINTS: u32 = 8;
/// A job that found no slot within this time goes back for others to take. It was held in advance
/// because jobs were short; now they are not.
const SLOT_WAIT: Duration = Duration::from_secs(2);
/// Lanes that seem empty and are asked in one claim all the same, one job each: some 2 µs a lane.
const PROBES: usize = 32;
/// A look takes no more than this part of a node's time: one over it.
const LOOK_SHARE: u32 = 20;

/// Claims until the session closes. Claims that are under way then are waited for and handed on: cut
/// off in the middle they might be committed and known to nobody.
pub(crate) async fn run(session: Arc<Session>, dead_runners: Arc<Notify>) {
    let hints = Arc::new(Hints::default());
    // In a set, so that it ends with this loop however that ends.
    let mut listener = JoinSet::new();
    if session.config.wake_ups {
        listener.spawn(listen(session.database.clone(), Arc::clone(&hints)));
    }
    let mut claimer = Claimer {
        lanes: Lanes::default(),
        horizon: Horizon::default(),
        served: VecDeque::new(),
        prefetch: Prefetch::new(3 * session.config.batch),
        under_way: JoinSet::new(),
        asked_for: 0,
        unheard: Vec::new(),
        looked_at: None,
        next_look: Duration::ZERO,
        announced: false,
        busy_until: None,
        hinted: (Instant::now(), 0),
        seen: false,
        contended: 0,
        failures: 0,
        session,
        dead_runners,
        hints,
    };
    claimer.run().await;
}

struct Claimer {
    session: Arc<Session>,
    dead_runners: Arc<Notify>,
    hints: Arc<Hints>,
    lanes: Lanes,
    horizon: Horizon,
    /// Every lane of the queues served, in the order in which they are probed.
    served: VecDeque<Lane>,
    prefetch: Prefetch,
    under_way: JoinSet<Answer>,
    /// Jobs that the claims under way may bring.
    asked_for: usize,
    /// Claims whose answer was lost on the way.
    unheard: Vec<(i64, Instant)>,
    looked_at: Option<Instant>,
    /// How long after `looked_at` the next look is due.
    next_look: Duration,
    /// Enqueueing notifies us.
    announced: bool,
    /// Until when dry lanes are tried again before waiting is announced.
    busy_until: Option<Instant>,
    /// Claims after hints since this moment.
    hinted: (Instant, u32),
    /// The last look saw work, and no claim has come back since.
    seen: bool,
    /// Claims in a row that got nothing of what a look had seen.
    contended: u32,
    failures: u32,
}

/// How one claim came back.
struct Answer {
    number: i64,
    answered: Vec<i64>,
    asked: Vec<LaneQuota>,
    jobs: Result<Vec<Claimed>, QueueError>,
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
                    self.looked_at = None;
                    let pause = tokio::time::sleep(pause(self.failures));
                    closing.run_until_cancelled(pause).await;
                }
            }
        }
        while let Some(Ok(answer)) = self.under_way.join_next().await {
            let _ = self.take(answer);
        }
        if let Err(error) = self.ask_for_unheard().await {
            tracing::warn!(%error, claims = self.unheard.len(), "claims of unknown fate are left to the sweep");
        }
    }

    async fn step(&mut self) -> Result<(), QueueError> {
        let closing = self.session.closing.clone();
        self.session.hand_back(self.session.slots.overdue(SLOT_WAIT));
        self.follow_hints();
        if self.looked_at.is_none_or(|at| at.elapsed() >= self.next_look) {
            // Looking may be cut off, claiming may not.
            match closing.run_until_cancelled(self.look()).await {
                Some(looked) => looked?,
                None => return Ok(()),
            }
        }
        let at_once = self.session.config.claims_at_once();
        while self.under_way.len() < at_once && self.claim() {}
        let dry = self.under_way.is_empty() && self.lanes.is_empty();
        let room = self.room();
        let may_announce = self.session.config.wake_ups && !self.announced;
        if dry && room > 0 && may_announce && !self.is_busy() {
            // Announce first, look after: what was enqueued between is seen by the look.
            self.announce(true).await?;
            return self.look().await;
        }
        if room == 0 && self.announced && self.under_way.is_empty() {
            self.announce(false).await?;
        }
        self.wait(dry, room).await
    }

    /// Waits for whatever is next.
    async fn wait(&mut self, dry: bool, room: usize) -> Result<(), QueueError> {
        let closing = self.session.closing.clone();
        let look =
            self.looked_at.map_or(Duration::ZERO, |at| self.next_look.saturating_sub(at.elapsed()));
        let polls = dry && room > 0 && self.is_busy();
        let until = if polls { look.min(POLL) } else { look };
        let (refill_at, idle) = (self.refill_at(), self.under_way.is_empty());
        tokio::select! {
            Some(answer) = self.under_way.join_next() => match answer {
                Ok(answer) => return self.take(answer),
                // A claim that panicked may hold jobs that nobody knows: the node must stop.
                Err(error) => std::panic::resume_unwind(error.into_panic()),
            },
            () = self.session.slots.wait_for_room(refill_at), if room == 0 && idle => {}
            () = self.hints.heard(), if dry && room > 0 => {}
            () = tokio::time::sleep(until) => {
                if polls {
                    self.lanes.activate_recent(LINGER);
                }
            }
            () = closing.cancelled() => {}
        }
        Ok(())
    }

    /// One tick, and what follows from it.
    async fn look(&mut self) -> Result<(), QueueError> {
        let interval = self.session.config.tick;
        let begun = Instant::now();
        let queues = self.session.config.queues.as_deref();
        let tick = self.session.database.tick(&mut self.horizon, queues).await?;
        self.lanes.update(&tick.lanes);
        self.seen = !tick.lanes.is_empty();
        self.session.releases.kinds_are_at(tick.kinds_version);
        self.served.clear();
        self.served.extend(self.horizon.served());
        if tick.dead_runners {
            self.dead_runners.notify_one();
        }
        self.ask_for_unheard().await?;
        self.session.database.note_horizon(&mut self.horizon).await?;
        self.looked_at = Some(begun);
        // What this tick released may still be counted as due: look again soon, not at once.
        let soonest = if tick.released > 0 { 5 } else { 1 };
        let soonest = Duration::from_millis(soonest).max(begun.elapsed() * LOOK_SHARE);
        self.next_look = tick.next_due.unwrap_or(interval).min(interval).max(soonest);
        Ok(())
    }

    fn follow_hints(&mut self) {
        let said = self.hints.take();
        for lane in said.lanes {
            match self.horizon.place(lane) {
                Place::Served(cleared) => self.lanes.activate(lane, cleared),
                Place::Elsewhere => {}
                Place::Unknown => self.looked_at = None,
            }
        }
        if said.look {
            self.looked_at = None;
        }
    }

    /// Starts a claim if there is room and a lane with work.
    fn claim(&mut self) -> bool {
        let room = self.room().min(self.session.config.batch);
        if room == 0 || self.lanes.is_empty() {
            return false;
        }
        let mut asked = self.lanes.share(room);
        if !self.announced {
            self.probe_quiet_lanes(&mut asked);
        }
        let (number, answered) = self.session.open_claims.next();
        self.asked_for += wanted(&asked);
        let session = Arc::clone(&self.session);
        self.under_way.spawn(async move {
            let claim = ClaimNumber { number, answered };
            let queues = session.config.queues.as_deref();
            let claimant = Claimant { runner: session.runner, queues };
            let jobs = session.database.claim(claimant, &claim, &asked).await;
            Answer { number, answered: claim.answered, asked, jobs }
        });
        true
    }

    /// Asks a few of the lanes that seem empty too, each in its turn: enqueueing does not notify a
    /// busy node.
    fn probe_quiet_lanes(&mut self, asked: &mut Vec<LaneQuota>) {
        let quiet = self.served.len().min(PROBES);
        self.served.rotate_left(quiet);
        let lanes = self.served.iter().take(quiet);
        self.lanes.probe(asked, lanes.map(|lane| (*lane, self.horizon.cleared(*lane))));
    }

    /// Takes in what a claim brought.
    fn take(&mut self, answer: Answer) -> Result<(), QueueError> {
        let Answer { number, answered, asked, jobs } = answer;
        self.asked_for -= wanted(&asked);
        let jobs = match jobs {
            Ok(jobs) => jobs,
            Err(error) => {
                self.session.open_claims.untold(answered);
                self.unheard.push((number, Instant::now()));
                return Err(error);
            }
        };
        self.lanes.claimed(&asked, &jobs);
        self.prefetch.saw(jobs.iter().map(|job| job.payload.bytes.len()));
        self.note_pace(jobs.len(), wanted(&asked));
        self.note_contention(jobs.is_empty());
        self.session.start(number, jobs);
        Ok(())
    }

    /// Decides from what a claim brought whether this node is busy.
    fn note_pace(&mut self, brought: usize, asked: usize) {
        if brought == 0 {
            return;
        }
        let (since, count) = &mut self.hinted;
        if since.elapsed() > LINGER {
            (*since, *count) = (Instant::now(), 0);
        }
        *count += 1;
        if !self.announced || brought == asked || *count > MANY_HINTS {
            self.busy_until = Some(Instant::now() + LINGER);
        }
    }

    /// A look saw work and the claim got none: others were faster, or hold it locked. Look again, but
    /// less and less often.
    fn note_contention(&mut self, got_nothing: bool) {
        if !got_nothing {
            self.contended = 0;
        } else if self.seen {
            let pause = CONTENDED * (1 << self.contended.min(6));
            let elapsed = self.looked_at.map_or(Duration::ZERO, |at| at.elapsed());
            self.next_look = self.next_look.min(elapsed + pause);
            self.contended += 1;
        }
        self.seen = false;
    }

    fn is_busy(&self) -> bool {
        self.busy_until.is_some_and(|until| Instant::now() < until)
    }

    async fn announce(&mut self, sleeping: bool) -> Result<(), QueueError> {
        self.session.database.set_sleeping(self.session.runner, sleeping).await?;
        self.announced = sleeping;
        Ok(())
    }

    /// Starts what lost claims turn out to have brought. The server gives a statement up after the
    /// same deadline as we do, so after twice that time there is nothing more to come.
    async fn ask_for_unheard(&mut self) -> Result<(), QueueError> {
        let patience = 2 * self.session.database.options().call_deadline;
        for (number, since) in std::mem::take(&mut self.unheard) {
            match self.session.database.reclaim(self.session.runner, number).await {
                Ok(jobs) if !jobs.is_empty() => {
                    tracing::info!(
                        jobs = jobs.len(),
                        "a claim was committed though its answer was lost"
                    );
                    self.session.start(number, jobs);
                }
                Ok(_) if since.elapsed() > patience => {}
                Ok(_) => self.unheard.push((number, since)),
                Err(error) => {
                    self.unheard.push((number, since));
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Jobs to claim now: none while the slots are busy and enough is held in advance.
    fn room(&mut self) -> usize {
        let held = self.session.slots.held() + self.asked_for;
        let ahead = self.ahead();
        let room = (self.session.config.slots + ahead).saturating_sub(held);
        // With every slot busy, claim in halves of what is held in advance, not one by one.
        if held >= self.session.config.slots && room < ahead.div_ceil(2) { 0 } else { room }
    }

    /// Where `room` is no longer 0.
    fn refill_at(&mut self) -> usize {
        let ahead = self.ahead();
        (self.session.config.slots + ahead - ahead.div_ceil(2))
            .saturating_sub(usize::from(ahead == 0))
    }

    fn ahead(&mut self) -> usize {
        self.prefetch.jobs(self.session.stats.ended())
    }
}

fn wanted(asked: &[LaneQuota]) -> usize {
    asked.iter().map(|lane| usize::try_from(lane.quota).unwrap_or(0)).sum()
}
