//! The sandbox as its users see it: real guests, real limits.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod admission;
mod cases;
mod cost;
mod fairness;
mod guests;
mod isolation;
mod probe;
mod stopping;
