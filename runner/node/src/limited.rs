//! Kinds with limits, as the claim loop sees them: they are claimed from by a statement of their own, and a lane that
//! gave nothing is asked again when a permit comes back.
//!
//! Permits come back with outcomes. Those that this node wrote it knows of; of the others it learns by its looks, which
//! tell what may run.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use stokehold_domain::KindId;
use stokehold_queue::{Lane, LaneQuota};

/// Which kinds have limits, and which of their lanes are to be asked again when.
#[derive(Debug, Default)]
pub(crate) struct Limited {
    kinds: HashSet<KindId>,
    again: Vec<(Instant, Lane)>,
}

impl Limited {
    /// Takes over what a look told.
    pub(crate) fn update(&mut self, kinds: &[KindId]) {
        self.kinds = kinds.iter().copied().collect();
    }

    /// Whether jobs of the kind are claimed within limits.
    pub(crate) fn contains(&self, kind: KindId) -> bool {
        self.kinds.contains(&kind)
    }

    /// The lanes of kinds without limits, and those of the others.
    pub(crate) fn split(&self, asked: Vec<LaneQuota>) -> (Vec<LaneQuota>, Vec<LaneQuota>) {
        if self.kinds.is_empty() {
            return (asked, Vec::new());
        }
        asked.into_iter().partition(|lane| !self.kinds.contains(&lane.kind_id))
    }

    /// The lane may give more after this time.
    pub(crate) fn ask_again(&mut self, lane: Lane, after: Duration) {
        let at = Instant::now() + after;
        match self.again.iter_mut().find(|(_, known)| *known == lane) {
            Some((known_at, _)) => *known_at = at.min(*known_at),
            None => self.again.push((at, lane)),
        }
    }

    /// The lanes whose time has come.
    pub(crate) fn due(&mut self) -> Vec<Lane> {
        let now = Instant::now();
        self.again.extract_if(.., |(at, _)| *at <= now).map(|(_, lane)| lane).collect()
    }

    /// How long until the next lane is to be asked again.
    pub(crate) fn next_in(&self) -> Option<Duration> {
        let at = self.again.iter().map(|(at, _)| *at).min()?;
        Some(at.saturating_duration_since(Instant::now()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(kind: i32) -> Lane {
        Lane { kind_id: KindId(kind), priority: 0 }
    }

    #[test]
    fn lanes_are_told_apart_by_whether_their_kind_has_limits() {
        let quota =
            |kind| LaneQuota { kind_id: KindId(kind), priority: 0, after_position: 0, quota: 1 };
        let mut limited = Limited::default();
        assert_eq!(limited.split(vec![quota(1), quota(2)]), (vec![quota(1), quota(2)], Vec::new()));
        limited.update(&[KindId(2)]);
        assert_eq!(limited.split(vec![quota(1), quota(2)]), (vec![quota(1)], vec![quota(2)]));
    }

    #[test]
    fn a_lane_is_asked_again_once_at_the_first_time_that_was_said() {
        let mut limited = Limited::default();
        assert_eq!((limited.due(), limited.next_in()), (Vec::new(), None));
        limited.ask_again(lane(1), Duration::from_secs(600));
        assert!(limited.due().is_empty() && limited.next_in() > Some(Duration::from_secs(500)));
        limited.ask_again(lane(1), Duration::ZERO);
        limited.ask_again(lane(2), Duration::from_secs(600));
        limited.ask_again(lane(1), Duration::from_secs(600));
        assert_eq!(limited.due(), [lane(1)]);
        assert_eq!(limited.due(), []);
    }
}
