//! Runners that are told to stop.

use nix::sys::signal::Signal;
use serde_json::json;

use crate::stage::Stage;

const RUNNING: &str = "select count(*) from stokehold.live_jobs where state = 'running'";
/// Longer than any of these tests.
const LONG_MS: u64 = 28_000;

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_runner_finishes_what_runs_and_leaves_the_rest() {
    let stage = Stage::set().await;
    let payloads = vec![json!({"do": "witness", "ms": 700}); 6];
    stage.enqueue_many("probe", &payloads).await;
    let mut runner = stage.runner("runner", &["--slots", "2"]);
    stage.wait_for_starts("runner", 2).await;
    runner.signal(Signal::SIGTERM);
    assert_eq!(runner.end().await, 0, "{}", stage.log("runner"));
    assert_eq!(stage.number(RUNNING).await, 0);
    let done = stage.number("select count(*) from stokehold.job_history").await;
    assert!((2..6).contains(&done), "{done} of 6 done");
    let untouched =
        "select count(*) from stokehold.live_jobs where state = 'available' and attempt = 0";
    assert_eq!(stage.number(untouched).await, 6 - done);
    let stopped = "select count(*) from stokehold.runners where state = 'stopped'";
    assert_eq!(stage.number(stopped).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_end_within_the_grace_time_is_handed_back_unburnt() {
    let stage = Stage::set().await;
    stage.enqueue(&json!({"do": "witness", "ms": LONG_MS})).await;
    stage.enqueue(&json!({"do": "witness", "ms": LONG_MS})).await;
    let mut runner = stage.runner("runner", &["--grace", "300ms"]);
    stage.wait_for_starts("runner", 2).await;
    runner.signal(Signal::SIGTERM);
    assert_eq!(runner.end().await, 0, "{}", stage.log("runner"));
    let back = "select count(*) from stokehold.live_jobs where state = 'available' and attempt = 0 and lost = 0";
    assert_eq!(stage.number(back).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_stopped_under_full_load_loses_no_job_and_marks_none_as_lost() {
    let stage = Stage::set().await;
    for _ in 0..5 {
        stage.enqueue_many("probe", &vec![json!({"do": "noop"}); 3_000]).await;
        let mut runner = stage.runner("runner", &[]);
        let before = stage.number("select count(*) from stokehold.job_history").await;
        let ended = "select count(*) from stokehold.job_history";
        stage.wait_for("some jobs", ended, |n| n > before + 200).await;
        runner.signal(Signal::SIGTERM);
        assert_eq!(runner.end().await, 0, "{}", stage.log("runner"));
        assert_eq!(stage.number(RUNNING).await, 0, "{}", stage.log("runner"));
    }
    let touched = "select count(*) from stokehold.jobs where attempt <> 0 or lost <> 0";
    assert_eq!(stage.number(touched).await, 0);
    let lost = "select count(*) from stokehold.job_attempts";
    assert_eq!(stage.number(lost).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_leaves_at_once() {
    let stage = Stage::set().await;
    stage.enqueue(&json!({"do": "witness", "ms": LONG_MS})).await;
    let mut runner = stage.runner("runner", &[]);
    stage.wait_for_starts("runner", 1).await;
    runner.signal(Signal::SIGTERM);
    let told = "select count(*) from pg_stat_activity where application_name = 'stokehold-wake'";
    stage.wait_for("its stopping", told, |n| n == 0).await;
    runner.signal(Signal::SIGTERM);
    assert_eq!(runner.end().await, 128 + 15);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drained_node_finishes_what_runs_hands_back_the_rest_and_ends() {
    let stage = Stage::set().await;
    let mut drained = stage.runner("drained", &["--grace", "20s", "--slots", "2"]);
    // Two run for a moment, the others wait for a slot there.
    let payloads = vec![json!({"do": "witness", "ms": 3_000}); 6];
    stage.enqueue_many("probe", &payloads).await;
    stage.wait_for_starts("drained", 2).await;
    assert_eq!(stage.database.drain("nobody").await.unwrap(), []);
    assert_eq!(stage.database.drain("drained").await.unwrap().len(), 1);
    assert_eq!(drained.end().await, 0);
    let ended =
        stage.number("select count(*) from stokehold.job_history where state = 'completed'").await;
    assert!((2..=4).contains(&ended), "{ended}");
    let burnt =
        stage.number("select count(*) from stokehold.jobs where attempt > 0 or lost > 0").await;
    assert_eq!(burnt, 0);
    let live = stage.number("select count(*) from stokehold.runners where state = 'live'").await;
    assert_eq!(live, 0);
    assert!(stage.log("drained").contains("stopping: no new claims"), "{}", stage.log("drained"));
    // The rest runs elsewhere.
    let _other = stage.runner("other", &[]);
    stage.wait_until_done().await;
}
