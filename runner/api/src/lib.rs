//! The HTTP API: JSON over `/v1`, keys, problem details and the OpenAPI description.
//!
//! Handlers translate and decide nothing: what may happen is the queue's and the sandbox's to say.
//! Every error is a problem of RFC 9457 with a code from one list ([`Code`]), written and logged in
//! one place, the rim.

mod auth;
mod codes;
mod cursor;
mod extract;
mod gather;
mod kind_names;
mod new_job;
mod openapi;
mod problem;
mod rim;
mod routes;
mod server;
#[cfg(test)]
mod tests;
pub mod wire;

pub use codes::Code;
pub use openapi::openapi;
pub use problem::ApiError;
pub use server::{ApiState, MAX_LARGE_BODIES, MAX_REQUESTS, STOP_LIMIT, router, serve};
