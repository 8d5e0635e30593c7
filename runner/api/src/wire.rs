//! The JSON that travels: every request and answer body, used by the server and by clients alike.
//!
//! Requests refuse fields they do not know, so that a misspelt one is never ignored in silence.
//! Answers may gain fields: clients ignore what they do not know. Times are RFC 3339 in UTC,
//! durations and sizes are integers with the unit in their name, ids are text so that no client
//! loses a digit.

mod bulk;
mod content;
mod health;
mod jobs;
mod keys;
mod kinds;
mod modules;
mod options;
mod pauses;
mod problem;
mod runners;
mod schedules;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use bulk::{CancelMany, JobChange, ManyDone, RetryMany, RetryRequest};
pub use content::{Content, INLINE_RESULT_BYTES};
pub use health::{Health, Readiness};
pub use jobs::{
    Attempt, CancelRequest, Cancelled, Enqueued, EnqueuedBatch, Job, JobBatch, JobPage, JobProblem,
    JobSummary, LogLine, NewJob, Receipt,
};
pub use keys::{CreatedKey, NewKey};
pub use kinds::{
    Activation, KindChange, KindInfo, Limits, LimitsChange, NewRelease, ReleaseInfo, StartRate,
};
pub use modules::{ModuleInfo, PruneRequest, Pruned, UploadedModule};
pub use options::{Duplicate, EnqueueAnswer, Unique};
pub use pauses::{PauseInfo, PauseRequest, ResumeRequest, Resumed};
pub use problem::{FieldError, PROBLEM_MEDIA_TYPE, Problem};
pub use runners::{Drained, RunnerInfo};
pub use schedules::{
    BackfillRequest, FireInfo, MisfirePolicy, OverlapPolicy, ScheduleInfo, ScheduleRequest,
};

/// All there are of something whose number is bounded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct List<T> {
    /// The things themselves.
    pub items: Vec<T>,
}

impl<T> FromIterator<T> for List<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        List { items: items.into_iter().collect() }
    }
}
