//! Reading requests: bodies, path segments and queries, with a problem for each way to get them
//! wrong.

mod body;
mod idempotency;
mod json;
mod path;
mod query;

pub(crate) use body::{BATCH_BYTES, RawBody, media_type_of, read_body};
pub(crate) use idempotency::IdempotencyKey;
pub(crate) use json::{JsonBody, OptionalJsonBody, pointer_text, read_json};
pub(crate) use path::{KindName, PathParam, RunnerName, ScheduleName};
pub(crate) use query::QueryParams;
