//! The job at hand, and the way from the contract's call to the handler and back.

use crate::bindings::stokehold::job::types::{Blob as RawBlob, Job as RawJob, Verdict};
use crate::failure::Failure;
use crate::log;
use crate::output::Reply;
use crate::payload::{Blob, Payload};

/// One attempt at a job, its payload already read.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Job<T> {
    /// The job's number, the same for every attempt.
    pub id: u64,
    /// The kind's name, such as `image.resize`.
    pub kind: String,
    /// 1 for the first try.
    pub attempt: u32,
    /// How many tries the job has in all.
    pub max_attempts: u32,
    /// What the job is about.
    pub payload: T,
}

impl<T> Job<T> {
    /// A job to call a handler with in a test.
    pub fn sample(payload: T) -> Self {
        Self { id: 1, kind: "sample".into(), attempt: 1, max_attempts: 1, payload }
    }

    /// True if no further attempt follows when this one fails.
    pub fn is_last_attempt(&self) -> bool {
        self.attempt >= self.max_attempts
    }
}

/// Reads the payload, calls the handler, and turns what it says into the contract's answer.
#[doc(hidden)]
pub fn run<T, R, E>(
    raw: RawJob,
    level: &str,
    handler: impl FnOnce(Job<T>) -> Result<R, E>,
) -> Result<Option<RawBlob>, Verdict>
where
    T: Payload,
    R: Reply,
    E: Into<Failure>,
{
    log::install(level);
    answer(raw, handler).map(|blob| blob.map(Into::into)).map_err(Into::into)
}

fn answer<T, R, E>(
    raw: RawJob,
    handler: impl FnOnce(Job<T>) -> Result<R, E>,
) -> Result<Option<Blob>, Failure>
where
    T: Payload,
    R: Reply,
    E: Into<Failure>,
{
    let RawJob { id, kind, attempt, max_attempts, payload } = raw;
    let payload = T::from_blob(payload.into())?;
    let job = Job { id, kind, attempt, max_attempts, payload };
    handler(job).map_err(Into::into)?.into_blob()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> RawJob {
        RawJob {
            id: 7,
            kind: "double".into(),
            attempt: 2,
            max_attempts: 3,
            payload: RawBlob { media_type: "application/json".into(), bytes: text.into() },
        }
    }

    #[test]
    fn a_value_goes_in_and_a_value_comes_out() {
        let result = run(raw("21"), "info", |job: Job<u32>| {
            assert_eq!((job.id, job.attempt, job.is_last_attempt()), (7, 2, false));
            Ok::<_, Failure>(job.payload * 2)
        });
        let blob = result.expect("success").expect("a result");
        assert_eq!(
            (blob.media_type.as_str(), blob.bytes.as_slice()),
            ("application/json", &b"42"[..])
        );
    }

    #[test]
    fn a_handler_may_fail_with_any_error_type() {
        let result = run(raw("\"x\""), "info", |job: Job<String>| job.payload.parse::<u32>());
        assert!(
            matches!(result, Err(Verdict::Retry(problem)) if problem.message.contains("digit"))
        );
    }

    #[test]
    fn a_payload_of_the_wrong_shape_never_reaches_the_handler() {
        let result = run(raw("\"x\""), "info", |_: Job<u32>| -> Result<(), Failure> {
            panic!("called with a bad payload")
        });
        assert!(matches!(result, Err(Verdict::Permanent(_))));
    }
}
