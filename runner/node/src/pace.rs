//! How busy a node is: whether to announce that it waits, and how soon to look again.

use std::time::{Duration, Instant};

/// How long a node that was busy tries its lanes again before it announces that it waits. Announced,
/// it makes every commit of an enqueueing session notify, and those go one after another.
pub(crate) const LINGER: Duration = Duration::from_millis(30);
/// How long to wait when lanes have work that others hold locked.
const CONTENDED: Duration = Duration::from_millis(15);
/// Claims after hints within [`LINGER`] that make a node busy.
const MANY_HINTS: u32 = 8;

/// What the claims of the last moments brought.
#[derive(Debug)]
pub(crate) struct Pace {
    /// Until when dry lanes are tried again before waiting is announced.
    busy_until: Option<Instant>,
    /// Claims that brought something since this moment.
    since: (Instant, u32),
    /// The last look saw work, and no claim has come back since.
    seen: bool,
    /// Claims in a row that got nothing of what a look had seen.
    contended: u32,
}

impl Pace {
    pub(crate) fn new() -> Self {
        Pace { busy_until: None, since: (Instant::now(), 0), seen: false, contended: 0 }
    }

    /// A look came back, and there is work or not.
    pub(crate) fn looked(&mut self, work: bool) {
        self.seen = work;
    }

    /// A claim brought so many of those that it asked for, while the node was announced or not. Says how
    /// soon to look again because others were faster or hold what there is locked: less and less often.
    pub(crate) fn claimed(
        &mut self,
        brought: usize,
        asked: usize,
        announced: bool,
    ) -> Option<Duration> {
        let seen = std::mem::take(&mut self.seen);
        if brought == 0 {
            let pause = seen.then(|| CONTENDED * (1 << self.contended.min(6)));
            self.contended += u32::from(seen);
            return pause;
        }
        self.contended = 0;
        let (since, count) = &mut self.since;
        if since.elapsed() > LINGER {
            (*since, *count) = (Instant::now(), 0);
        }
        *count += 1;
        if !announced || brought == asked || *count > MANY_HINTS {
            self.busy_until = Some(Instant::now() + LINGER);
        }
        None
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.busy_until.is_some_and(|until| Instant::now() < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_busy_when_claims_come_back_full_or_often() {
        let mut pace = Pace::new();
        pace.claimed(1, 32, true);
        assert!(!pace.is_busy(), "one job now and then is answered by a hint");
        pace.claimed(32, 32, true);
        assert!(pace.is_busy());
        let mut pace = Pace::new();
        for _ in 0..=MANY_HINTS {
            pace.claimed(1, 32, true);
        }
        assert!(pace.is_busy());
    }

    #[test]
    fn a_claim_that_gets_nothing_of_what_was_seen_is_followed_by_looks_that_grow_rarer() {
        let mut pace = Pace::new();
        assert_eq!(pace.claimed(0, 9, true), None, "nothing had been seen");
        let mut pauses = Vec::new();
        for _ in 0..9 {
            pace.looked(true);
            pauses.extend(pace.claimed(0, 9, true));
        }
        assert_eq!(pauses[..3], [CONTENDED, CONTENDED * 2, CONTENDED * 4]);
        assert_eq!(pauses[8], CONTENDED * 64);
        pace.claimed(1, 9, true);
        pace.looked(true);
        assert_eq!(pace.claimed(0, 9, true), Some(CONTENDED));
    }
}
