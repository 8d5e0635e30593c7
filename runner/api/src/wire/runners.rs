//! Runners.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use stokehold_domain::RunnerId;
use utoipa::ToSchema;

/// A runner that lives or ended within the last day.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunnerInfo {
    /// The id of this registration.
    #[schema(value_type = String)]
    pub id: RunnerId,
    /// A name for people, such as the host's.
    pub name: String,
    /// The version of its binary.
    pub version: String,
    /// The queues it serves; none for all.
    #[serde(default)]
    pub queues: Option<Vec<String>>,
    /// Attempts it runs at once.
    pub slots: i32,
    /// `live`, `stopped` or `dead`.
    #[schema(example = "live")]
    pub state: String,
    /// It has been told to stop in order.
    #[serde(default)]
    pub draining: bool,
    /// Jobs it holds now.
    pub running: i64,
    /// When it registered.
    pub registered_at: DateTime<Utc>,
    /// Its last sign of life.
    pub beat_at: DateTime<Utc>,
}

/// The runners that were told to stop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Drained {
    /// Their ids.
    #[schema(value_type = Vec<String>)]
    pub ids: Vec<RunnerId>,
}
