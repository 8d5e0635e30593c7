//! What becomes of a job after an attempt.

use std::time::Duration;

use crate::retry::MAX_DELAY;
use crate::{Backoff, HandBack, JobState, Outcome, Verdict};

/// The shortest wait of a snooze or retry-after, so that "at once" cannot spin the queue.
pub const MIN_DELAY: Duration = Duration::from_secs(1);
/// How long a job waits after a fault of the node; the second half of it is random.
pub const NODE_FAULT_DELAY: Duration = Duration::from_secs(5);
/// Snoozes of one job before the next one is treated as a failed attempt.
pub const MAX_SNOOZES: u16 = 1_000;

/// The step that follows an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The job ends in this state.
    Finish(JobState),
    /// The job waits, then runs again; the attempt counts.
    Retry(Duration),
    /// The job waits, then runs again; the attempt does not count.
    Snooze(Duration),
    /// The job is available again after this wait, which is zero when the job never started or the
    /// node is going away; the attempt does not count.
    HandBack(Duration),
}

/// What the decision depends on beside the outcome.
#[derive(Clone, Copy, Debug)]
pub struct History {
    /// The attempt that ended, from 1.
    pub attempt: u16,
    /// Attempts allowed in all.
    pub max_attempts: u16,
    /// Snoozes before this one.
    pub snoozes: u16,
}

/// Decides what becomes of the job. `random` in 0..1 is the jitter.
pub fn decide(outcome: &Outcome, history: History, backoff: &Backoff, random: f64) -> Next {
    let retry_in = |delay: Duration| {
        if history.attempt < history.max_attempts {
            Next::Retry(delay.min(MAX_DELAY))
        } else {
            Next::Finish(JobState::Discarded)
        }
    };
    let backoff_delay = || backoff.delay(u32::from(history.attempt), random);
    match outcome {
        Outcome::Completed(_) => Next::Finish(JobState::Completed),
        Outcome::Verdict(Verdict::Retry(_)) => retry_in(backoff_delay()),
        Outcome::Verdict(Verdict::RetryAfter(delay, _)) => retry_in((*delay).max(MIN_DELAY)),
        Outcome::Verdict(Verdict::Permanent(_)) => Next::Finish(JobState::Discarded),
        Outcome::Verdict(Verdict::Snooze(delay, _)) => {
            let delay = (*delay).clamp(MIN_DELAY, MAX_DELAY);
            if history.snoozes < MAX_SNOOZES { Next::Snooze(delay) } else { retry_in(delay) }
        }
        Outcome::Verdict(Verdict::Cancel(_)) | Outcome::Cancelled(_) => {
            Next::Finish(JobState::Cancelled)
        }
        Outcome::Failed(code, _) if code.is_worth_retrying() => retry_in(backoff_delay()),
        Outcome::Failed(..) | Outcome::Expired(_) => Next::Finish(JobState::Discarded),
        Outcome::HandedBack(HandBack::Draining | HandBack::LeaseLost, _) => {
            Next::HandBack(Duration::ZERO)
        }
        // The same node may claim it again: not in a tight loop.
        Outcome::HandedBack(..) => {
            Next::HandBack(NODE_FAULT_DELAY.mul_f64(0.5 + random.clamp(0.0, 1.0) / 2.0))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FailureCode, Problem};

    const FIRST: History = History { attempt: 1, max_attempts: 2, snoozes: 0 };
    const LAST: History = History { attempt: 2, max_attempts: 2, snoozes: 0 };

    fn next(outcome: Outcome, history: History) -> Next {
        decide(&outcome, history, &Backoff::default(), 1.0)
    }

    #[test]
    fn a_failure_is_retried_until_the_last_attempt_and_then_discarded() {
        let panic = || Outcome::Failed(FailureCode::Panic, Problem::new("boom"));
        assert_eq!(next(panic(), FIRST), Next::Retry(Duration::from_secs(1)));
        assert_eq!(next(panic(), LAST), Next::Finish(JobState::Discarded));
    }

    #[test]
    fn what_cannot_end_differently_is_not_tried_again() {
        for code in [FailureCode::Fuel, FailureCode::Stack, FailureCode::Output] {
            let outcome = Outcome::Failed(code, Problem::new("limit"));
            assert_eq!(next(outcome, FIRST), Next::Finish(JobState::Discarded));
        }
        let verdict = Outcome::Verdict(Verdict::Permanent(Problem::new("bad input")));
        assert_eq!(next(verdict, FIRST), Next::Finish(JobState::Discarded));
    }

    #[test]
    fn a_snooze_never_counts_until_its_cap_and_is_clamped() {
        let snooze =
            |secs| Outcome::Verdict(Verdict::Snooze(Duration::from_secs(secs), "later".into()));
        assert_eq!(next(snooze(0), LAST), Next::Snooze(MIN_DELAY));
        assert_eq!(next(snooze(u64::MAX), LAST), Next::Snooze(MAX_DELAY));
        let worn_out = History { snoozes: MAX_SNOOZES, ..LAST };
        assert_eq!(next(snooze(5), worn_out), Next::Finish(JobState::Discarded));
    }

    #[test]
    fn a_node_fault_costs_the_job_nothing_even_on_its_last_attempt() {
        let outcome = Outcome::HandedBack(HandBack::HostFault, Problem::new("host"));
        assert_eq!(next(outcome, LAST), Next::HandBack(NODE_FAULT_DELAY));
        let outcome = Outcome::HandedBack(HandBack::Draining, Problem::new("stopping"));
        assert_eq!(next(outcome, LAST), Next::HandBack(Duration::ZERO));
    }
}
