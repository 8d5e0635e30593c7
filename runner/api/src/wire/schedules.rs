//! Schedules and their fires.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::content::{Content, present};

/// What a schedule says; what is absent has its default.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScheduleRequest {
    /// The kind of its jobs.
    pub kind: String,
    /// Minute, hour, day of month, month, day of week, with seconds before them if there are six; or
    /// `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`.
    #[schema(example = "30 2 * * mon-fri")]
    pub cron: String,
    /// The time zone in which it is read; UTC if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "Europe/Berlin")]
    pub timezone: Option<String>,
    /// The input of each job as JSON; `{}` when no payload is given.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub payload: Option<Box<RawValue>>,
    /// The input as bytes in base64 with padding, instead of `payload`; 64 KiB at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(content_encoding = "base64")]
    pub payload_base64: Option<String>,
    /// What the input is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// −1000 to 1000; as the kind has it if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = -1000, maximum = 1000)]
    pub priority: Option<i32>,
    /// Tries in all, 1 to 1000; as the kind has it if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000)]
    pub max_attempts: Option<i32>,
    /// Of each job, beside `schedule` and `fire_at`, which every one has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<Map<String, Value>>,
    /// What becomes of fires that come over a minute late.
    #[serde(default)]
    pub misfire: MisfirePolicy,
    /// Later than this many seconds nothing runs; an hour if absent, a week at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 604800)]
    pub misfire_window_s: Option<i32>,
    /// What becomes of a fire while the job of an earlier one has not ended.
    #[serde(default)]
    pub overlap: OverlapPolicy,
}

/// What becomes of fires that come late, within the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MisfirePolicy {
    /// None runs.
    Skip,
    /// The latest runs.
    #[default]
    Once,
    /// Each runs.
    All,
}

/// What becomes of a fire while the job of an earlier one has not ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OverlapPolicy {
    /// It runs beside it.
    #[default]
    Allow,
    /// It is left out.
    Skip,
}

/// A schedule.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ScheduleInfo {
    /// Its name.
    pub name: String,
    /// The kind of its jobs.
    pub kind: String,
    /// The expression.
    pub cron: String,
    /// The zone it is read in.
    pub timezone: String,
    /// The input of each job.
    pub payload: Content,
    /// The priority of its jobs, if not the kind's.
    pub priority: Option<i32>,
    /// Tries in all, if not as many as the kind says.
    pub max_attempts: Option<i32>,
    /// Of each job, beside `schedule` and `fire_at`.
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<Value>,
    /// What becomes of late fires.
    pub misfire: MisfirePolicy,
    /// Later than this nothing runs.
    pub misfire_window_s: i32,
    /// What becomes of a fire while an earlier job has not ended.
    pub overlap: OverlapPolicy,
    /// Since when it is paused.
    pub paused_at: Option<DateTime<Utc>>,
    /// Why the last try to fire failed; it is tried again.
    pub problem: Option<String>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// The next five fires, in UTC; none while it is paused.
    pub next_fires: Vec<DateTime<Utc>>,
    /// The same as the zone's clock shows them.
    pub next_local: Vec<String>,
    /// The last fires, latest first; in lists none.
    pub last_fires: Vec<FireInfo>,
}

/// What became of one time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FireInfo {
    /// The time.
    pub fire_at: DateTime<Utc>,
    /// `cron`, `backfill` or `asked`.
    pub cause: String,
    /// The job that was made.
    pub job_id: Option<String>,
    /// Why none was: `missed` for one that came too late, `overlap` for one that had to make way.
    pub skipped: Option<String>,
}

/// Times that are to be fired after all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BackfillRequest {
    /// From this time on.
    pub from: DateTime<Utc>,
    /// Before this time, which must be past.
    pub to: DateTime<Utc>,
    /// Only say which.
    #[serde(default)]
    pub dry_run: bool,
}
