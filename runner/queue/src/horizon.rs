//! How far back a look has to reach: what a node has seen to be empty and can never fill again.
//!
//! While any session holds an old snapshot, the index entries of claimed jobs cannot be removed, and a
//! look from the start of a lane steps over all of them (75 to 100 ns each, measured: a million jobs
//! later every look takes 0.1 s). So a node remembers for each lane the position up to which a plain
//! look has found nothing, and looks only behind it.
//!
//! That is sound when no job can still appear there. A job draws its position when its row is
//! written and never gets another one but a higher, so what can appear below a position that has been
//! drawn belongs to a transaction that was writing to the table then. A tick notes the last position
//! drawn; the next one notes who writes to the table; once none of those writes any more, whatever
//! stood at or below that position is visible to every later look. A transaction that enqueued and
//! stays open holds this back, readers do not, however old their snapshot. The same mark, as a time,
//! bounds the search for jobs that are due: none is ever scheduled for a time that has passed.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, TimeDelta, Utc};

use crate::Lane;
use crate::tick::ActiveLane;

/// A lane's place is worth telling others when it has moved by this many positions.
const WORTH_NOTING: i64 = 200_000;

/// What was the newest at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The last position drawn.
    pub(crate) position: i64,
    /// The time, by the database's clock.
    pub(crate) at: DateTime<Utc>,
}

/// The memory of one node's ticks.
#[derive(Debug)]
pub struct Horizon {
    lanes: HashMap<Lane, Cleared>,
    /// Rows of the table of lanes when it was last read, and the version of the kinds then.
    lanes_seen: (i64, i64),
    /// Everything up to here is visible or never will be.
    floor: Mark,
    /// No job is due before this time.
    due_from: DateTime<Utc>,
    /// A mark that waits for its writers to be looked up.
    marked: Option<Mark>,
    /// A mark that waits for these writers to end.
    watched: Option<(Mark, HashSet<String>)>,
}

/// How far a lane is empty for good.
#[derive(Clone, Copy, Debug, Default)]
struct Cleared {
    position: i64,
    noted: i64,
    /// Of a queue that this node serves.
    served: bool,
    /// This node has seen it for itself: what was noted may be far behind.
    seen: bool,
}

/// What is known of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// This node serves it, and it can have nothing at or below this position.
    Served(i64),
    /// Others serve it.
    Elsewhere,
    /// It has not been heard of: look.
    Unknown,
}

impl Default for Horizon {
    fn default() -> Self {
        Horizon {
            lanes: HashMap::new(),
            lanes_seen: (-1, -1),
            floor: Mark { position: 0, at: DateTime::UNIX_EPOCH },
            due_from: DateTime::from_timestamp(0, 0).unwrap_or_default() - TimeDelta::days(700_000),
            marked: None,
            watched: None,
        }
    }
}

impl Horizon {
    /// Positions at and below which the lane can have nothing.
    pub fn cleared(&self, lane: Lane) -> i64 {
        self.lanes.get(&lane).map_or(0, |cleared| cleared.position)
    }

    /// What is known of the lane.
    pub fn place(&self, lane: Lane) -> Place {
        match self.lanes.get(&lane) {
            None => Place::Unknown,
            Some(cleared) if cleared.served => Place::Served(cleared.position),
            Some(_) => Place::Elsewhere,
        }
    }

    /// The lanes that this node serves and that are asked for a job at little cost, because it has seen
    /// for itself how far they are empty.
    pub fn seen(&self) -> impl Iterator<Item = Lane> {
        let seen = |(_, cleared): &(&Lane, &Cleared)| cleared.served && cleared.seen;
        self.lanes.iter().filter(seen).map(|(lane, _)| *lane)
    }

    pub(crate) fn is_up_to_date(&self, lanes: i64, kinds_version: i64) -> bool {
        self.lanes_seen == (lanes, kinds_version)
    }

    pub(crate) fn due_from(&self) -> DateTime<Utc> {
        self.due_from
    }

    /// The lanes to look into, and from where.
    pub(crate) fn questions(&self) -> (Vec<i32>, Vec<i16>, Vec<i64>) {
        let served = || self.lanes.iter().filter(|(_, cleared)| cleared.served);
        let kinds = served().map(|(lane, _)| lane.kind_id.0).collect();
        let priorities = served().map(|(lane, _)| lane.priority).collect();
        (kinds, priorities, served().map(|(_, cleared)| cleared.position).collect())
    }

    /// Takes over the lanes that there are: how far each is cleared, as somebody noted, and whether
    /// this node serves it.
    pub(crate) fn set_lanes(
        &mut self,
        lanes: impl Iterator<Item = (Lane, i64, bool)>,
        rows: i64,
        kinds_version: i64,
    ) {
        for (lane, position, served) in lanes {
            let known = Cleared { position, noted: position, served, seen: false };
            self.lanes.entry(lane).or_insert(known).served = served;
        }
        self.lanes_seen = (rows, kinds_version);
    }

