//! End to end: the binary as users run it, on real PostgreSQL, with real handlers.
//!
//! Run through `make test`, which builds the binary and the guests and lends a database server.

mod cli;
mod dev;
mod fleet;
mod handlers;
mod stage;
mod stopping;
