//! Which lanes have work, where the next claim of each begins, and how a batch is shared out.
//!
//! The cursor of a lane is the position of the last job claimed from it: a claim that starts there
//! does not walk over the index entries of everything claimed before. Jobs can become visible behind
//! a cursor (a transaction that drew its position early and committed late), so every regular rescan
//! starts from the beginning of the lane. Correctness never depends on a cursor.

use std::collections::HashMap;

use stokehold_queue::{Claimed, Lane, LaneQuota};

/// The most lanes in one claim.
const MAX_LANES: usize = 100;

/// The active lanes of one session.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    active: Vec<Lane>,
    cursors: HashMap<Lane, i64>,
    /// Where the sharing out begins, so that rounding favours no lane.
    turn: usize,
}

impl Lanes {
    /// Takes over what a tick saw. A lane that is active although the last claim drained it has work
    /// behind its cursor, which therefore goes back to the start.
    pub(crate) fn update(&mut self, seen: Vec<Lane>, rescan: bool) {
        let drained = |lane: &Lane| !self.active.contains(lane);
        let behind: Vec<Lane> = seen.iter().copied().filter(drained).collect();
        if rescan {
            self.cursors.clear();
        }
        for lane in behind {
            self.cursors.remove(&lane);
        }
        self.active = seen;
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

    /// Moves the cursors behind what was claimed, and drops the lanes that gave less than asked.
    pub(crate) fn claimed(&mut self, asked: &[LaneQuota], jobs: &[Claimed]) {
        let mut taken: HashMap<Lane, i32> = HashMap::new();
        for job in jobs {
            let lane = Lane { kind_id: job.kind_id, priority: job.priority };
            *taken.entry(lane).or_default() += 1;
            let cursor = self.cursors.entry(lane).or_default();
            *cursor = (*cursor).max(job.position);
        }
        for quota in asked {
            let lane = Lane { kind_id: quota.kind_id, priority: quota.priority };
            if taken.get(&lane).copied().unwrap_or(0) < quota.quota {
                self.active.retain(|active| *active != lane);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::DateTime;
    use stokehold_domain::{Blob, ClaimToken, JobId, KindId};

    fn lane(kind: i32, priority: i16) -> Lane {
        Lane { kind_id: KindId(kind), priority }
    }

    fn job(kind: i32, position: i64) -> Claimed {
        Claimed {
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
        lanes.update(vec![lane(1, 0), lane(2, 0), lane(3, 0), lane(4, 5)], true);
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
        lanes.update(vec![lane(1, 0), lane(2, 5)], true);
        let asked = lanes.share(3);
        lanes.claimed(&asked, &[job(1, 7)]);
        assert_eq!(lanes.share(3)[0].kind_id, KindId(2));
    }

    #[test]
    fn a_claim_starts_behind_the_last_one_until_a_rescan_or_work_behind_the_cursor() {
        let mut lanes = Lanes::default();
        lanes.update(vec![lane(1, 0)], true);
        let asked = lanes.share(2);
        lanes.claimed(&asked, &[job(1, 41), job(1, 40)]);
        assert_eq!(lanes.share(2)[0].after_position, 41);
        lanes.update(vec![lane(1, 0)], false);
        assert_eq!(lanes.share(2)[0].after_position, 41, "a tick alone keeps the cursor");
        let asked = lanes.share(2);
        lanes.claimed(&asked, &[]);
        assert!(lanes.is_empty());
        lanes.update(vec![lane(1, 0)], false);
        assert_eq!(lanes.share(2)[0].after_position, 0, "something stands behind the cursor");
        lanes.claimed(&[], &[job(1, 50)]);
        lanes.update(vec![lane(1, 0)], true);
        assert_eq!(lanes.share(2)[0].after_position, 0, "a rescan starts over");
    }
}
