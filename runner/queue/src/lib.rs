//! Every SQL statement of Stokehold: the job state machine on PostgreSQL.
//!
//! No WebAssembly and no HTTP. Each file holds the statements of one table group or one task; what is
//! long or takes locks stands in its own file under `sql/`. All times are the database's.

pub mod bench;
pub mod cancel;
pub mod claim;
pub mod database;
pub mod edit;
pub mod enqueue;
pub mod error;
pub mod horizon;
pub mod jobs;
pub mod keys;
pub mod kinds;
pub mod limits;
pub mod logs;
pub mod migrate;
pub mod modules;
pub mod partitions;
pub mod pauses;
mod pool;
pub mod reaper;
pub mod retries;
pub mod runners;
pub mod schedules;
pub mod settle;
pub mod sweeps;
pub mod tick;
pub mod turn;
pub mod verify;
pub mod wake;

pub use cancel::{CancelAnswer, CancelRequest, CancelledMany, LiveFilter};
pub use claim::{ClaimNumber, Claimant, Claimed, LaneQuota};
pub use database::{Database, DatabaseOptions, Plans};
pub use edit::{Edit, Edited};
pub use enqueue::{Enqueued, NewJob, Repeatable};
pub use error::{QueueError, RefusalCode};
pub use horizon::{Horizon, Place};
pub use jobs::{AttemptRecord, JobFilter, JobRecord, JobSummary};
pub use keys::{ApiKey, NewKey};
pub use kinds::{Kind, KindPolicy, Release, RunnableRelease};
pub use limits::LimitedClaim;
pub use logs::{LogChunk, StoredLog};
pub use modules::{ModuleRecord, NewModule};
pub use pauses::{Pause, PauseEnd, Scope};
pub use reaper::Reaped;
pub use retries::{EndedFilter, Retried, Retry};
pub use runners::{RunnerRecord, RunnerRegistration};
pub use schedules::{FireRecord, Fired, Misfire, NewSchedule, Overlap, Schedule};
pub use settle::{Ended, Fate};
pub use tick::{ActiveLane, Lane, Tick};
pub use turn::Turn;
pub use wake::{Hint, WakeListener};