    /// Takes in what one look found: the first job of each lane that has any, the next that is due,
    /// what was newest, and who was writing.
    pub(crate) fn learn(
        &mut self,
        found: &[ActiveLane],
        next_due: Option<DateTime<Utc>>,
        newest: Mark,
        writers: Vec<String>,
    ) {
        // By the floor as it was before this look.
        let first: HashMap<Lane, Option<i64>> =
            found.iter().map(|active| (active.lane, active.first)).collect();
        let floor = self.floor;
        // Of a lane that was not looked into nothing was learnt.
        for (lane, cleared) in self.lanes.iter_mut().filter(|(_, cleared)| cleared.served) {
            let empty_to = match first.get(lane) {
                None | Some(None) => floor.position,
                Some(Some(first)) => floor.position.min(first - 1),
            };
            cleared.position = cleared.position.max(empty_to);
            cleared.seen = cleared.seen || floor.position > 0;
        }
        self.due_from = self.due_from.max(next_due.map_or(floor.at, |due| due.min(floor.at)));

        let writers: HashSet<String> = writers.into_iter().collect();
        if let Some((mark, watched)) = &self.watched
            && watched.is_disjoint(&writers)
        {
            self.floor = *mark;
            self.watched = None;
        }
        if self.watched.is_none() {
            if let Some(mark) = self.marked.take() {
                self.watched = Some((mark, writers));
            }
            self.marked = Some(newest);
        }
    }

    /// Lanes whose place has moved far since others were told.
    pub(crate) fn worth_noting(&self) -> Vec<(Lane, i64)> {
        let far = |(_, cleared): &(&Lane, &Cleared)| {
            cleared.position >= cleared.noted.saturating_add(WORTH_NOTING)
        };
        self.lanes.iter().filter(far).map(|(lane, cleared)| (*lane, cleared.position)).collect()
    }

    pub(crate) fn noted(&mut self, lanes: &[(Lane, i64)]) {
        for (lane, position) in lanes {
            if let Some(cleared) = self.lanes.get_mut(lane) {
                cleared.noted = *position;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stokehold_domain::KindId;

    const LANE: Lane = Lane { kind_id: KindId(1), priority: 0 };

    fn mark(position: i64) -> Mark {
        Mark { position, at: DateTime::from_timestamp(position, 0).unwrap() }
    }

    fn known() -> Horizon {
        let mut horizon = Horizon::default();
        horizon.set_lanes([(LANE, 0, true)].into_iter(), 1, 1);
        horizon
    }

    fn writers(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_lane_is_cleared_only_after_everyone_who_wrote_then_has_ended() {
        let mut horizon = known();
        horizon.learn(&[], None, mark(100), writers(&["3/1"]));
        // 3/7 may have drawn a position up to 100 and is still open.
        horizon.learn(&[], None, mark(200), writers(&["3/7", "4/2"]));
        for position in [300, 400] {
            horizon.learn(&[], None, mark(position), writers(&["3/7"]));
            assert_eq!(horizon.cleared(LANE), 0);
        }
        horizon.learn(&[], None, mark(500), writers(&["5/5"]));
        assert_eq!(horizon.cleared(LANE), 0, "this very look may have come too early");
        horizon.learn(&[], None, mark(600), Vec::new());
        assert_eq!(horizon.cleared(LANE), 100);
    }

    #[test]
    fn a_lane_is_asked_by_the_way_only_once_it_is_known_where_it_begins() {
        let mut horizon = known();
        horizon.learn(&[], None, mark(100), Vec::new());
        horizon.learn(&[], None, mark(200), Vec::new());
        assert_eq!(horizon.seen().count(), 0, "it would be walked through from its beginning");
        for position in [300, 400] {
            horizon.learn(&[], None, mark(position), Vec::new());
        }
        assert_eq!((horizon.seen().count(), horizon.cleared(LANE)), (1, 100));
    }

    #[test]
    fn nothing_is_learnt_of_a_lane_that_others_serve() {
        let mut horizon = Horizon::default();
        horizon.set_lanes([(LANE, 7, false)].into_iter(), 1, 1);
        for position in 1..10 {
            horizon.learn(&[], None, mark(position * 100), Vec::new());
        }
        assert_eq!(horizon.place(LANE), Place::Elsewhere);
        horizon.set_lanes([(LANE, 0, true)].into_iter(), 1, 2);
        assert_eq!(horizon.place(LANE), Place::Served(7));
    }

    #[test]
    fn a_lane_is_cleared_no_further_than_its_first_job() {
        let mut horizon = known();
        for position in 1..10 {
            let first = ActiveLane { lane: LANE, first: Some(42) };
            horizon.learn(&[first], None, mark(position * 100), Vec::new());
        }
        assert_eq!(horizon.cleared(LANE), 41);
    }

    #[test]
    fn the_search_for_due_jobs_starts_no_later_than_the_next_one() {
        let mut horizon = known();
        let due = DateTime::from_timestamp(250, 0);
        for position in 1..10 {
            horizon.learn(&[], due, mark(position * 100), Vec::new());
        }
        assert_eq!(Some(horizon.due_from()), due);
        for position in 10..20 {
            horizon.learn(&[], None, mark(position * 100), Vec::new());
        }
        assert!(horizon.due_from() > due.unwrap());
    }

    #[test]
    fn a_lanes_place_is_told_when_it_has_moved_far() {
        let mut horizon = known();
        for step in 1..5 {
            horizon.learn(&[], None, mark(step * WORTH_NOTING), Vec::new());
        }
        let lanes = horizon.worth_noting();
        assert_eq!(lanes.len(), 1);
        horizon.noted(&lanes);
        assert!(horizon.worth_noting().is_empty());
    }
}
