//! Handlers that end in every way, by way of a runner.

use serde_json::{Value, json};
use sqlx::Row;
use stokehold_domain::{JobId, Limits};

use crate::stage::Stage;

const LIMITS: Limits =
    Limits { fuel: 300_000_000, timeout_ms: 1_000, memory_bytes: 16 << 20, ..Limits::DEFAULT };

/// Runs one job of each payload to its end; each is tried once.
async fn outcomes(payloads: &[Value]) -> (Stage, Vec<(String, String)>) {
    let stage = Stage::bare().await;
    stage.push("probe", "probe.wasm", &LIMITS).await;
    let mut policy = stokehold_queue::KindPolicy::default();
    policy.retry.max_attempts = 1;
    stage.database.put_kind("probe", &policy).await.unwrap();
    let ids = stage.enqueue_many("probe", payloads).await;
    let _runner = stage.runner("runner", &[]);
    stage.wait_until_done().await;
    let mut ended = Vec::new();
    for id in ids {
        let job = stage.database.job(id).await.unwrap().unwrap();
        let message = job.problem.map(|problem| problem.message).unwrap_or_default();
        ended.push((job.summary.outcome.unwrap_or_default(), message));
    }
    (stage, ended)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_spinning_handler_ends_by_fuel_and_a_sleeping_one_by_time_with_the_numbers_told() {
    let payloads = [
        json!({"do": "spin"}),
        json!({"do": "sleep", "ms": 3_600_000}),
        json!({"do": "allocate"}),
        json!({"do": "panic", "message": "the printer is on fire"}),
        json!({"do": "big-result", "bytes": 2 << 20}),
        json!({"do": "permanent", "message": "no such order", "code": "unknown-order"}),
    ];
    let (_stage, ended) = outcomes(&payloads).await;
    let expected = [
        ("limit.fuel", "300000000"),
        ("limit.time", "1000 ms"),
        ("limit.memory", "out of memory"),
        ("handler.panic", "the printer is on fire"),
        ("limit.output", "1048576"),
        ("handler.permanent", "no such order"),
    ];
    for ((outcome, message), (code, text)) in ended.iter().zip(expected) {
        assert_eq!(outcome, code, "{message}");
        assert!(message.contains(text), "{code}: {message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_attempt_is_tried_again_and_its_history_kept() {
    let stage = Stage::set().await;
    let mut policy = stokehold_queue::KindPolicy::default();
    policy.retry.backoff.base_ms = 100;
    stage.database.put_kind("probe", &policy).await.unwrap();
    let _runner = stage.runner("runner", &[]);
    let id = stage.enqueue(&json!({"do": "fail-until", "attempt": 3})).await;
    stage.wait_until_done().await;
    let attempts = stage.database.attempts(id).await.unwrap();
    let told: Vec<(u16, &str)> =
        attempts.iter().map(|a| (a.attempt, a.outcome.as_deref().unwrap_or("-"))).collect();
    assert_eq!(told, [(1, "handler.retry"), (2, "handler.retry"), (3, "ok")]);
    let tokens: Vec<i64> = attempts.iter().map(|attempt| attempt.token.0).collect();
    assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_handler_logs_is_there_while_it_runs() {
    let stage = Stage::set().await;
    let _runner = stage.runner("runner", &[]);
    let id: JobId = stage.enqueue(&json!({"do": "witness", "ms": 4_000})).await;
    let lines = "select count(*) from stokehold.job_logs";
    stage.wait_for("the first line", lines, |n| n > 0).await;
    let running = stage.row("select state::text from stokehold.live_jobs").await;
    assert_eq!(running.get::<String, _>(0), "running");
    stage.wait_until_done().await;
    let logs = stage.database.logs(id, 100).await.unwrap();
    let told: Vec<&str> = logs.iter().map(|log| log.line.message.as_str()).collect();
    assert_eq!(told, ["start", "end"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_waits_for_a_release_and_then_runs_the_one_that_is_active() {
    let stage = Stage::bare().await;
    stage.database.put_kind("late", &Default::default()).await.unwrap();
    stage.enqueue_many("late", &[json!({"do": "ok", "value": 7})]).await;
    let _runner = stage.runner("runner", &[]);
    let registered = "select count(*) from stokehold.runners where state = 'live'";
    stage.wait_for("the runner", registered, |n| n == 1).await;
    assert_eq!(stage.number("select count(*) from stokehold.jobs where attempt = 0").await, 1);
    let digest = stage.store("probe.wasm").await;
    for fuel in [2_000_000_000, 1_000_000_000] {
        let limits = Limits { fuel, ..Limits::DEFAULT };
        stage.database.create_release("late", digest, &limits, false).await.unwrap();
    }
    // The older of the two.
    stage.database.activate_release("late", 1).await.unwrap();
    stage.wait_until_done().await;
    let release =
        stage.row("select release, convert_from(result, 'UTF8') from stokehold.job_history").await;
    assert_eq!(release.get::<i32, _>(0), 1);
    assert_eq!(release.get::<String, _>(1), "7");
}
