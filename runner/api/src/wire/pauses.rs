//! Pauses of queues, kinds and everything.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What to pause: a queue, a kind, or all; one of the three.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PauseRequest {
    /// A queue's name; kinds that come to it later are paused too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// A kind's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Everything.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all: bool,
    /// When the pause ends by itself; without it or `for_ms` it lasts until it is resumed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<DateTime<Utc>>,
    /// After how many milliseconds it ends by itself, by the database's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub for_ms: Option<u64>,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What to resume: a queue, a kind, or all; one of the three.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ResumeRequest {
    /// A queue's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// A kind's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The pause of everything; those of single queues and kinds stay.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all: bool,
}

/// A pause that holds: nothing of what it names is claimed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PauseInfo {
    /// The queue that is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The kind that is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Everything is paused.
    #[serde(default)]
    pub all: bool,
    /// When it ends by itself.
    #[serde(default)]
    pub until: Option<DateTime<Utc>>,
    /// Why, as whoever paused it put it.
    #[serde(default)]
    pub reason: Option<String>,
    /// Since when.
    pub paused_at: DateTime<Utc>,
}

/// What resuming found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Resumed {
    /// Whether it was paused.
    pub was_paused: bool,
    /// Pauses that still hold, of any scope.
    pub pauses: Vec<PauseInfo>,
}
