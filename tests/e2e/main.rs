//! End to end: the binary as users run it, on real PostgreSQL, with real handlers.
//!
//! Run through `make test`, which builds the binary and the guests and lends a database server.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod bench;
mod cli;
mod dev;
mod fleet;
mod handlers;
mod readme;
mod schedules;
mod stage;
mod stopping;
