//! A handler that does what its payload says, so that tests can produce every outcome.
//!
//! The payload is `{"do": "WORD", …}`; the words are the variants of [`Task`]. `README.md` in the
//! folder above lists them.

mod consume;
mod report;

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use stokehold_sdk::{Blob, Failure, Job, Output, log, progress};

/// What to do, with its parameters.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
enum Task {
    /// Gives `value` back, or nothing if there is none.
    Ok {
        #[serde(default)]
        value: Value,
    },
    /// Gives nothing back.
    Noop,
    /// Loops for ever.
    Spin,
    /// Takes memory until there is none left.
    Allocate,
    /// Recurses until the machine's stack is used up.
    Stack,
    /// Recurses until the module's own stack runs out of its memory.
    Frames,
    /// Panics.
    Panic {
        #[serde(default = "default_message")]
        message: String,
    },
    /// Ends the process at once.
    Abort,
    /// Divides by zero.
    Divide,
    /// Sleeps.
    Sleep { ms: u64 },
    /// Logs `start`, sleeps, logs `end`, and gives `value` back: shows overlapping executions.
    Witness {
        #[serde(default)]
        ms: u64,
        #[serde(default)]
        value: Value,
    },
    /// The verdict `retry`.
    Retry(Trouble),
    /// The verdict `retry-after`.
    RetryAfter {
        ms: u64,
        #[serde(flatten)]
        trouble: Trouble,
    },
    /// The verdict `permanent`.
    Permanent(Trouble),
    /// The verdict `snooze`.
    Snooze {
        ms: u64,
        #[serde(flatten)]
        trouble: Trouble,
    },
    /// The verdict `cancel`.
    Cancel(Trouble),
    /// Fails with `retry` before this attempt, and then succeeds, telling the attempt.
    FailUntil { attempt: u32 },
    /// Logs so many numbered lines.
    LogFlood { lines: u64 },
    /// Gives so many bytes back.
    BigResult { bytes: usize },
    /// Gives everything that the context tells.
    Context,
    /// Gives eight random bytes and both clocks.
    Random,
    /// Tries to read a file, and tells what came of it.
    Fs,
    /// Gives the environment's variables and arguments.
    Env,
    /// Reports progress in so many steps.
    Progress {
        #[serde(default = "default_steps")]
        steps: u64,
    },
    /// Enqueues child jobs of a kind, with this job's outcome or at once.
    Spawn {
        kind: String,
        #[serde(default)]
        value: Value,
        #[serde(default = "one")]
        count: u32,
        #[serde(default)]
        now: bool,
        /// Fail after enqueueing, so that what came with the outcome must vanish.
        #[serde(default)]
        fail: bool,
    },
    /// Waits for a request to stop, and then ends with `cancel`.
    UntilCancelled,
}

/// What a verdict says.
#[derive(Debug, Clone, Deserialize)]
struct Trouble {
    #[serde(default = "default_message")]
    message: String,
    code: Option<String>,
    detail: Option<Value>,
}

fn default_message() -> String {
    "as the payload asked".into()
}

fn default_steps() -> u64 {
    10
}

fn one() -> u32 {
    1
}

impl Trouble {
    /// Fills in what the verdict carries beside its kind.
    fn with(self, make: impl FnOnce(&str) -> Failure) -> Failure {
        let mut failure = make(&self.message);
        if let Some(code) = self.code {
            failure = failure.code(code);
        }
        if let Some(detail) = self.detail {
            failure = failure.detail_json(&detail);
        }
        failure
    }
}

#[stokehold_sdk::handler(log = "trace")]
fn probe(job: Job<Task>) -> Result<Output, Failure> {
    match job.payload {
        Task::Ok { value } => Output::json(&value),
        Task::Noop => Ok(Output::none()),
        Task::Spin => consume::spin(),
        Task::Allocate => consume::allocate(),
        Task::Stack => Output::json(&consume::stack(0)),
        Task::Frames => Output::json(&consume::frames(0)),
        Task::Panic { message } => panic!("{message}"),
        Task::Abort => std::process::abort(),
        Task::Divide => Output::json(&consume::divide()),
        Task::Sleep { ms } => {
            std::thread::sleep(Duration::from_millis(ms));
            Ok(Output::none())
        }
        Task::Witness { ms, value } => witness(ms, &value),
        Task::Retry(trouble) => Err(trouble.with(|text| Failure::retry(text))),
        Task::RetryAfter { ms, trouble } => {
            Err(trouble.with(|text| Failure::retry_after(Duration::from_millis(ms), text)))
        }
        Task::Permanent(trouble) => Err(trouble.with(|text| Failure::permanent(text))),
        Task::Snooze { ms, trouble } => {
            Err(trouble.with(|text| Failure::snooze(Duration::from_millis(ms), text)))
        }
        Task::Cancel(trouble) => Err(trouble.with(|text| Failure::cancel(text))),
        Task::FailUntil { attempt } if job.attempt < attempt => {
            Err(Failure::retry(format!("attempt {} fails until {attempt}", job.attempt)))
        }
        Task::FailUntil { .. } => Output::json(&json!({ "attempt": job.attempt })),
        Task::LogFlood { lines } => {
            for line in 0..lines {
                log::info!(line; "line {line} of {lines}");
            }
            Ok(Output::none())
        }
        Task::BigResult { bytes } => {
            Ok(Blob::new("application/octet-stream", vec![b'x'; bytes]).into())
        }
        Task::Context => {
            Output::json(&report::context(job.id, &job.kind, job.attempt, job.max_attempts))
        }
        Task::Random => Output::json(&report::random()),
        Task::Fs => Output::json(&report::file_system()),
        Task::Env => Output::json(&report::environment()),
        Task::Progress { steps } => {
            for step in 1..=steps {
                progress::report_with_note(step, steps, &format!("step {step}"));
            }
            Ok(Output::none())
        }
        Task::Spawn { kind, value, count, now, fail } => {
            let ids = report::spawn(&kind, &value, count, now)?;
            if fail {
                return Err(Failure::retry("failing after enqueueing children"));
            }
            Output::json(&json!({ "children": ids }))
        }
        Task::UntilCancelled => Err(consume::until_cancelled()),
    }
}

fn witness(ms: u64, value: &Value) -> Result<Output, Failure> {
    log::info!("start");
    std::thread::sleep(Duration::from_millis(ms));
    log::info!("end");
    Output::json(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(text: &str) -> Task {
        serde_json::from_str(text).expect("a task")
    }

    #[test]
    fn tasks_are_read_from_their_words() {
        assert!(matches!(task(r#"{"do":"noop"}"#), Task::Noop));
        assert!(matches!(task(r#"{"do":"sleep","ms":5}"#), Task::Sleep { ms: 5 }));
        assert!(matches!(
            task(r#"{"do":"fail-until","attempt":3}"#),
            Task::FailUntil { attempt: 3 }
        ));
        let Task::RetryAfter { ms: 7, trouble } =
            task(r#"{"do":"retry-after","ms":7,"code":"slow"}"#)
        else {
            panic!("not read as retry-after");
        };
        assert_eq!(
            (trouble.message.as_str(), trouble.code.as_deref()),
            ("as the payload asked", Some("slow"))
        );
    }

    #[test]
    fn it_fails_until_the_attempt_it_was_told() {
        let mut job = Job::sample(task(r#"{"do":"fail-until","attempt":2}"#));
        assert!(probe(job.clone()).is_err_and(|failure| failure.is_retryable()));
        job.attempt = 2;
        assert!(probe(job).is_ok());
    }
}
