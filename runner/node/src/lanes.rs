//! Which lanes have work, where the next claim of each begins, and how a batch is shared out.
//!
//! The cursor of a lane is the position up to which jobs were claimed from it a moment ago: a claim that
//! starts there does not walk over the index entries of everything claimed before. Jobs become visible
//! behind others that were claimed already, when a transaction draws its position early and commits late.
//! While many sessions enqueue that is the rule, so a cursor follows [`LAG`] behind the claims; what
//! appears even later the next tick sees, and puts the cursor back before it. Correctness never depends
//! on a cursor.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use stokehold_queue::{ActiveLane, Claimed, Lane, LaneQuota};

/// The most lanes in one claim.
const MAX_LANES: usize = 100;

/// How far a cursor is behind the claims. Longer than an enqueueing transaction usually takes, and so short
/// that what was claimed meanwhile (some 2,500 index entries at 50,000 jobs a second) costs a claim little.
const LAG: Duration = Duration::from_millis(50);
/// Marks that one cursor keeps of that time.
const MARKS: u32 = 5;

/// Where the claims of one lane start.
#[derive(Debug, Default)]
struct Cursor {
    /// The last position claimed.
    reached: i64,
    /// When it was.
    reached_at: Option<Instant>,
    /// Where the claims had come to, and since when, oldest first.
    marks: VecDeque<(Instant, i64)>,
}

impl Cursor {
    /// Claims start behind this position, for there may be jobs right behind it.
    fn set(&mut self, position: i64) {
        let now = Instant::now();
        (self.reached, self.reached_at) = (position, Some(now));
        self.marks.clear();
        self.marks.push_back((now, position));
    }

    /// Nothing is at or below this position.
    fn raise(&mut self, position: i64) {
        self.reached = self.reached.max(position);
        for (_, mark) in &mut self.marks {
            *mark = position.max(*mark);
        }
    }

    /// Jobs up to this position were claimed.
    fn claimed(&mut self, position: i64) {
        let now = Instant::now();
        if position > self.reached {
            (self.reached, self.reached_at) = (position, Some(now));
        }
        self.mark(now);
    }

    fn mark(&mut self, now: Instant) {
        if self.reached_at.is_none_or(|at| now.duration_since(at) >= LAG) {
            // Nothing has been claimed for so long that nothing is left to wait for.
            self.marks.clear();
        }
        let spaced = |(at, _): &(Instant, i64)| now.duration_since(*at) >= LAG / MARKS;
        if self.marks.back().is_none_or(spaced) {
            self.marks.push_back((now, self.reached));
        }
        // The first one that is old enough is the last one that is needed.
        while self.marks.get(1).is_some_and(|(at, _)| now.duration_since(*at) >= LAG) {
            self.marks.pop_front();
        }
    }

    /// Where a claim starts.
    fn start(&mut self) -> i64 {
        self.mark(Instant::now());
        self.marks.front().map_or(self.reached, |(_, position)| *position)
    }
}

/// The active lanes of one session.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    active: Vec<Lane>,
    cursors: HashMap<Lane, Cursor>,
    /// When each lane last gave a job.
    gave: HashMap<Lane, Instant>,
    /// Where the sharing out begins, so that rounding favours no lane.
    turn: usize,
}

impl Lanes {
    /// Takes over what a tick saw: the lanes with work, each from its first job on.
    pub(crate) fn update(&mut self, seen: &[ActiveLane]) {
        self.active = seen.iter().map(|active| active.lane).collect();
        for active in seen {
            if let Some(first) = active.first {
                self.cursors.entry(active.lane).or_default().set(first - 1);
            }
        }
    }

    /// The lane has work, it is said; nothing of it is at or below `cleared`.
    pub(crate) fn activate(&mut self, lane: Lane, cleared: i64) {
        if !self.active.contains(&lane) {
            self.active.push(lane);
        }
        self.cursors.entry(lane).or_default().raise(cleared);
    }

    /// Tries the lanes again that gave jobs within this time.
    pub(crate) fn activate_recent(&mut self, within: Duration) {
        self.gave.retain(|_, at| at.elapsed() <= within);
        for lane in self.gave.keys() {
            if !self.active.contains(lane) {
                self.active.push(*lane);
            }
        }
    }

    /// No lane is known to have work.
    pub(crate) fn is_empty(&self) -> bool {
        self.active.is_empty()
    }

