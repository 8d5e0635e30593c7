//! The queue on a real PostgreSQL: each test has a database of its own.
//!
//! `STOKEHOLD_TEST_SERVER` names a throw-away server by a URL whose user may create databases;
//! `stokehold with-postgres -- cargo test -p stokehold-queue` lends one.

#![expect(clippy::unwrap_used, reason = "tests say what they expect by unwrapping it")]

mod against_model;
mod bench;
mod cancelling;
mod claiming;
mod editing;
mod enqueue;
mod fates;
mod horizons;
mod keys;
mod limits;
mod meeting;
mod misbehaviour;
mod options;
mod pairs;
mod partitions;
mod pausing;
mod plans;
mod reaping;
mod records;
mod refusals;
mod releases;
mod retrying;
mod schedules;
mod schema;
mod settling;
mod support;
mod ticking;
mod transitions;
mod turns;
mod unique;
mod verifying;
mod waking;
