//! Nothing of one attempt reaches another, and a fault of one is no fault of the next.

use std::fs;

use serde_json::Value;
use stokehold_domain::{Limits, Outcome};
use stokehold_sandbox::{Control, SandboxConfig};

use crate::guests::{self, unique};

/// Fails if it finds anything but zeros in 8 MiB of memory, a table of 1000 and a global; then fills
/// them.
fn marker() -> String {
    format!(
        r#"(module
  (memory (export "memory") 128)
  (table $t 1000 funcref)
  (global $g (mut i32) (i32.const 0))
  (elem declare func $mark)
  (func $mark (result i32) (i32.const {n}))
  (func (export "_start") (local $at i32)
    (loop $next
      (if (i32.load (local.get $at)) (then unreachable))
      (local.set $at (i32.add (local.get $at) (i32.const 4)))
      (br_if $next (i32.lt_u (local.get $at) (i32.const 0x800000))))
    (if (i32.eqz (ref.is_null (table.get $t (i32.const 999)))) (then unreachable))
    (if (global.get $g) (then unreachable))
    (memory.fill (i32.const 0) (i32.const 0xa5) (i32.const 0x800000))
    (table.fill $t (i32.const 0) (ref.func $mark) (i32.const 1000))
    (global.set $g (i32.const {n}))))"#,
        n = unique()
    )
}

#[tokio::test]
async fn a_fresh_instance_reads_zeros_after_others_filled_their_memory() {
    let sandbox = guests::sandbox(SandboxConfig { slots: 1, ..guests::small() });
    let (one, other) = (marker(), marker());
    let handlers = [guests::load(&sandbox, &one).await, guests::load(&sandbox, &other).await];
    for round in 0..20 {
        let report = guests::run(&sandbox, &handlers[round % 2], &guests::ample()).await;
        assert_eq!(report.outcome, Outcome::Completed(None), "round {round}");
    }
    guests::idle(&sandbox).await;
}

#[tokio::test]
async fn each_attempt_gets_its_whole_budget() {
    let sandbox = guests::sandbox(guests::small());
    let handler =
        guests::load(&sandbox, r#"(module (func (export "_start") (loop (br 0))))"#).await;
    for _ in 0..3 {
        let limits = Limits { fuel: 500_000, ..Limits::DEFAULT };
        let report = guests::run(&sandbox, &handler, &limits).await;
        assert_eq!((report.outcome.code(), report.receipt.fuel), ("limit.fuel", 500_000));
    }
}

#[tokio::test]
async fn every_line_is_in_the_guest_log_file_while_the_guest_still_runs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("guests.jsonl");
    let config = SandboxConfig { guest_log_file: Some(path.clone()), ..guests::small() };
    let sandbox = guests::sandbox(config);
    let handler = guests::load(&sandbox, guests::SPINNER).await;
    let control = Control::new();
    let run = {
        let (sandbox, control) = (sandbox.clone(), control.clone());
        tokio::spawn(async move {
            sandbox.run(&handler, guests::attempt(b""), &guests::ample(), control).await
        })
    };
    guests::started(&control).await;
    let text = fs::read_to_string(&path).unwrap();
    let line: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(line["message"], "up");
    assert_eq!(
        (&line["job_id"], &line["attempt"], &line["token"]),
        (&Value::from("7"), &Value::from(2), &Value::from(70))
    );
    assert_eq!(line["pid"], std::process::id());
    assert_eq!(sandbox.pool_metrics().guest_log_failures, 0);
    run.abort();
}
