//! The protocol between nodes and database, as it is built, and nothing else: no SQL, no time, no network.
//!
//! [`Queue`] is what the tables hold, with each statement as one step and its answer. [`World`] puts nodes
//! around it that claim, run, write, crash and freeze, and answers that are lost, with every next step that
//! is possible as an [`Action`]. Time is an adversary: any lease may be over at any moment.
//!
//! What it leaves out: what is in payloads, logs, retention, how lanes are found (a claim may take any of what is
//! ready) and the batches in which statements go, for none of them relies on a batch being whole. That a
//! statement is one step, under concurrency, is shown of the real ones elsewhere: by the tests of the queue
//! crate that step transactions by hand.

pub mod clients;
pub mod mutant;
mod possible;
pub mod properties;
pub mod queue;
mod settle;
mod step;
mod sweep;
pub mod world;

pub use mutant::Mutant;
pub use queue::{Cancelled, Claim, Final, Job, Lease, Queue, Record, Row, Waits};
pub use settle::{Fate, Next, Write};
pub use sweep::GivenBack;
pub use world::{Action, Scope, World};
