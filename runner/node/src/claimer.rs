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

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use stokehold_queue::{
    ActiveLane, ClaimNumber, Claimed, Horizon, Lane, LaneQuota, LimitedClaim, Place, QueueError,
    Tick,
};
use tokio::task::JoinSet;

use crate::hints::{Hints, listen};
use crate::lanes::Lanes;
use crate::limited::Limited;
use crate::pace::{LINGER, Pace};
use crate::prefetch::Prefetch;
use crate::session::Session;
use crate::settler::{cause, pause};
use crate::turns::{Offer, Offers};
use crate::upkeep::Bells;

/// How often a busy node tries lanes that ran dry.
const POLL: Duration = Duration::from_millis(2);
/// How long a claim for a few jobs waits for outcomes to take along, and outcomes for a claim.
const FOR_OUTCOMES: Duration = Duration::from_millis(2);
/// A job that found no slot within this time goes back for others to take. It was held in advance
/// because jobs were short; now they are not.
const SLOT_WAIT: Duration = Duration::from_secs(2);
/// Lanes that seem empty and are asked in one claim all the same, one job each: some 2 µs a lane.
const PROBES: usize = 32;
/// How often claims take such lanes along: claims of single jobs follow each other in less.
const PROBE_EVERY: Duration = Duration::from_millis(2);
/// A look that takes this long is not repeated at once, even if a job is due.
const LONG_LOOK: Duration = Duration::from_millis(20);
/// Such looks take no more than this part of a node's time: one over it.
const LOOK_SHARE: u32 = 20;

/// Claims until the session closes. Claims that are under way then are waited for and handed on: cut
/// off in the middle they might be committed and known to nobody.
pub(crate) async fn run(session: Arc<Session>, bells: Arc<Bells>, offers: Offers) {
    let hints = Arc::new(Hints::default());
    // In a set, so that it ends with this loop however that ends.
    let mut listener = JoinSet::new();
    if session.config.wake_ups {
        let (database, bells) = (session.database.clone(), Arc::clone(&bells));
        listener.spawn(listen(database, Arc::clone(&hints), bells));
    }
    let mut claimer = Claimer {
        lanes: Lanes::default(),
        limited: Limited::default(),
        limited_under_way: false,
        horizon: Some(Horizon::default()),
        looks: JoinSet::new(),
        look_again: false,
        hinted: HashSet::new(),
        quiet: VecDeque::new(),
        probed_at: Instant::now(),
        prefetch: Prefetch::new(8 * session.config.batch),
        under_way: JoinSet::new(),
        asked_for: 0,
        unheard: Vec::new(),
        looked_at: None,
        next_look: Duration::ZERO,
        announced: false,
        pace: Pace::new(),
        offers,
        offered: VecDeque::new(),
        waiting: None,
        failures: 0,
        session,
        bells,
        hints,
    };
    claimer.run().await;
}

struct Claimer {
    session: Arc<Session>,
    bells: Arc<Bells>,
    hints: Arc<Hints>,
    lanes: Lanes,
    limited: Limited,
    /// A claim within limits is under way: another would find its kinds locked.
    limited_under_way: bool,
    /// What the looks have learnt; `None` while one is under way, which has it.
    horizon: Option<Horizon>,
    /// The look that is under way, if one is. Claims go on beside it.
    looks: JoinSet<Looked>,
    /// Somebody asked for a look while one was under way.
    look_again: bool,
    /// Lanes that were pointed to since that look began and that it may have come too early for.
    hinted: HashSet<Lane>,
    /// Lanes that may be probed, in the order in which they are.
    quiet: VecDeque<Lane>,
    probed_at: Instant,
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
    pace: Pace,
    /// Outcomes that may be settled with the next claims.
    offers: Offers,
    offered: VecDeque<(Offer, Instant)>,
    /// Since when a claim waits for one.
    waiting: Option<Instant>,
    failures: u32,
}

/// How one look came back.
struct Looked {
    horizon: Horizon,
    begun: Instant,
    tick: Result<Tick, QueueError>,
}

