//! What a handler can see of its host.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use stokehold_sdk::spawn::{self, Child};
use stokehold_sdk::{Blob, Failure, context};

/// Everything that the context tells. Times are Unix milliseconds.
pub(crate) fn context(id: u64, kind: &str, attempt: u32, max_attempts: u32) -> Value {
    let dependencies: Vec<Value> = context::dependencies(0, 100)
        .into_iter()
        .map(|job| {
            json!({
                "id": job.id,
                "kind": job.kind,
                "completed": job.completed,
                "output": job.output.map(|blob| text(&blob)),
            })
        })
        .collect();
    json!({
        "id": id,
        "kind": kind,
        "attempt": attempt,
        "max_attempts": max_attempts,
        "deadline": millis(context::deadline()),
        "remaining": u64::try_from(context::remaining().as_millis()).unwrap_or(u64::MAX),
        "cancelled": context::cancelled(),
        "queue": context::queue(),
        "enqueued_at": millis(context::enqueued_at()),
        "scheduled_at": millis(context::scheduled_at()),
        "metadata": context::metadata(),
        "idempotency_key": context::idempotency_key(),
        "parent": context::parent(),
        "traceparent": context::traceparent(),
        "last_problem": context::last_problem().map(|problem| json!({
            "message": problem.message,
            "code": problem.code,
            "detail": problem.detail.map(|blob| text(&blob)),
        })),
        "dependencies": dependencies,
    })
}

/// A random number, the time of day, and what the monotonic clock says about doing nothing.
pub(crate) fn random() -> Value {
    let start = Instant::now();
    json!({
        // The seed of a hash map is where the standard library asks for randomness.
        "random": format!("{:016x}", RandomState::new().hash_one(0_u8)),
        "now": millis(SystemTime::now()),
        "elapsed_nanos": u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX),
    })
}

/// What comes of reading and writing files.
pub(crate) fn file_system() -> Value {
    let read = std::fs::read("/etc/passwd").map(|bytes| bytes.len());
    let write = std::fs::write("/tmp/probe", "x");
    let list = std::fs::read_dir("/").map(Iterator::count);
    json!({
        "read": read.map_err(|error| error.to_string()),
        "write": write.map_err(|error| error.to_string()),
        "list": list.map_err(|error| error.to_string()),
    })
}

/// The environment's variables, and the arguments.
pub(crate) fn environment() -> Value {
    let variables: BTreeMap<String, String> = std::env::vars().collect();
    json!({ "variables": variables, "arguments": std::env::args().collect::<Vec<_>>() })
}

/// Enqueues child jobs; the numbers of those stored at once.
pub(crate) fn spawn(kind: &str, value: &Value, count: u32, now: bool) -> Result<Vec<u64>, Failure> {
    let mut ids = Vec::new();
    for _ in 0..count {
        let child = Child::json(kind, value)?;
        if now {
            ids.push(spawn::now(child)?);
        } else {
            spawn::with_outcome(child)?;
        }
    }
    Ok(ids)
}

fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn text(blob: &Blob) -> String {
    String::from_utf8_lossy(&blob.bytes).into_owned()
}
