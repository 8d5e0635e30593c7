//! Jobs as the queue knows them into jobs as they travel.

use stokehold_domain::JobId;
use stokehold_queue::{AttemptRecord, JobRecord, JobSummary, StoredLog};

use crate::wire::{self, Attempt, Content, INLINE_RESULT_BYTES, Job, LogLine};

/// A job in a list, with its kind's name.
pub(super) fn summary(job: JobSummary, kind: String) -> wire::JobSummary {
    wire::JobSummary {
        id: job.id,
        kind,
        state: job.state,
        priority: job.priority,
        attempt: job.attempt,
        max_attempts: job.max_attempts,
        lost: job.lost,
        run_at: job.run_at,
        enqueued_at: job.enqueued_at,
        started_at: job.started_at,
        finished_at: job.finished_at,
        outcome: job.outcome,
    }
}

/// Where a job's result is.
fn result_url(id: JobId) -> String {
    format!("/v1/jobs/{id}/result")
}

impl From<JobRecord> for Job {
    fn from(job: JobRecord) -> Self {
        let JobSummary { id, state, priority, attempt, max_attempts, lost, .. } = job.summary;
        Job {
            id,
            kind: job.kind,
            queue: job.queue,
            state,
            priority,
            attempt,
            max_attempts,
            snoozes: job.snoozes,
            lost,
            run_at: job.summary.run_at,
            enqueued_at: job.summary.enqueued_at,
            started_at: job.summary.started_at,
            finished_at: job.summary.finished_at,
            outcome: job.summary.outcome,
            problem: job.problem.map(Into::into),
            receipt: job.receipt.map(Into::into),
            runner: job.runner,
            release: job.release,
            retry_of: job.retry_of,
            retried_as: job.retried_as,
            payload: Content::of(&job.payload, usize::MAX),
            metadata: job.metadata,
            options: job.options.to_json(),
            result_url: job.result.as_ref().map(|_| result_url(id)),
            result: job.result.map(|result| Content::of(&result, INLINE_RESULT_BYTES)),
        }
    }
}

impl From<AttemptRecord> for Attempt {
    fn from(attempt: AttemptRecord) -> Self {
        Attempt {
            attempt: attempt.attempt,
            token: attempt.token.0,
            runner: attempt.runner,
            release: attempt.release,
            started_at: attempt.started_at,
            finished_at: attempt.finished_at,
            outcome: attempt.outcome,
            problem: attempt.problem.map(Into::into),
            receipt: attempt.receipt.map(Into::into),
        }
    }
}

impl From<StoredLog> for LogLine {
    fn from(stored: StoredLog) -> Self {
        LogLine {
            attempt: stored.attempt,
            started_at: stored.started_at,
            offset_us: stored.line.offset_us,
            level: stored.line.level,
            message: stored.line.message,
            fields: stored.line.fields,
        }
    }
}
