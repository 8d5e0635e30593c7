//! How many jobs to hold beyond the slots, so that short jobs never wait for a claim.
//!
//! As many as finish within [`HORIZON`] at the present rate: none for jobs that take seconds, a
//! batch for jobs that take microseconds.

use std::time::{Duration, Instant};

/// The work held in advance, as time. Longer than a claim takes, shorter than anybody notices.
const HORIZON: Duration = Duration::from_millis(60);
/// The most jobs held in advance.
const MOST: usize = 500;
/// How often the rate is taken anew.
const INTERVAL: Duration = Duration::from_millis(50);

/// Follows the rate at which attempts end.
#[derive(Debug)]
pub(crate) struct Prefetch {
    since: Instant,
    ended_before: u64,
    jobs_per_s: f64,
}

impl Prefetch {
    pub(crate) fn new() -> Self {
        Prefetch { since: Instant::now(), ended_before: 0, jobs_per_s: 0.0 }
    }

    /// Jobs to hold beyond the slots, given how many attempts have ended so far.
    pub(crate) fn jobs(&mut self, ended: u64) -> usize {
        self.jobs_after(ended, self.since.elapsed())
    }

    fn jobs_after(&mut self, ended: u64, elapsed: Duration) -> usize {
        if elapsed >= INTERVAL {
            let rate = ended.saturating_sub(self.ended_before) as f64 / elapsed.as_secs_f64();
            // Half the old, half the new: follows within three intervals and does not jump.
            self.jobs_per_s = (self.jobs_per_s + rate) / 2.0;
            self.ended_before = ended;
            self.since = Instant::now();
        }
        ((self.jobs_per_s * HORIZON.as_secs_f64()) as usize).min(MOST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_jobs_are_held_in_advance_and_long_ones_are_not() {
        let mut prefetch = Prefetch::new();
        let second = Duration::from_secs(1);
        for n in 1..10 {
            prefetch.jobs_after(n * 5_000, second);
        }
        let held = prefetch.jobs_after(10 * 5_000, second);
        assert!((280..=300).contains(&held), "{held}");
        let ended = 10 * 5_000;
        for n in 1..20 {
            prefetch.jobs_after(ended + n * 3, second);
        }
        assert_eq!(prefetch.jobs_after(ended + 60, second), 0);
        for n in 1..20 {
            prefetch.jobs_after(ended + n * 10_000_000, second);
        }
        assert_eq!(prefetch.jobs_after(ended + 200_000_000, second), MOST);
    }
}