/// How one claim came back.
struct Answer {
    number: i64,
    answered: Vec<i64>,
    asked: Vec<LaneQuota>,
    took: Duration,
    jobs: Result<LimitedClaim, QueueError>,
    is_limited: bool,
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
                    self.leave_offers();
                    let pause = tokio::time::sleep(pause(self.failures));
                    closing.run_until_cancelled(pause).await;
                }
            }
        }
        self.leave_offers();
        while let Some(Ok(answer)) = self.under_way.join_next().await {
            let _ = self.take(answer);
        }
        if let Err(error) = self.ask_for_unheard().await {
            tracing::warn!(%error, claims = self.unheard.len(), "claims of unknown fate are left to the sweep");
        }
    }

    async fn step(&mut self) -> Result<(), QueueError> {
        self.session.hand_back(self.session.slots.overdue(SLOT_WAIT));
        self.follow_hints();
        for lane in self.session.open_claims.take_freed().into_iter().chain(self.limited.due()) {
            self.activate(lane);
        }
        if self.looked_at.is_none_or(|at| at.elapsed() >= self.next_look) {
            self.look();
        }
        let at_once = self.session.config.claims_at_once();
        while let Ok(offer) = self.offers.offers.try_recv() {
            self.offered.push_back((offer, Instant::now()));
        }
        // Claims of few jobs each go with the outcomes that make room for them, one by one. Under a load
        // that takes larger ones, several at once keep up with those who enqueue.
        let one_by_one = self.session.config.batch < self.session.config.slots;
        let mut first = true;
        while self.under_way.len() < at_once
            && !((first || one_by_one) && self.wait_for_outcomes())
            && self.claim()
        {
            first = false;
        }
        self.keep_offers(self.under_way.len() == at_once);
        let dry = self.under_way.is_empty() && self.lanes.is_empty();
        let room = self.room();
        let may_announce = self.session.config.wake_ups && !self.announced;
        if dry && room > 0 && may_announce && !self.pace.is_busy() {
            // Announce first, look after: what was enqueued between is seen by the look. One that is
            // under way may have come too early, and another follows it.
            self.announce(true).await?;
            self.look_again = self.horizon.is_none();
            self.look();
        }
        // A full node would not come for what it is told of; a busy one comes anyway, and enqueueing
        // sessions that notify commit one after another.
        let full = room == 0 && self.under_way.is_empty();
        if self.announced && (full || self.pace.is_busy()) {
            self.announce(false).await?;
        }
        self.wait(dry, room).await
    }

    /// Waits for whatever is next.
    async fn wait(&mut self, dry: bool, room: usize) -> Result<(), QueueError> {
        let closing = self.session.closing.clone();
        let look = match (&self.horizon, self.looked_at) {
            (Some(_), Some(at)) => self.next_look.saturating_sub(at.elapsed()),
            (Some(_), None) => Duration::ZERO,
            // One is under way.
            (None, _) => self.session.config.tick,
        };
        let polls = dry && room > 0 && self.pace.is_busy();
        let until = if polls { look.min(POLL) } else { look };
        let soon = self.waiting.is_some() || !self.offered.is_empty();
        let until = if soon { until.min(FOR_OUTCOMES) } else { until };
        let until =
            self.limited.next_in().filter(|_| room > 0).map_or(until, |next| until.min(next));
        let (refill_at, idle) = (self.refill_at(), self.under_way.is_empty());
        tokio::select! {
            Some(answer) = self.under_way.join_next() => match answer {
                Ok(answer) => return self.take(answer),
                // A claim that panicked may hold jobs that nobody knows: the node must stop.
                Err(error) => std::panic::resume_unwind(error.into_panic()),
            },
            Some(looked) = self.looks.join_next() => match looked {
                Ok(looked) => return self.looked(looked).await,
                Err(error) => std::panic::resume_unwind(error.into_panic()),
            },
            Some(offer) = self.offers.offers.recv() => {
                self.offered.push_back((offer, Instant::now()));
            }
            () = self.session.slots.wait_for_room(refill_at), if room == 0 && idle => {}
            () = self.hints.heard(), if dry && room > 0 => {}
            () = self.session.open_claims.freed(), if room > 0 => {}
            () = tokio::time::sleep(until) => {
                if polls {
                    self.lanes.activate_recent(LINGER);
                }
            }
            () = closing.cancelled() => {}
        }
        Ok(())
    }

    /// Starts a look, unless one is under way. Looking may be cut off at the end, claiming may not.
    fn look(&mut self) {
        let Some(mut horizon) = self.horizon.take() else { return };
        self.hinted.clear();
        let (session, begun) = (Arc::clone(&self.session), Instant::now());
        self.looks.spawn(async move {
            let queues = session.config.queues.as_deref();
            let tick = match session.database.tick(&mut horizon, queues).await {
                Ok(tick) => session.database.note_horizon(&mut horizon).await.map(|()| tick),
                Err(error) => Err(error),
            };
            Looked { horizon, begun, tick }
        });
    }

    /// What follows from a look.
    async fn looked(&mut self, looked: Looked) -> Result<(), QueueError> {
        let Looked { horizon, begun, tick } = looked;
        self.quiet.clear();
        self.quiet.extend(horizon.seen());
        self.horizon = Some(horizon);
        let interval = self.session.config.tick;
        let tick = tick?;
        self.lanes.update(&tick.lanes);
        for lane in std::mem::take(&mut self.hinted) {
            self.activate(lane);
        }
        self.session.give_back_of(&tick.paused);
        self.limited.update(&tick.limited);
        // What its limits hold back is there for every look, and no work.
        let open = |lane: &ActiveLane| !self.limited.contains(lane.lane.kind_id);
        self.pace.looked(tick.lanes.iter().any(open));
        self.session.releases.kinds_are_at(tick.kinds_version);
        if tick.dead_runners {
            self.bells.dead_runners.notify_one();
        }
        if tick.cancels {
            self.bells.cancels.notify_one();
        }
        if tick.recount {
            self.bells.recount.notify_one();
        }
        if tick.expired {
            self.bells.expired.notify_one();
        }
        if tick.schedules {
            self.bells.schedules.notify_one();
        }
        self.looked_at = (!std::mem::take(&mut self.look_again)).then_some(begun);
        let took = begun.elapsed();
        let soonest = match tick.released {
            0 if took >= LONG_LOOK => took * LOOK_SHARE,
            0 => Duration::from_millis(1),
            // What it released may still be counted as due: look again soon, not at once.
            _ => took + Duration::from_millis(5),
        };
        self.next_look = tick.next_due.unwrap_or(interval).min(interval).max(soonest);
        self.ask_for_unheard().await
    }

    fn follow_hints(&mut self) {
        let said = self.hints.take();
        for lane in said.lanes {
            self.activate(lane);
        }
        if said.look {
            self.looked_at = None;
            // One that is under way may have come too early.
            self.look_again = self.horizon.is_none();
        }
    }

    /// Takes up a lane that somebody pointed to.
    fn activate(&mut self, lane: Lane) {
        match self.horizon.as_ref().map(|horizon| horizon.place(lane)) {
            Some(Place::Served(cleared)) => self.lanes.activate(lane, cleared),
            Some(Place::Elsewhere) => {}
            Some(Place::Unknown) => self.looked_at = None,
            // Whose it is, the claim itself sees to; and what the look takes it for is too old.
            None => {
                self.lanes.activate(lane, 0);
                self.hinted.insert(lane);
            }
        }
    }

    /// Whether to wait with the next claim, for a moment: short jobs run or are being claimed, and the
    /// outcome that makes room can go along with the claim that fills it.
    fn wait_for_outcomes(&mut self) -> bool {
        let most_are_taken = 2 * self.free() <= self.session.config.slots;
        let soon = self.offers.are_likely() && self.ahead() > 0 && most_are_taken;
        if !self.offered.is_empty() || !soon {
            self.waiting = None;
            return false;
        }
        let since = self.waiting.get_or_insert_with(Instant::now);
        if since.elapsed() < FOR_OUTCOMES {
            return true;
        }
        self.waiting = None;
        false
    }

    /// Starts a claim if there is room and a lane with work, and takes outcomes along that wait for it.
    fn claim(&mut self) -> bool {
        // Whoever has to go anyway goes for a single job too.
        let room = if self.offered.is_empty() { self.room() } else { self.free() };
        let room = room.min(self.session.config.batch);
        if room == 0 || self.lanes.is_empty() {
            return false;
        }
        let mut asked = self.lanes.share(room);
        if !self.announced && self.probed_at.elapsed() >= PROBE_EVERY {
            self.probed_at = Instant::now();
            self.probe_quiet_lanes(&mut asked);
        }
        let (asked, limited) = self.limited.split(asked);
        let starts_limited = !limited.is_empty() && !self.limited_under_way;
        if starts_limited {
            self.claim_limited(limited);
        }
        if asked.is_empty() {
            return starts_limited;
        }
        let (number, answered) = self.session.open_claims.next();
        self.asked_for += wanted(&asked);
        let (session, offer) = (Arc::clone(&self.session), self.offered.pop_front());
        self.under_way.spawn(async move {
            let claim = ClaimNumber { number, answered };
            let begun = Instant::now();
            let jobs = match offer {
                Some((offer, _)) => turn(&session, offer, &claim, &asked).await,
                None => session.database.claim(session.claimant(), &claim, &asked).await,
            };
            let jobs = jobs.map(|claimed| LimitedClaim { claimed, again: Vec::new() });
            let (answered, took) = (claim.answered, begun.elapsed());
            Answer { number, answered, asked, took, jobs, is_limited: false }
        });
        true
    }

    /// Starts a claim from lanes of kinds with limits.
    fn claim_limited(&mut self, asked: Vec<LaneQuota>) {
        self.limited_under_way = true;
        let (number, answered) = self.session.open_claims.next();
        self.asked_for += wanted(&asked);
        let session = Arc::clone(&self.session);
        self.under_way.spawn(async move {
            let claim = ClaimNumber { number, answered };
            let begun = Instant::now();
            let jobs = session.database.claim_limited(session.claimant(), &claim, &asked).await;
            let (answered, took) = (claim.answered, begun.elapsed());
            Answer { number, answered, asked, took, jobs, is_limited: true }
        });
    }

    /// Leaves the outcomes that no claim took along, and says whether further ones are wanted. Where only
    /// the claims under way are in their way they may wait for one of those to come back.
    fn keep_offers(&mut self, in_the_way: bool) {
        let wanted = !self.lanes.is_empty();
        if wanted && in_the_way {
            self.offered.retain(|(_, since)| since.elapsed() < FOR_OUTCOMES);
        } else {
            self.offered.clear();
        }
        self.offers.want(wanted);
    }

    /// Leaves all outcomes, and wants no more.
    fn leave_offers(&mut self) {
        self.offered.clear();
        self.offers.want(false);
    }

    /// Asks a few of the lanes that seem empty too, each in its turn: enqueueing does not notify a
    /// busy node.
    fn probe_quiet_lanes(&mut self, asked: &mut Vec<LaneQuota>) {
        let Some(horizon) = &self.horizon else { return };
        let probes = self.quiet.len().min(PROBES);
        self.quiet.rotate_left(probes);
        let lanes = self.quiet.iter().take(probes);
        self.lanes.probe(asked, lanes.map(|lane| (*lane, horizon.cleared(*lane))));
    }

    /// Takes in what a claim brought.
    fn take(&mut self, answer: Answer) -> Result<(), QueueError> {
        let Answer { number, answered, asked, took, jobs, is_limited } = answer;
        self.asked_for -= wanted(&asked);
        self.limited_under_way &= !is_limited;
        let LimitedClaim { claimed: jobs, again } = match jobs {
            Ok(claim) => claim,
            Err(error) => {
                self.session.open_claims.untold(answered);
                self.unheard.push((number, Instant::now()));
                return Err(error);
            }
        };
        self.lanes.claimed(&asked, &jobs);
        if is_limited {
            for (lane, after) in again {
                self.limited.ask_again(lane, after);
            }
            let lane = |job: &Claimed| Lane { kind_id: job.kind_id, priority: job.priority };
            self.session.open_claims.is_limited(number, jobs.iter().map(lane));
        }
        self.prefetch.took(took);
        self.prefetch.saw(jobs.iter().map(|job| job.payload.bytes.len()));
        if let Some(pause) = self.pace.claimed(jobs.len(), wanted(&asked), self.announced) {
            let elapsed = self.looked_at.map_or(Duration::ZERO, |at| at.elapsed());
            self.next_look = self.next_look.min(elapsed + pause);
        }
        self.session.start(number, jobs);
        Ok(())
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
        // One leaves the list only with an answer: when the database is away, all of the rest stay.
        for (number, since) in self.unheard.clone() {
            let jobs = self.session.database.reclaim(self.session.runner, number).await?;
            if jobs.is_empty() && since.elapsed() <= patience {
                continue;
            }
            self.unheard.retain(|(unheard, _)| *unheard != number);
            if !jobs.is_empty() {
                tracing::info!(
                    jobs = jobs.len(),
                    "a claim was committed though its answer was lost"
                );
                self.session.start(number, jobs);
            }
        }
        Ok(())
    }

    /// Jobs that there is room for.
    fn free(&mut self) -> usize {
        let held = self.session.slots.held() + self.asked_for;
        (self.session.config.slots + self.ahead()).saturating_sub(held)
    }

    /// Jobs to claim now: none while the slots are busy and enough is held in advance.
    fn room(&mut self) -> usize {
        let held = self.session.slots.held() + self.asked_for;
        let (ahead, room) = (self.ahead(), self.free());
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

/// Settles what was offered and claims; the settler hears which of it took effect.
async fn turn(
    session: &Session,
    offer: Offer,
    claim: &ClaimNumber,
    asked: &[LaneQuota],
) -> Result<Vec<Claimed>, QueueError> {
    let turn = session.database.turn(session.claimant(), &offer.outcomes, claim, asked).await?;
    // The settler is gone only when the process is on its way out.
    let _ = offer.answer.send(turn.applied);
    Ok(turn.claimed)
}

fn wanted(asked: &[LaneQuota]) -> usize {
    asked.iter().map(|lane| usize::try_from(lane.quota).unwrap_or(0)).sum()
}
