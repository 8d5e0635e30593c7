//! What the benchmark asks of a database and does to it. Nothing here is used to run jobs.

mod backlog;
mod filling;
mod gauges;
mod removal;
mod snapshot;
mod standing;
mod times;
mod yardstick;

pub use backlog::{Backlog, Waiting};
pub use gauges::{DatabaseGauges, Endpoint};
pub use removal::drop_database;
pub use snapshot::HeldSnapshot;
pub use standing::Standing;
pub use times::{JobSpan, JobTimes};
