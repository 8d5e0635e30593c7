//! The real router on a real PostgreSQL: each test has a database of its own.
//!
//! `STOKEHOLD_TEST_SERVER` names a throw-away server by a URL whose user may create databases.

mod auth;
mod bulk;
mod description;
mod enqueue;
mod harness;
mod jobs;
mod kinds;
mod modules;
mod options;
mod problems;
mod schedules;
mod server;
