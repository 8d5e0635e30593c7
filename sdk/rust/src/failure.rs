//! Every way an attempt may end other than success.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::bindings::stokehold::job::types::{Problem as RawProblem, Verdict};
use crate::payload::Blob;

/// What the queue should do after an attempt that did not succeed.
///
/// Any standard error turns into [`Failure::retry`] through `?`, with its causes in the message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    next: Next,
    problem: Problem,
}

/// What went wrong, for people and for dashboards.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Problem {
    /// A sentence for a person.
    pub message: String,
    /// A short stable word by which failures are grouped, such as `card-declined`.
    pub code: Option<String>,
    /// More to look at.
    pub detail: Option<Blob>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Retry,
    RetryAfter(Duration),
    Permanent,
    Snooze(Duration),
    Cancel,
}

impl Failure {
    /// Try again after the kind's back-off.
    pub fn retry(message: impl fmt::Display) -> Self {
        Self::new(Next::Retry, message)
    }

    /// Try again no sooner than this delay, because a rate limit was met.
    pub fn retry_after(delay: Duration, message: impl fmt::Display) -> Self {
        Self::new(Next::RetryAfter(delay), message)
    }

    /// Never try again: the input is wrong.
    pub fn permanent(message: impl fmt::Display) -> Self {
        Self::new(Next::Permanent, message)
    }

    /// Not ready yet: run later without counting this attempt. The host caps the delay.
    pub fn snooze(delay: Duration, reason: impl fmt::Display) -> Self {
        Self::new(Next::Snooze(delay), reason)
    }

    /// The work is no longer wanted: end without alarm.
    pub fn cancel(reason: impl fmt::Display) -> Self {
        Self::new(Next::Cancel, reason)
    }

    /// Names the failure with a short stable word, such as `card-declined`. Snoozing and
    /// cancelling are no failures: there the contract carries the reason only.
    #[must_use]
    pub fn code(mut self, code: impl Into<String>) -> Self {
        self.problem.code = Some(code.into());
        self
    }

    /// Adds something to look at, stored as it is.
    #[must_use]
    pub fn detail(mut self, detail: Blob) -> Self {
        self.problem.detail = Some(detail);
        self
    }

    /// Adds something to look at, stored as JSON. A value that JSON cannot hold is left out:
    /// the failure itself matters more.
    #[must_use]
    pub fn detail_json<T: Serialize>(mut self, detail: &T) -> Self {
        self.problem.detail = Blob::json(detail).ok();
        self
    }

    /// What went wrong.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// True if the job may run again.
    pub fn is_retryable(&self) -> bool {
        !matches!(self.next, Next::Permanent | Next::Cancel)
    }

    fn new(next: Next, message: impl fmt::Display) -> Self {
        let problem = Problem { message: message.to_string(), ..Problem::default() };
        Self { next, problem }
    }
}

impl<E: Error> From<E> for Failure {
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let text = cause.to_string();
            // Some errors repeat their cause in their own text already.
            if !message.ends_with(&text) {
                message.push_str(": ");
                message.push_str(&text);
            }
            source = cause.source();
        }
        Self::retry(message)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.problem.code {
            Some(code) => write!(f, "{} ({code})", self.problem.message),
            None => f.write_str(&self.problem.message),
        }
    }
}

impl From<Failure> for Verdict {
    fn from(failure: Failure) -> Self {
        let problem = failure.problem;
        match failure.next {
            Next::Retry => Verdict::Retry(problem.into()),
            Next::RetryAfter(delay) => Verdict::RetryAfter((millis(delay), problem.into())),
            Next::Permanent => Verdict::Permanent(problem.into()),
            Next::Snooze(delay) => Verdict::Snooze((millis(delay), problem.message)),
            Next::Cancel => Verdict::Cancel(problem.message),
        }
    }
}

impl From<Problem> for RawProblem {
    fn from(problem: Problem) -> Self {
        let Problem { message, code, detail } = problem;
        Self { message, code, detail: detail.map(Into::into) }
    }
}

impl From<RawProblem> for Problem {
    fn from(problem: RawProblem) -> Self {
        let RawProblem { message, code, detail } = problem;
        Self { message, code, detail: detail.map(Into::into) }
    }
}

/// A fraction of a millisecond counts as one: "no sooner than" must hold.
fn millis(delay: Duration) -> u64 {
    u64::try_from(delay.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(failure: Failure) -> String {
        format!("{:?}", Verdict::from(failure))
    }

    #[test]
    fn each_constructor_becomes_its_verdict() {
        assert!(verdict(Failure::retry("down")).starts_with("Verdict::Retry(Problem"));
        assert!(verdict(Failure::permanent("bad")).starts_with("Verdict::Permanent(Problem"));
        assert_eq!(verdict(Failure::cancel("gone")), "Verdict::Cancel(\"gone\")");
        assert_eq!(
            verdict(Failure::snooze(Duration::from_secs(5), "not yet")),
            "Verdict::Snooze((5000, \"not yet\"))"
        );
    }

    #[test]
    fn a_delay_is_never_shortened_to_whole_milliseconds() {
        let failure = Failure::retry_after(Duration::from_micros(1_500), "slow down");
        assert!(verdict(failure).starts_with("Verdict::RetryAfter((2, "));
        assert_eq!(millis(Duration::MAX), u64::MAX);
    }

    #[test]
    fn a_code_and_a_detail_reach_the_problem() {
        let failure = Failure::permanent("declined").code("card-declined").detail_json(&[1, 2]);
        let Verdict::Permanent(problem) = Verdict::from(failure) else {
            panic!("not permanent");
        };
        assert_eq!(problem.code.as_deref(), Some("card-declined"));
        let detail = problem.detail.expect("a detail");
        assert_eq!(detail.media_type, "application/json");
        assert_eq!(detail.bytes, b"[1,2]");
    }

    #[test]
    fn a_question_mark_on_any_error_retries_and_tells_the_causes() {
        #[derive(Debug)]
        struct Outer(std::num::ParseIntError);
        impl fmt::Display for Outer {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("reading the port")
            }
        }
        impl Error for Outer {
            fn source(&self) -> Option<&(dyn Error + 'static)> {
                Some(&self.0)
            }
        }
        fn read() -> Result<u16, Failure> {
            Ok("x".parse::<u16>().map_err(Outer)?)
        }
        let failure = read().expect_err("x is no number");
        assert!(failure.is_retryable());
        assert_eq!(failure.problem().message, "reading the port: invalid digit found in string");
    }
}
