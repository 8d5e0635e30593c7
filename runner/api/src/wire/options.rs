//! What a job may say about itself beside its payload.

use serde::{Deserialize, Serialize};
use stokehold_domain::{JobState, UniqueMode};
use utoipa::ToSchema;

/// Of which jobs of its kind a new one is a duplicate, and what is done about it. Either `key` or `fields`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Unique {
    /// The key: two jobs with the same are duplicates. 1 to 255 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "invoice-2027-01")]
    pub key: Option<String>,
    /// Paths into the JSON payload, such as `order.id`, whose values make the key; 1 to 20.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fields: Option<Vec<String>>,
    /// The states in which a job holds its key; `scheduled`, `available`, `running`, `retryable` and `pending`
    /// when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<String>>)]
    pub states: Option<Vec<JobState>>,
    /// From its enqueueing it holds the key for this many milliseconds in any case, even when it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub for_ms: Option<u64>,
    /// What becomes of a duplicate. `existing` (the default): nothing is made, the answer is the job that there is.
    /// `reject`: an error. `replace`: the job that there is, if it waits, has the new input from now on and keeps
    /// its time. `debounce`: as `replace`, and it waits until the new time.
    #[serde(default)]
    #[schema(value_type = String, example = "existing")]
    pub mode: UniqueMode,
}

impl From<Unique> for stokehold_domain::Unique {
    fn from(unique: Unique) -> Self {
        let Unique { key, fields, states, for_ms, mode } = unique;
        stokehold_domain::Unique { key, fields, states, for_ms, mode }
    }
}

/// What enqueueing a job came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EnqueueAnswer {
    /// It was made.
    #[default]
    Inserted,
    /// The job with this id has its unique key, and nothing was made.
    Existing,
    /// The job with this id has its unique key, and has its input from now on.
    Replaced,
}

impl From<stokehold_queue::Enqueued> for EnqueueAnswer {
    fn from(enqueued: stokehold_queue::Enqueued) -> Self {
        match enqueued {
            stokehold_queue::Enqueued::Inserted(_) => EnqueueAnswer::Inserted,
            stokehold_queue::Enqueued::Existing(_) => EnqueueAnswer::Existing,
            stokehold_queue::Enqueued::Replaced(_) => EnqueueAnswer::Replaced,
        }
    }
}

/// A job of a batch that was not made, for another has its unique key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Duplicate {
    /// Which of the batch, from 0; its id is that of the other.
    pub index: usize,
    /// What became of the other.
    pub answer: EnqueueAnswer,
}