    /// Shares `wanted` jobs evenly among the lanes of the most urgent priority.
    pub(crate) fn share(&mut self, wanted: usize) -> Vec<LaneQuota> {
        let Some(urgent) = self.active.iter().map(|lane| lane.priority).min() else {
            return Vec::new();
        };
        let mut lanes: Vec<Lane> =
            self.active.iter().copied().filter(|lane| lane.priority == urgent).collect();
        self.turn = self.turn.wrapping_add(1);
        let start = self.turn % lanes.len();
        lanes.rotate_left(start);
        lanes.truncate(MAX_LANES.min(wanted));
        let (each, rest) = (wanted / lanes.len().max(1), wanted % lanes.len().max(1));
        let quota = |n: usize| i32::try_from(each + usize::from(n < rest)).unwrap_or(i32::MAX);
        let cursors = &mut self.cursors;
        let lane_quota = |(n, lane): (usize, &Lane)| LaneQuota {
            kind_id: lane.kind_id,
            priority: lane.priority,
            after_position: cursors.entry(*lane).or_default().start(),
            quota: quota(n),
        };
        lanes.iter().enumerate().map(lane_quota).collect()
    }

    /// One job of each of these lanes as well, as far as they are at least as urgent as what was
    /// asked for: work that nobody announced, because everybody is busy.
    pub(crate) fn probe(
        &mut self,
        asked: &mut Vec<LaneQuota>,
        lanes: impl Iterator<Item = (Lane, i64)>,
    ) {
        let urgent = asked.first().map_or(i16::MAX, |lane| lane.priority);
        let (active, cursors) = (&self.active, &mut self.cursors);
        let quiet = lanes.filter(|(lane, _)| lane.priority <= urgent && !active.contains(lane));
        asked.extend(quiet.map(|(lane, cleared)| LaneQuota {
            kind_id: lane.kind_id,
            priority: lane.priority,
            after_position: cursors.get_mut(&lane).map_or(0, Cursor::start).max(cleared),
            quota: 1,
        }));
    }

