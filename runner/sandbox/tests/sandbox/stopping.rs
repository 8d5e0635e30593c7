//! A guest is gone soon after someone says so, whatever it does.

use std::time::{Duration, Instant};

use stokehold_domain::{Limits, Outcome, Problem, Verdict};
use stokehold_sandbox::{Control, SandboxConfig, StopReason};

use crate::guests::{self, SLEEPER, SPINNER};

/// The bound that is promised for every order to stop.
const STOP_BOUND: Duration = Duration::from_secs(1);

async fn stopped_by(guest: &str, reason: StopReason) -> Outcome {
    let sandbox = guests::sandbox(guests::small());
    let handler = guests::load(&sandbox, guest).await;
    let control = Control::new();
    let run = {
        let (sandbox, control) = (sandbox.clone(), control.clone());
        tokio::spawn(async move {
            sandbox.run(&handler, guests::attempt(b""), &guests::ample(), control).await
        })
    };
    guests::started(&control).await;
    let ordered = Instant::now();
    control.cancel(reason);
    let report = run.await.unwrap();
    assert!(ordered.elapsed() < STOP_BOUND, "took {:?}", ordered.elapsed());
    guests::idle(&sandbox).await;
    report.outcome
}

#[tokio::test]
async fn a_cancelled_guest_is_gone_within_a_second_whether_it_computes_or_sleeps() {
    for guest in [SPINNER, SLEEPER] {
        let outcome = stopped_by(guest, StopReason::Cancelled("by ann".into())).await;
        assert_eq!(outcome, Outcome::Cancelled(Problem::new("by ann")));
    }
}

#[tokio::test]
async fn a_lost_lease_and_a_stopping_node_hand_the_job_back() {
    for guest in [SPINNER, SLEEPER] {
        assert_eq!(stopped_by(guest, StopReason::LeaseLost).await.code(), "node.lost");
        assert_eq!(stopped_by(guest, StopReason::Draining).await.code(), "node.draining");
    }
}

#[tokio::test]
async fn an_order_given_before_the_start_holds() {
    let sandbox = guests::sandbox(guests::small());
    let handler = guests::load(&sandbox, SPINNER).await;
    let control = Control::new();
    control.cancel(StopReason::LeaseLost);
    let limits = guests::ample();
    let run = sandbox.run(&handler, guests::attempt(b""), &limits, control);
    let report = tokio::time::timeout(STOP_BOUND, run).await.unwrap();
    assert_eq!(report.outcome.code(), "node.lost");
}

