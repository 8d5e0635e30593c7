//! Runs one handler in a fresh wasmtime instance under limits and says what it used.
//!
//! Bytes come in through [`Sandbox::admit`] (a cheap, bounded look), are compiled by
//! [`Sandbox::load`] and executed by [`Sandbox::run`]: an [`Attempt`](stokehold_domain::Attempt) in,
//! a [`Report`] out. No database and no HTTP server: an attempt is driven by values alone.

mod admit;
mod attempt;
mod classify;
mod command;
mod compile;
mod component;
mod componentise;
mod config;
mod context;
mod control;
mod engine;
mod exit;
mod frames;
mod guest_log;
mod handler;
mod imports;
mod limiter;
mod log_book;
mod meter;
mod panic_text;
mod pool;
mod producers;
mod proposals;
mod refusal;
mod report;
mod sandbox;
mod self_test;
mod state;
mod stdio;
mod structure;
mod task;
mod ticker;
mod wasi;

pub use admit::{Abi, Admission};
pub use config::{SandboxConfig, StartError};
pub use control::{Control, Progress, StopReason};
pub use handler::Handler;
pub use meter::{FUEL_PER_BYTE, FUEL_PER_HOST_CALL};
pub use pool::PoolMetrics;
pub use producers::Producers;
pub use refusal::{MissingImport, Refusal};
pub use report::Report;
pub use sandbox::Sandbox;
