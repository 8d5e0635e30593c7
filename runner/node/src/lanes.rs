//! Which lanes have work, where the next claim of each begins, and how a batch is shared out.
//!
//! The cursor of a lane is the position of the last job claimed from it: a claim that starts there
//! does not walk over the index entries of everything claimed before. Jobs can become visible behind
//! a cursor (a transaction that drew its position early and committed late), and the next tick puts
//! the cursor back before them. Correctness never depends on a cursor.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use stokehold_queue::{ActiveLane, Claimed, Lane, LaneQuota};

/// The most lanes in one claim.
const MAX_LANES: usize = 100;

/// The active lanes of one session.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    active: Vec<Lane>,
    cursors: HashMap<Lane, i64>,
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
                self.cursors.insert(active.lane, first - 1);
            }
        }
    }

    /// The lane has work, it is said; nothing of it is at or below `cleared`.
    pub(crate) fn activate(&mut self, lane: Lane, cleared: i64) {
        if !self.active.contains(&lane) {
            self.active.push(lane);
        }
        let cursor = self.cursors.entry(lane).or_insert(cleared);
        *cursor = cleared.max(*cursor);
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
        let lane_quota = |(n, lane): (usize, &Lane)| LaneQuota {
            kind_id: lane.kind_id,
            priority: lane.priority,
            after_position: self.cursors.get(lane).copied().unwrap_or(0),
            quota: quota(n),
        };
        lanes.iter().enumerate().map(lane_quota).collect()
    }

    /// One job of each of these lanes as well, as far as they are at least as urgent as what was
    /// asked for: work that nobody announced, because everybody is busy.
    pub(crate) fn probe(
        &self,
        asked: &mut Vec<LaneQuota>,
        lanes: impl Iterator<Item = (Lane, i64)>,
    ) {
        let urgent = asked.first().map_or(i16::MAX, |lane| lane.priority);
        let quiet =
            lanes.filter(|(lane, _)| lane.priority <= urgent && !self.active.contains(lane));
        asked.extend(quiet.map(|(lane, cleared)| LaneQuota {
            kind_id: lane.kind_id,
            priority: lane.priority,
            after_position: self.cursors.get(&lane).map_or(cleared, |cursor| cleared.max(*cursor)),
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
            let cursor = self.cursors.entry(*lane).or_default();
            *cursor = (*cursor).max(*last);
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

    #[test]
    fn a_claim_starts_behind_the_last_one_until_a_tick_finds_work_before() {
        let mut lanes = Lanes::default();
        lanes.update(&[ActiveLane { lane: lane(1, 0), first: Some(30) }]);
        assert_eq!(lanes.share(2)[0].after_position, 29);
        let asked = lanes.share(2);
        lanes.claimed(&asked, &[job(1, 41), job(1, 40)]);
        assert_eq!(lanes.share(2)[0].after_position, 41);
        lanes.update(&[ActiveLane { lane: lane(1, 0), first: None }]);
        assert_eq!(lanes.share(2)[0].after_position, 41, "what was released stands last");
        lanes.update(&[ActiveLane { lane: lane(1, 0), first: Some(35) }]);
        assert_eq!(lanes.share(2)[0].after_position, 34, "something stands behind the cursor");
    }

    #[test]
    fn a_hint_goes_on_from_the_cursor_and_recent_lanes_are_tried_again() {
        let mut lanes = Lanes::default();
        lanes.activate(lane(1, 0), 17);
        assert_eq!(lanes.share(1)[0].after_position, 17);
        let asked = lanes.share(2);
        lanes.claimed(&asked, &[job(1, 40)]);
        assert!(lanes.is_empty());
        lanes.activate_recent(Duration::from_secs(60));
        assert_eq!(lanes.share(1)[0].after_position, 40);
    }
}