#[tokio::test]
async fn dropping_the_run_stops_the_guest() {
    let sandbox = guests::sandbox(guests::small());
    for guest in [SPINNER, SLEEPER] {
        let handler = guests::load(&sandbox, guest).await;
        let control = Control::new();
        let run = {
            let (sandbox, control) = (sandbox.clone(), control.clone());
            tokio::spawn(async move {
                sandbox.run(&handler, guests::attempt(b""), &guests::ample(), control).await
            })
        };
        guests::started(&control).await;
        assert!(!sandbox.pool_metrics().is_idle());
        let dropped = Instant::now();
        run.abort();
        guests::idle(&sandbox).await;
        assert!(dropped.elapsed() < STOP_BOUND, "took {:?}", dropped.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_guests_stopped_in_every_way_leave_the_pool_empty() {
    let sandbox = guests::sandbox(SandboxConfig { slots: 32, ..guests::small() });
    let spinner = guests::load(&sandbox, SPINNER).await;
    let sleeper = guests::load(&sandbox, SLEEPER).await;
    let runs: Vec<_> = (0..200_u64)
        .map(|n| {
            let handler = if n % 2 == 0 { spinner.clone() } else { sleeper.clone() };
            let (sandbox, control) = (sandbox.clone(), Control::new());
            let limits = Limits { timeout_ms: 5 + n % 20, ..guests::ample() };
            tokio::spawn(async move {
                let run = sandbox.run(&handler, guests::attempt(b""), &limits, control.clone());
                let stop = async {
                    tokio::time::sleep(Duration::from_millis(n % 7)).await;
                    control.cancel(StopReason::Draining);
                    std::future::pending::<()>().await;
                };
                match n % 3 {
                    0 => tokio::select! { report = run => Some(report), () = stop => None },
                    1 => tokio::time::timeout(Duration::from_millis(n % 11), run).await.ok(),
                    _ => Some(run.await),
                }
            })
        })
        .collect();
    for run in runs {
        if let Some(report) = run.await.unwrap() {
            let code = report.outcome.code();
            assert!(["limit.time", "node.draining", "node.pool-full"].contains(&code), "{code}");
        }
    }
    guests::idle(&sandbox).await;
    let noop = guests::load(&sandbox, guests::NOOP).await;
    let report = guests::run(&sandbox, &noop, &Limits::DEFAULT).await;
    assert_eq!(report.outcome, Outcome::Completed(None));
}

#[tokio::test]
async fn more_attempts_than_slots_are_handed_back() {
    let sandbox = guests::sandbox(SandboxConfig { slots: 1, ..guests::small() });
    let handler = guests::load(&sandbox, SLEEPER).await;
    let control = Control::new();
    let run = {
        let (sandbox, control, handler) = (sandbox.clone(), control.clone(), handler.clone());
        tokio::spawn(async move {
            sandbox.run(&handler, guests::attempt(b""), &guests::ample(), control).await
        })
    };
    guests::started(&control).await;
    let second = guests::run(&sandbox, &handler, &guests::ample()).await;
    assert_eq!(second.outcome.code(), "node.pool-full");
    run.abort();
}

/// Asks `context.cancelled` until it is told to stop, and then ends by itself.
const POLITE: &str = r#"(module
  (import "stokehold:job/context@0.1.0" "cancelled" (func $cancelled (param i32)))
  (import "stokehold:job/log@0.1.0" "emit" (func $emit (param i32 i32 i32 i32 i32)))
  (memory (export "memory") 1)
  (global $next (mut i32) (i32.const 4096))
  (data (i32.const 512) "up")
  (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
    (global.get $next))
  (func (export "stokehold:job/handler@0.1.0#handle")
    (param i64 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
    (call $emit (i32.const 2) (i32.const 512) (i32.const 2) (i32.const 0) (i32.const 0))
    (loop $again
      (call $cancelled (i32.const 256))
      (br_if $again (i32.eqz (i32.load8_u (i32.const 256)))))
    ;; cancel, with the reason it was given
    (i32.store8 (i32.const 64) (i32.const 1))
    (i32.store8 (i32.const 72) (i32.const 4))
    (i32.store (i32.const 80) (i32.load (i32.const 260)))
    (i32.store (i32.const 84) (i32.load (i32.const 264)))
    (i32.const 64)))"#;

#[tokio::test]
async fn a_guest_that_watches_for_the_order_ends_by_itself_within_the_grace_time() {
    let grace = Duration::from_secs(3600);
    let sandbox = guests::sandbox(SandboxConfig { cancel_grace: grace, ..guests::small() });
    let module = guests::with_contract(wat::parse_str(POLITE).unwrap(), "pure");
    let handler = guests::load_bytes(&sandbox, &module).await;
    let control = Control::new();
    let limits = Limits { host_calls: u64::MAX, ..guests::ample() };
    let run = {
        let (sandbox, control) = (sandbox.clone(), control.clone());
        tokio::spawn(
            async move { sandbox.run(&handler, guests::attempt(b""), &limits, control).await },
        )
    };
    guests::started(&control).await;
    control.cancel(StopReason::Cancelled("enough".into()));
    let report = run.await.unwrap();
    assert_eq!(report.outcome, Outcome::Verdict(Verdict::Cancel("enough".into())));
}
