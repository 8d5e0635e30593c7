//! Jobs, their attempts and their logs.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use stokehold_domain::{Backoff, JobId, JobState, Level, RunnerId};
use utoipa::ToSchema;
use utoipa::openapi::schema::{ObjectBuilder, SchemaType, Type};

use super::content::{Content, present};
use super::options::{Duplicate, EnqueueAnswer, Unique};

/// A job to be made. What is absent follows the kind's policy.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewJob {
    /// The kind's name.
    #[schema(example = "image.resize")]
    pub kind: String,
    /// The input as JSON, stored character for character; `{}` when no payload is given.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub payload: Option<Box<RawValue>>,
    /// The input as bytes in base64 with padding, instead of `payload`; 1 MiB at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(content_encoding = "base64")]
    pub payload_base64: Option<String>,
    /// What the input is: `application/json` for `payload`, `application/octet-stream` for
    /// `payload_base64` unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// Not before this time; at once when past or absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_at: Option<DateTime<Utc>>,
    /// −1000 to 1000; lower runs first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = -1000, maximum = 1000)]
    pub priority: Option<i32>,
    /// Tries in all, 1 to 1000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000)]
    pub max_attempts: Option<i32>,
    /// Pairs for the handler and for people; 16 KiB at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<Map<String, Value>>,
    /// Of which other jobs it is a duplicate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unique: Option<Unique>,
    /// No attempt starts after this time: if the job waits then, it ends, `discarded` with the outcome `expired`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<DateTime<Utc>>,
    /// Words to find it by; at most 20 of 100 bytes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Jobs of the kind with the same key run as many at a time as the kind's `max_running_per_key`; at most 255
    /// bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency_key: Option<String>,
    /// The release that every attempt runs; the one that is active at each when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<i32>,
    /// How long to wait before it is tried again: `form`, `base_ms`, `cap_ms`, `delays_ms` and `jitter_percent` as
    /// in a kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub backoff: Option<Backoff>,
    /// Wall time of one attempt in milliseconds, where that is less than the release has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub timeout_ms: Option<u64>,
}

/// A job that was made, or the one that it is a duplicate of. The commit is durable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Enqueued {
    /// Its id.
    #[schema(value_type = String, example = "9007199254740993")]
    pub id: JobId,
    /// Whether it was made.
    #[serde(default)]
    pub answer: EnqueueAnswer,
}

/// Jobs to be made together: all or none.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct JobBatch {
    /// At most 10,000.
    #[schema(max_items = 10000)]
    pub jobs: Vec<NewJob>,
}

/// Jobs that were made together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EnqueuedBatch {
    /// Their ids, in the order of the request.
    #[schema(value_type = Vec<String>)]
    pub ids: Vec<JobId>,
    /// Those that were not made, for another job has their unique key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub duplicates: Vec<Duplicate>,
}

/// A job in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobSummary {
    /// Its id.
    #[schema(value_type = String)]
    pub id: JobId,
    /// Its kind's name.
    pub kind: String,
    /// Where it is in its life.
    #[schema(schema_with = job_state)]
    pub state: JobState,
    /// Lower runs first.
    pub priority: i16,
    /// The latest attempt, from 1; 0 before the first.
    pub attempt: u16,
    /// Tries in all.
    pub max_attempts: u16,
    /// Nodes that died under it.
    pub lost: u16,
    /// When it is or was due.
    pub run_at: DateTime<Utc>,
    /// When it was enqueued.
    pub enqueued_at: DateTime<Utc>,
    /// When the latest attempt began, if it runs or has ended.
    #[serde(default)]
    pub started_at: Option<DateTime<Utc>>,
    /// When it ended.
    #[serde(default)]
    pub finished_at: Option<DateTime<Utc>>,
    /// The code of the outcome that ended it.
    #[serde(default)]
    #[schema(example = "ok")]
    pub outcome: Option<String>,
}

/// A page of jobs, newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobPage {
    /// The jobs.
    pub items: Vec<JobSummary>,
    /// Give it as `cursor` for the next page; none on the last one.
    #[serde(default)]
    pub next: Option<String>,
}