    /// Moves the cursors behind what was claimed, drops the lanes that gave less than asked and takes
    /// up those that gave what they were probed for.
    pub(crate) fn claimed(&mut self, asked: &[LaneQuota], jobs: &[Claimed]) {
        let mut taken: HashMap<Lane, (i32, i64)> = HashMap::new();
        for job in jobs {
            let lane = Lane { kind_id: job.kind_id, priority: job.priority };
            let (count, last) = taken.entry(lane).or_default();
            (*count, *last) = (*count + 1, job.position.max(*last));
        }
        let now = Instant::now();
        for (lane, (_, last)) in &taken {
            self.cursors.entry(*lane).or_default().claimed(*last);
            self.gave.insert(*lane, now);
        }
        for quota in asked {
            let lane = Lane { kind_id: quota.kind_id, priority: quota.priority };
            if taken.get(&lane).map_or(0, |(count, _)| *count) < quota.quota {
                self.active.retain(|active| *active != lane);
            } else if !self.active.contains(&lane) {
                self.active.push(lane);
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use chrono::DateTime;
    use stokehold_domain::{Blob, ClaimToken, JobId, KindId};

    fn lane(kind: i32, priority: i16) -> Lane {
        Lane { kind_id: KindId(kind), priority }
    }

    fn active(kind: i32, priority: i16) -> ActiveLane {
        ActiveLane { lane: lane(kind, priority), first: Some(1) }
    }

    pub(crate) fn job(kind: i32, position: i64) -> Claimed {
        Claimed {
            claim: 1,
            id: JobId(position),
            kind_id: KindId(kind),
            release: 1,
            priority: 0,
            position,
            token: ClaimToken(1),
            attempt: 1,
            max_attempts: 1,
            snoozes: 0,
            lost: 0,
            payload: Blob::json("{}"),
            metadata: None,
            last_problem: None,
            enqueued_at: DateTime::UNIX_EPOCH,
            run_at: DateTime::UNIX_EPOCH,
            options: None,
            expired: false,
        }
    }

    #[test]
    fn a_batch_is_shared_evenly_among_the_most_urgent_lanes_only() {
        let mut lanes = Lanes::default();
        lanes.update(&[active(1, 0), active(2, 0), active(3, 0), active(4, 5)]);
        let shares = lanes.share(10);
        let mut quotas: Vec<i32> = shares.iter().map(|share| share.quota).collect();
        quotas.sort_unstable();
        assert_eq!(quotas, [3, 3, 4]);
        assert!(shares.iter().all(|share| share.kind_id != KindId(4)));
        assert_eq!(lanes.share(2).len(), 2, "no lane is asked for nothing");
    }

    #[test]
    fn a_drained_lane_makes_way_for_the_next_priority() {
        let mut lanes = Lanes::default();
        lanes.update(&[active(1, 0), active(2, 5)]);
        let asked = lanes.share(3);
        lanes.claimed(&asked, &[job(1, 7)]);
        assert_eq!(lanes.share(3)[0].kind_id, KindId(2));
    }

    #[test]
    fn quiet_lanes_are_probed_beside_busy_ones_unless_they_are_less_urgent() {
        let mut lanes = Lanes::default();
        lanes.update(&[active(1, 0)]);
        let mut asked = lanes.share(10);
        let quiet = [lane(1, 0), lane(2, 0), lane(3, 5), lane(4, -5)];
        lanes.probe(&mut asked, quiet.into_iter().map(|lane| (lane, 9)));
        let probed: Vec<(i32, i64, i32)> = asked[1..]
            .iter()
            .map(|asked| (asked.kind_id.0, asked.after_position, asked.quota))
            .collect();
        assert_eq!(probed, [(2, 9, 1), (4, 9, 1)]);
        lanes.claimed(&asked, &[job(2, 30)]);
        assert!(lanes.active.contains(&lane(2, 0)), "it may have more");
        assert!(!lanes.active.contains(&lane(1, 0)) && !lanes.active.contains(&lane(4, -5)));
    }

    /// Lets time pass for what the lanes remember.
    fn wait(lanes: &mut Lanes, time: Duration) {
        for cursor in lanes.cursors.values_mut() {
            cursor.reached_at = cursor.reached_at.map(|at| at - time);
            for mark in &mut cursor.marks {
                mark.0 -= time;
            }
        }
    }

    fn start(lanes: &mut Lanes) -> i64 {
        lanes.share(2)[0].after_position
    }

    #[test]
    fn a_claim_starts_where_the_claims_were_a_moment_ago() {
        let mut lanes = Lanes::default();
        lanes.update(&[ActiveLane { lane: lane(1, 0), first: Some(30) }]);
        assert_eq!(start(&mut lanes), 29);
        let asked = lanes.share(2);
        lanes.claimed(&asked, &[job(1, 41), job(1, 40)]);
        assert_eq!(start(&mut lanes), 29, "what is between may not have been committed yet");
        wait(&mut lanes, LAG / 2);
        lanes.claimed(&asked, &[job(1, 50), job(1, 51)]);
        wait(&mut lanes, LAG * 6 / 10);
        assert_eq!(start(&mut lanes), 29, "51 was reached too short a time ago");
        wait(&mut lanes, LAG);
        assert_eq!(start(&mut lanes), 51);
        assert!(lanes.cursors[&lane(1, 0)].marks.len() <= MARKS as usize + 2);
    }

    #[test]
    fn a_tick_that_finds_work_behind_the_claims_puts_the_cursor_back_and_claims_under_way_do_not_move_it()
     {
        let mut lanes = Lanes::default();
        lanes.update(&[ActiveLane { lane: lane(1, 0), first: Some(30) }]);
        let asked = lanes.share(2);
        lanes.claimed(&asked, &[job(1, 40), job(1, 41)]);
        wait(&mut lanes, LAG * 2);
        lanes.update(&[ActiveLane { lane: lane(1, 0), first: None }]);
        assert_eq!(start(&mut lanes), 41, "what was released stands last");
        lanes.update(&[ActiveLane { lane: lane(1, 0), first: Some(35) }]);
        // One that had begun before the tick.
        lanes.claimed(&asked, &[job(1, 42), job(1, 43)]);
        assert_eq!(start(&mut lanes), 34, "something stands there still");
    }

    #[test]
    fn a_hint_goes_on_from_the_cursor_and_recent_lanes_are_tried_again() {
        let mut lanes = Lanes::default();
        lanes.activate(lane(1, 0), 17);
        assert_eq!(start(&mut lanes), 17);
        let asked = lanes.share(2);
        lanes.claimed(&asked, &[job(1, 40)]);
        assert!(lanes.is_empty());
        wait(&mut lanes, LAG * 2);
        lanes.activate_recent(Duration::from_secs(60));
        assert_eq!(start(&mut lanes), 40);
        // A horizon that has come further than the claims.
        lanes.activate(lane(1, 0), 60);
        assert_eq!(start(&mut lanes), 60);
    }
}
