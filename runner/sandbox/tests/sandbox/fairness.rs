//! One guest cannot keep the thread from the others.

use std::time::{Duration, Instant};

use stokehold_domain::Limits;
use stokehold_sandbox::{Control, SandboxConfig};

use crate::guests::{self, NOOP, SPINNER};

/// Sleeps 5 ms in the host, a hundred times.
const NAPPER: &str = r#"(module
  (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "_start") (local $n i32)
    (i32.store (i32.const 1040) (i32.const 1))
    (i64.store (i32.const 1048) (i64.const 5000000))
    (loop $again
      (drop (call $poll (i32.const 1024) (i32.const 2048) (i32.const 1) (i32.const 4096)))
      (local.set $n (i32.add (local.get $n) (i32.const 1)))
      (br_if $again (i32.lt_u (local.get $n) (i32.const 100))))))"#;

#[tokio::test]
async fn a_spinner_does_not_starve_a_sleeper_on_one_guest_thread() {
    let sandbox = guests::sandbox(SandboxConfig { guest_threads: 1, ..guests::small() });
    let spinner = guests::load(&sandbox, SPINNER).await;
    let napper = guests::load(&sandbox, NAPPER).await;
    let control = Control::new();
    let spinning = {
        let (sandbox, control) = (sandbox.clone(), control.clone());
        tokio::spawn(async move {
            sandbox.run(&spinner, guests::attempt(b""), &guests::ample(), control).await
        })
    };
    guests::started(&control).await;
    let began = Instant::now();
    let report = guests::run(&sandbox, &napper, &guests::ample()).await;
    assert_eq!(report.outcome.code(), "ok");
    // Undisturbed it takes half a second; each nap may wait for a slice of the spinner. With a plain
    // yield it would take half a minute.
    assert!(began.elapsed() < Duration::from_secs(12), "took {:?}", began.elapsed());
    assert!(!spinning.is_finished());
    spinning.abort();
}

#[tokio::test]
async fn short_guests_get_through_between_spinners_on_every_thread() {
    let sandbox = guests::sandbox(guests::small());
    let spinner = guests::load(&sandbox, SPINNER).await;
    let noop = guests::load(&sandbox, NOOP).await;
    let mut spinning = Vec::new();
    for _ in 0..4 {
        let (sandbox, spinner, control) = (sandbox.clone(), spinner.clone(), Control::new());
        let seen = control.clone();
        spinning.push(tokio::spawn(async move {
            sandbox.run(&spinner, guests::attempt(b""), &guests::ample(), control).await
        }));
        guests::started(&seen).await;
    }
    for _ in 0..20 {
        let began = Instant::now();
        let report = guests::run(&sandbox, &noop, &Limits::DEFAULT).await;
        assert_eq!(report.outcome.code(), "ok");
        assert!(began.elapsed() < Duration::from_secs(2), "took {:?}", began.elapsed());
    }
    assert!(sandbox.ticker_age() < Duration::from_secs(1));
    spinning.iter().for_each(|spinning| spinning.abort());
}
