//! The probe handler: the contract as a real toolchain implements it.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use stokehold_domain::{Limits, Outcome};
use stokehold_sandbox::{Abi, Control, Handler, Report, Sandbox};

use crate::guests;

/// Where `scripts/build-guests` puts what it makes: beside the host's own build.
fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("../guests")
}

fn built(name: &str) -> Vec<u8> {
    let folder = std::env::var_os("STOKEHOLD_GUESTS")
        .map(PathBuf::from)
        .unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/guests"));
    let path = folder.join(name);
    fs::read(&path).unwrap_or_else(|error| {
        panic!("{}: {error}; scripts/build-guests makes it", path.display())
    })
}

async fn probe(sandbox: &Sandbox, handler: &Handler, task: Value) -> Report {
    let attempt = guests::attempt(task.to_string().as_bytes());
    // Short only for those that never end by themselves: the machine may be busy.
    let is_endless = task["do"] == "spin" || task["do"] == "sleep";
    let limits = Limits { timeout_ms: if is_endless { 300 } else { 30_000 }, ..guests::ample() };
    sandbox.run(handler, attempt, &limits, Control::new()).await
}

#[tokio::test]
async fn the_probe_meets_every_end_it_is_asked_for() {
    let sandbox = guests::sandbox(guests::small());
    let bytes = built("probe.wasm");
    let admission = sandbox.admit(&bytes).unwrap();
    assert_eq!(admission.abi, Abi::Component);
    assert!(admission.producers.languages.contains("Rust"), "{:?}", admission.producers);
    let handler = guests::load_bytes(&sandbox, &bytes).await;
    for (task, code, says) in [
        (json!({"do": "noop"}), "ok", ""),
        (json!({"do": "panic", "message": "boom"}), "handler.panic", "handler panicked: boom at "),
        (json!({"do": "divide"}), "handler.panic", "attempt to divide by zero"),
        (json!({"do": "abort"}), "handler.panic", "aborted"),
        (json!({"do": "stack"}), "limit.stack", "stack overflow"),
        (json!({"do": "allocate"}), "limit.memory", "the limit is 128 MiB"),
        (json!({"do": "spin"}), "limit.time", "out of time"),
        (json!({"do": "sleep", "ms": 60_000}), "limit.time", "out of time"),
        (json!({"do": "retry", "message": "later"}), "handler.retry", "later"),
        (json!({"do": "permanent", "message": "never"}), "handler.permanent", "never"),
        (json!({"do": "cancel", "message": "unwanted"}), "handler.cancel", "unwanted"),
        (json!({"do": "snooze", "ms": 1000, "message": "wait"}), "handler.snooze", "wait"),
        (json!({"do": "big-result", "bytes": 2_000_000}), "limit.output", "2000000 bytes"),
        (json!({"do": "context"}), "ok", ""),
        (json!({"do": "random"}), "ok", ""),
        (json!({"do": "fs"}), "ok", ""),
        (json!({"do": "env"}), "ok", ""),
        (json!({"do": "progress"}), "ok", ""),
    ] {
        let outcome = probe(&sandbox, &handler, task.clone()).await.outcome;
        let problem = outcome.problem().unwrap_or_default();
        assert_eq!(outcome.code(), code, "{task}: {problem:?}");
        assert!(problem.message.contains(says), "{task}: {problem:?}");
    }
    guests::idle(&sandbox).await;
}

#[tokio::test]
async fn the_probe_sees_nothing_of_the_node() {
    let sandbox = guests::sandbox(guests::small());
    let handler = guests::load_bytes(&sandbox, &built("probe.wasm")).await;
    let Outcome::Completed(Some(blob)) =
        probe(&sandbox, &handler, json!({"do": "env"})).await.outcome
    else {
        panic!("no result")
    };
    let text = String::from_utf8(blob.bytes).unwrap();
    assert!(!text.contains("PATH") && !text.contains("HOME"), "{text}");
}

#[tokio::test]
async fn the_command_meets_every_end_it_is_asked_for() {
    let sandbox = guests::sandbox(guests::small());
    let handler = guests::load_bytes(&sandbox, &built("probe-command.wasm")).await;
    assert_eq!(handler.abi(), Abi::Command);
    for (task, code, says) in [
        (json!({"do": "ok", "value": {"sum": 42}}), "ok", ""),
        (json!({"do": "noop"}), "ok", ""),
        (json!({"do": "panic", "message": "boom"}), "handler.panic", "handler panicked: boom at "),
        (json!({"do": "abort"}), "handler.panic", "aborted"),
        (json!({"do": "stack"}), "limit.stack", "stack overflow"),
        (json!({"do": "allocate"}), "limit.memory", "the limit is 128 MiB"),
        (json!({"do": "spin"}), "limit.time", "out of time"),
        (json!({"do": "sleep", "ms": 60_000}), "limit.time", "waiting in the host"),
        (
            json!({"do": "exit", "code": 65, "message": "no such card"}),
            "handler.permanent",
            "no such",
        ),
        (json!({"do": "exit", "code": 75, "message": "later"}), "handler.retry", "later"),
        (json!({"do": "exit", "code": 99, "message": "unwanted"}), "handler.cancel", "unwanted"),
        (json!({"do": "exit", "code": 3, "message": "odd"}), "handler.exit", "status 3: odd"),
        (json!({"do": "stderr-flood", "lines": 20_000}), "ok", ""),
        (json!({"do": "stdout-flood", "bytes": 2_000_000}), "limit.output", "1048576 bytes"),
        (json!({"do": "fs"}), "ok", ""),
        (json!({"do": "env"}), "ok", ""),
    ] {
        let outcome = probe(&sandbox, &handler, task.clone()).await.outcome;
        let problem = outcome.problem().unwrap_or_default();
        assert_eq!(outcome.code(), code, "{task}: {problem:?}");
        assert!(problem.message.contains(says), "{task}: {problem:?}");
    }
    guests::idle(&sandbox).await;
}

#[tokio::test]
async fn every_guest_that_was_built_is_taken_and_says_where_it_comes_from() {
    let sandbox = guests::sandbox(guests::small());
    for entry in fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        let admission = sandbox.admit(&bytes).unwrap();
        assert!(admission.producers.languages.contains("Rust"), "{}", path.display());
        let inert = admission.imports.last().unwrap();
        assert!(inert.starts_with("standard library, inert"), "{:?}", admission.imports);
        guests::load_bytes(&sandbox, &bytes).await;
    }
}

#[tokio::test]
async fn handlers_written_by_hand_as_components_run() {
    let sandbox = guests::sandbox(guests::small());
    let traps =
        guests::load(&sandbox, include_str!("../../../../tests/guests/traps/traps.wat")).await;
    for (payload, code) in [
        ("0", "handler.panic"),
        ("1", "guest.trap.integer-division-by-zero"),
        ("2", "guest.trap.integer-overflow"),
        ("3", "guest.trap.memory-out-of-bounds"),
        ("4", "guest.trap.bad-conversion-to-integer"),
        ("5", "guest.trap.table-out-of-bounds"),
        ("6", "guest.trap.indirect-call-to-null"),
        ("7", "guest.trap.bad-signature"),
        ("8", "contract.value"),
        ("9", "contract.value"),
        ("x", "ok"),
    ] {
        let attempt = guests::attempt(payload.as_bytes());
        let run = sandbox.run(&traps, attempt, &Limits::DEFAULT, Control::new());
        let outcome = run.await.outcome;
        assert_eq!(outcome.code(), code, "{payload}: {:?}", outcome.problem());
    }
}
