//! A runner node: claim, run, complete, with slots, a lease and a bounded stop.
//!
//! A [`Node`] registers, and from then on lives in *sessions*: one session is one registration, with
//! its own runner id and lease. When the lease is lost the session ends, everything it ran is stopped,
//! and the node begins another under a fresh id.

mod attempt;
mod cancels;
mod claimer;
mod claims;
mod clock;
mod config;
mod hints;
mod lanes;
mod lease;
mod limited;
mod log_flush;
mod node;
mod pace;
mod prefetch;
mod releases;
mod session;
mod settler;
mod slots;
mod stats;
mod turns;
mod upkeep;

pub use config::{InvalidNodeConfig, NodeConfig};
pub use node::{Node, NodeError};
pub use stats::Stats;
