//! Changing jobs, running ended ones again, and cancelling many.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use stokehold_domain::JobState;
use utoipa::ToSchema;

use super::content::present;

/// What to change of a job that waits; what is absent stays.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct JobChange {
    /// Not before this time; at once when past.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_at: Option<DateTime<Utc>>,
    /// −1000 to 1000; lower runs first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = -1000, maximum = 1000)]
    pub priority: Option<i32>,
    /// Tries in all, more than it has had; up to 1000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000)]
    pub max_attempts: Option<i32>,
    /// The input, as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub payload: Option<Box<RawValue>>,
    /// The input, as bytes in base64 with padding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(content_encoding = "base64")]
    pub payload_base64: Option<String>,
    /// What the new input is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// Pairs for the handler and for people, instead of those that there are; 16 KiB at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<Map<String, Value>>,
    /// The release that every further attempt is to run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<i32>,
}

/// How to run an ended job again; the body may be left out.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RetryRequest {
    /// Another input, as JSON; the job's own when absent.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub payload: Option<Box<RawValue>>,
    /// Another input, as bytes in base64 with padding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(content_encoding = "base64")]
    pub payload_base64: Option<String>,
    /// What the other input is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// The release that every attempt is to run; the one that is active at each when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<i32>,
    /// Not before this time; at once when past or absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_at: Option<DateTime<Utc>>,
    /// Run it again even if it is completed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub even_completed: bool,
}

/// Which ended jobs to run again: such as did not complete and have not been retried. Something of it has to
/// be said: a kind, a state, an outcome, a time, or `all`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RetryMany {
    /// Only of this kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// `discarded`, `cancelled` or both; both when absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>)]
    pub states: Vec<JobState>,
    /// Only with this outcome, or with one that begins with it and a dot: `limit` has `limit.fuel`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "limit.fuel")]
    pub outcome: Option<String>,
    /// Only such as ended at this time or later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_from: Option<DateTime<Utc>>,
    /// Only such as ended before this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_before: Option<DateTime<Utc>>,
    /// Every one that did not complete.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all: bool,
    /// The release that every attempt is to run; wants `kind`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<i32>,
    /// Not before this time; at once when past or absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_at: Option<DateTime<Utc>>,
    /// Only count them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

/// Which live jobs to cancel. Something of it has to be said: a kind, a queue, a state, a time, or `all`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelMany {
    /// Only of this kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Only of the kinds in this queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Only in these states; any that is not final when absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>)]
    pub states: Vec<JobState>,
    /// Only such as were enqueued before this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enqueued_before: Option<DateTime<Utc>>,
    /// Every job that lives.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all: bool,
    /// Kept with each job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Only count them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

/// What came of a call about many jobs. One call takes up to 10,000; ask again while there are more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ManyDone {
    /// Jobs that were retried or cancelled; in a dry run, jobs that would be, counted up to 100,000.
    pub jobs: u64,
    /// Running jobs among them, which their nodes are told to stop.
    #[serde(default)]
    pub stopping: u64,
    /// There are more.
    pub more: bool,
}
