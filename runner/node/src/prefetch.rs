//! How many jobs to hold beyond the slots, so that short jobs never wait for a claim.
//!
//! As many as finish within [`HORIZON`] at the present rate, or while a few claims come back where the
//! database is far: none for jobs that take seconds, a batch for jobs that take microseconds; and no more
//! than fit into [`MOST_BYTES`].

use std::time::{Duration, Instant};

/// The work held in advance, as time. Longer than a claim takes, shorter than anybody notices.
const HORIZON: Duration = Duration::from_millis(60);
/// Where claims take long, the work of this many of them: one is on its way, one is being made, and a
/// claim is for half of what is held.
const CLAIMS: f64 = 4.0;
/// And no more than this: a database that is overloaded answers no sooner for being asked for more.
const LONGEST: Duration = Duration::from_millis(250);
/// Payload bytes held in advance.
const MOST_BYTES: f64 = (32 << 20) as f64;
/// How often the rate is taken anew.
const INTERVAL: Duration = Duration::from_millis(50);

/// Follows the rate at which attempts end, and the size of payloads.
#[derive(Debug)]
pub(crate) struct Prefetch {
    most: usize,
    since: Instant,
    ended_before: u64,
    jobs_per_s: f64,
    payload_bytes: f64,
    claim_s: f64,
}

impl Prefetch {
    /// Holds no more than `most` in advance.
    pub(crate) fn new(most: usize) -> Self {
        Prefetch {
            most,
            since: Instant::now(),
            ended_before: 0,
            jobs_per_s: 0.0,
            payload_bytes: 0.0,
            claim_s: 0.0,
        }
    }

    /// Jobs to hold beyond the slots, given how many attempts have ended so far.
    pub(crate) fn jobs(&mut self, ended: u64) -> usize {
        self.jobs_after(ended, self.since.elapsed())
    }

    /// Takes note of the payloads of a batch.
    pub(crate) fn saw(&mut self, payload_bytes: impl Iterator<Item = usize>) {
        for bytes in payload_bytes {
            // Up at once, down slowly: one large payload among many small ones is enough to care.
            let bytes = bytes as f64;
            self.payload_bytes = bytes.max(self.payload_bytes * 0.99 + bytes * 0.01);
        }
    }

    /// Takes note of how long a claim took.
    pub(crate) fn took(&mut self, claim: Duration) {
        self.claim_s = self.claim_s * 0.9 + claim.as_secs_f64() * 0.1;
    }

    fn jobs_after(&mut self, ended: u64, elapsed: Duration) -> usize {
        if elapsed >= INTERVAL {
            let rate = ended.saturating_sub(self.ended_before) as f64 / elapsed.as_secs_f64();
            // Half the old, half the new: follows within three intervals and does not jump.
            self.jobs_per_s = (self.jobs_per_s + rate) / 2.0;
            self.ended_before = ended;
            self.since = Instant::now();
        }
        let fitting = (MOST_BYTES / self.payload_bytes.max(1.0)) as usize;
        let (least, most) = (HORIZON.as_secs_f64(), LONGEST.as_secs_f64());
        let horizon_s = (CLAIMS * self.claim_s).clamp(least, most);
        ((self.jobs_per_s * horizon_s) as usize).min(self.most).min(fitting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_jobs_are_held_in_advance_and_long_ones_are_not() {
        let mut prefetch = Prefetch::new(500);
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
        assert_eq!(prefetch.jobs_after(ended + 200_000_000, second), 500);
    }

    #[test]
    fn more_is_held_in_advance_where_claims_take_long() {
        let mut prefetch = Prefetch::new(50_000);
        for n in 1..20 {
            prefetch.jobs_after(n * 10_000, Duration::from_secs(1));
        }
        let held = |claim_ms, prefetch: &mut Prefetch| {
            for _ in 0..100 {
                prefetch.took(Duration::from_millis(claim_ms));
            }
            prefetch.jobs_after(0, Duration::ZERO)
        };
        for (claim_ms, wanted) in [(5, 600), (30, 1_200), (5_000, 2_500)] {
            let held = held(claim_ms, &mut prefetch);
            assert!(held.abs_diff(wanted) <= 10, "{claim_ms} ms: {held}");
        }
    }

    #[test]
    fn large_payloads_are_held_in_advance_only_as_far_as_memory_allows() {
        let mut prefetch = Prefetch::new(500);
        for n in 1..10 {
            prefetch.jobs_after(n * 100_000, Duration::from_secs(1));
        }
        prefetch.saw([1 << 20].into_iter());
        assert_eq!(prefetch.jobs_after(1_000_000, Duration::from_secs(1)), 32);
        prefetch.saw(std::iter::repeat_n(100, 1_000));
        assert_eq!(prefetch.jobs_after(1_100_000, Duration::from_secs(1)), 500);
    }
}