/// A job with all that is known of it.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Job {
    /// Its id.
    #[schema(value_type = String)]
    pub id: JobId,
    /// Its kind's name.
    pub kind: String,
    /// The queue that its kind belongs to.
    pub queue: String,
    /// Where it is in its life.
    #[schema(schema_with = job_state)]
    pub state: JobState,
    /// Lower runs first.
    pub priority: i16,
    /// The latest attempt, from 1; 0 before the first.
    pub attempt: u16,
    /// Tries in all.
    pub max_attempts: u16,
    /// Snoozes so far.
    pub snoozes: u16,
    /// Nodes that died under it.
    pub lost: u16,
    /// When it is or was due.
    pub run_at: DateTime<Utc>,
    /// When it was enqueued.
    pub enqueued_at: DateTime<Utc>,
    /// When the latest attempt began, if it runs or has ended.
    #[serde(default)]
    pub started_at: Option<DateTime<Utc>>,
    /// When it ended.
    #[serde(default)]
    pub finished_at: Option<DateTime<Utc>>,
    /// The code of the outcome that ended it.
    #[serde(default)]
    #[schema(example = "ok")]
    pub outcome: Option<String>,
    /// What went wrong last.
    #[serde(default)]
    pub problem: Option<JobProblem>,
    /// What the attempt that ended it used.
    #[serde(default)]
    pub receipt: Option<Receipt>,
    /// The runner that holds it or ended it.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    pub runner: Option<RunnerId>,
    /// The release that ended it; while it lives, the one that it is pinned to.
    #[serde(default)]
    pub release: Option<i32>,
    /// The ended job that it is a new try of.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    pub retry_of: Option<JobId>,
    /// The job that it was retried as.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    pub retried_as: Option<JobId>,
    /// The input.
    pub payload: Content,
    /// Pairs given at enqueue.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<Value>,
    /// What else it said when it was enqueued: `unique`, `expires_at`, `tags` and so on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub options: Option<Value>,
    /// The result of a success that had one; without its bytes when it is over 64 KiB.
    #[serde(default)]
    pub result: Option<Content>,
    /// Where the result's bytes are, if there is one.
    #[serde(default)]
    #[schema(example = "/v1/jobs/42/result")]
    pub result_url: Option<String>,
}

/// How an attempt went wrong. The text may be a stranger's: it is cleaned, and still to be escaped.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct JobProblem {
    /// One or two sentences that name what went wrong.
    pub message: String,
    /// A short word that the handler's author picked.
    #[serde(default)]
    pub code: Option<String>,
    /// What to do about it.
    #[serde(default)]
    pub advice: Option<String>,
    /// Guest frames, innermost first.
    #[serde(default)]
    pub frames: Vec<String>,
    /// Data that the handler attached.
    #[serde(default)]
    pub detail: Option<Content>,
}

/// What an attempt used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Receipt {
    /// Fuel: executed work, about one per instruction.
    pub fuel: u64,
    /// Wall time in microseconds, waits included.
    pub wall_us: u64,
    /// High-water mark of linear memory, in bytes.
    pub peak_memory_bytes: u64,
    /// Host functions called.
    pub host_calls: u64,
}

/// One attempt of a job.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Attempt {
    /// From 1. Attempts that did not count share the number of the next.
    pub attempt: u16,
    /// The claim's number; grows with every claim of the job.
    pub token: i64,
    /// Who ran it.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    pub runner: Option<RunnerId>,
    /// What it ran.
    #[serde(default)]
    pub release: Option<i32>,
    /// When it began.
    #[serde(default)]
    pub started_at: Option<DateTime<Utc>>,
    /// When it ended; none while it runs.
    #[serde(default)]
    pub finished_at: Option<DateTime<Utc>>,
    /// The code of how it ended.
    #[serde(default)]
    pub outcome: Option<String>,
    /// What went wrong.
    #[serde(default)]
    pub problem: Option<JobProblem>,
    /// What it used.
    #[serde(default)]
    pub receipt: Option<Receipt>,
}

/// One line that a handler wrote. The text is a stranger's: cleaned, and still to be escaped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogLine {
    /// The attempt, from 1.
    pub attempt: u16,
    /// When the attempt began.
    #[serde(default)]
    pub started_at: Option<DateTime<Utc>>,
    /// Microseconds since then.
    pub offset_us: u64,
    /// How much it matters.
    #[schema(schema_with = level)]
    pub level: Level,
    /// The text.
    pub message: String,
    /// Pairs beside the text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Vec<String>>)]
    pub fields: Vec<(String, String)>,
}

/// Why to cancel; the body may be left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelRequest {
    /// Kept with the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What cancelling came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Cancelled {
    /// Its id.
    #[schema(value_type = String)]
    pub id: JobId,
    /// `cancelled`, or `running` while the job is being stopped.
    #[schema(schema_with = job_state)]
    pub state: JobState,
}

impl From<stokehold_domain::Problem> for JobProblem {
    fn from(problem: stokehold_domain::Problem) -> Self {
        JobProblem {
            detail: problem.detail.map(|detail| Content::of(&detail, usize::MAX)),
            message: problem.message,
            code: problem.code,
            advice: problem.advice,
            frames: problem.frames,
        }
    }
}

impl From<stokehold_domain::Receipt> for Receipt {
    fn from(receipt: stokehold_domain::Receipt) -> Self {
        let stokehold_domain::Receipt { fuel, wall_us, peak_memory_bytes, host_calls } = receipt;
        Receipt { fuel, wall_us, peak_memory_bytes, host_calls }
    }
}

fn job_state() -> ObjectBuilder {
    words(JobState::ALL.map(JobState::as_str))
}

fn level() -> ObjectBuilder {
    use Level::{Debug, Error, Info, Trace, Warn};
    words([Trace, Debug, Info, Warn, Error].map(Level::as_str))
}

fn words<const N: usize>(words: [&'static str; N]) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(SchemaType::Type(Type::String)).enum_values(Some(words))
}
