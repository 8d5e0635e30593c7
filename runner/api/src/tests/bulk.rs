//! Running ended jobs again, cancelling many, and pausing.

use axum::body::Body;
use axum::http::Method;
use serde_json::{Value, json};
use stokehold_domain::{JobState, Next};

use super::harness::{Api, Runner, ended};

/// A job that has failed for good.
async fn failed(api: &Api, runner: &Runner, kind: &str) -> String {
    let id = api.job(kind).await;
    let job = runner.claim(1).await.remove(0);
    assert_eq!(job.id, id);
    runner.settle(ended(&job, "limit.fuel", Next::Finish(JobState::Discarded))).await;
    id.to_string()
}

#[tokio::test]
async fn an_ended_job_is_run_again_once_and_each_tells_of_the_other() {
    let api = Api::start().await;
    api.kind("a").await;
    let runner = api.runner().await;
    let old = failed(&api, &runner, "a").await;
    let retry = format!("/v1/jobs/{old}/retry");
    let made = api.post(&retry, json!({ "payload": { "n": 9007199254740993_u64 } })).await.is(201);
    let new = made["id"].as_str().unwrap().to_owned();
    let job = api.get(&format!("/v1/jobs/{new}")).await.is(200);
    assert_eq!((&job["retry_of"], &job["retried_as"]), (&json!(old), &Value::Null));
    assert_eq!(job["payload"]["json"]["n"], json!(9007199254740993_u64));
    let job = api.get(&format!("/v1/jobs/{old}")).await.is(200);
    assert_eq!((&job["retry_of"], &job["retried_as"]), (&Value::Null, &json!(new)));
    api.post(&retry, json!({})).await.is_problem(409, "job.retried");
    api.post(&format!("/v1/jobs/{new}/retry"), json!({})).await.is_problem(409, "job.not-finished");
    api.post("/v1/jobs/999/retry", json!({})).await.is_problem(404, "job.unknown");
    let job = runner.claim(1).await.remove(0);
    runner.complete(&job, None).await;
    let again = format!("/v1/jobs/{new}/retry");
    api.post(&again, json!({})).await.is_problem(409, "job.completed");
    let wish = json!({ "even_completed": true, "release": 9 });
    api.post(&again, wish).await.is_problem(404, "release.unknown");
    for (body, pointer) in [
        (json!({ "payload": 1, "payload_base64": "" }), "/payload_base64"),
        (json!({ "payload_base64": "?" }), "/payload_base64"),
        (json!({ "media_type": "a/b" }), "/media_type"),
        (json!({ "even": true }), "/even"),
    ] {
        api.post(&again, body).await.points_at(422, "request.invalid", pointer);
    }
    let wish = json!({ "even_completed": true, "payload_base64": "AAE=", "release": 1 });
    let made = api.post(&again, wish).await.is(201);
    let job = api.get(&format!("/v1/jobs/{}", made["id"].as_str().unwrap())).await.is(200);
    assert_eq!((&job["payload"]["base64"], &job["release"]), (&json!("AAE="), &json!(1)));
}

#[tokio::test]
async fn a_job_that_waits_is_changed_and_one_that_does_not_is_not() {
    let api = Api::start().await;
    api.kind("a").await;
    let runner = api.runner().await;
    let id = api.job("a").await;
    let path = format!("/v1/jobs/{id}");
    let patch = async |body: Value| {
        api.call(Method::PATCH, &path, Some("application/json"), Body::from(body.to_string())).await
    };
    let change = json!({
        "run_at": "2099-01-01T00:00:00Z", "priority": 4, "max_attempts": 3, "metadata": { "a": "b" },
        "payload": 9007199254740993_u64, "release": 1,
    });
    let job = patch(change).await.is(200);
    assert_eq!(job, api.get(&path).await.is(200));
    assert_eq!(
        (&job["state"], &job["run_at"]),
        (&json!("scheduled"), &json!("2099-01-01T00:00:00Z"))
    );
    assert_eq!((&job["priority"], &job["max_attempts"]), (&json!(4), &json!(3)));
    assert_eq!((&job["metadata"], &job["release"]), (&json!({ "a": "b" }), &json!(1)));
    assert_eq!(job["payload"]["json"], json!(9007199254740993_u64));
    for (body, pointer) in [
        (json!({ "priority": 1001 }), "/priority"),
        (json!({ "max_attempts": 0 }), "/max_attempts"),
        (json!({ "metadata": { "a": "\0" } }), "/metadata/a"),
        (json!({ "media_type": "a/b" }), "/media_type"),
        (json!({ "state": "completed" }), "/state"),
    ] {
        patch(body).await.points_at(422, "request.invalid", pointer);
    }
    patch(json!({ "release": 9 })).await.is_problem(404, "release.unknown");
    assert_eq!(api.get(&path).await.is(200), job);
    patch(json!({ "run_at": "1970-01-01T00:00:00Z", "priority": 0 })).await.is(200);
    let claimed = runner.claim(1).await.remove(0);
    patch(json!({ "priority": 1 })).await.is_problem(409, "job.runs");
    runner.complete(&claimed, None).await;
    patch(json!({ "priority": 1 })).await.is_problem(409, "job.ended");
}

#[tokio::test]
async fn many_are_counted_first_and_then_run_again_or_cancelled() {
    let api = Api::start().await;
    for kind in ["a", "b"] {
        api.kind(kind).await;
    }
    let runner = api.runner().await;
    for kind in ["a", "a", "b"] {
        failed(&api, &runner, kind).await;
    }
    let none = json!({ "jobs": 0, "stopping": 0, "more": false });
    let two = json!({ "jobs": 2, "stopping": 0, "more": false });
    let retry = async |body: Value| api.post("/v1/jobs/retry", body).await;
    let outcome = json!({ "kind": "a", "outcome": "trap" });
    assert_eq!(retry(outcome).await.is(200), none);
    let counted = json!({ "kind": "a", "outcome": "limit", "dry_run": true });
    assert_eq!(retry(counted).await.is(200), two);
    let done = json!({ "kind": "a", "outcome": "limit", "states": ["discarded"] });
    assert_eq!(retry(done.clone()).await.is(200), two);
    assert_eq!(retry(done).await.is(200), none);
    assert_eq!(retry(json!({ "all": true })).await.is(200)["jobs"], 1);
    let cancel = async |body: Value| api.post("/v1/jobs/cancel", body).await;
    // One of each kind.
    let running = runner.claim(1).await.remove(0);
    let all = json!({ "jobs": 3, "stopping": 0, "more": false });
    assert_eq!(cancel(json!({ "all": true, "dry_run": true })).await.is(200), all);
    let queue = json!({ "queue": "elsewhere" });
    assert_eq!(cancel(queue).await.is(200), none);
    let done = json!({ "jobs": 3, "stopping": 2, "more": false });
    assert_eq!(cancel(json!({ "queue": "default", "reason": "no" })).await.is(200), done);
    let job = api.get(&format!("/v1/jobs/{}", running.id)).await.is(200);
    assert_eq!(job["state"], "running");
    retry(json!({ "kind": "c" })).await.is_problem(404, "kind.unknown");
    let release = json!({ "kind": "a", "release": 7 });
    retry(release).await.is_problem(404, "release.unknown");
    for (path, body, pointer) in [
        ("retry", json!({}), ""),
        ("cancel", json!({ "reason": "because" }), ""),
        ("retry", json!({ "all": true, "kind": "a" }), "/all"),
        ("cancel", json!({ "all": true, "queue": "a" }), "/all"),
        ("retry", json!({ "states": ["discarded", "completed"] }), "/states/1"),
        ("cancel", json!({ "states": ["cancelled"] }), "/states/0"),
        ("retry", json!({ "outcome": "limit", "release": 1 }), "/release"),
        ("retry", json!({ "kind": "../x" }), "/kind"),
    ] {
        let answer = api.post(&format!("/v1/jobs/{path}"), body).await;
        answer.points_at(422, "request.invalid", pointer);
    }
}

#[tokio::test]
async fn what_is_paused_is_listed_and_shown_at_its_kinds_until_it_is_resumed() {
    let api = Api::start().await;
    api.kind("a").await;
    assert_eq!(api.get("/v1/pauses").await.is(200)["items"], json!([]));
    let wish = json!({ "queue": "default", "for_ms": 60_000, "reason": "<b>down</b>" });
    let paused = api.post("/v1/pause", wish).await.is(200);
    assert_eq!(paused["items"][0]["queue"], "default");
    assert_eq!(paused["items"][0]["reason"], "<b>down</b>");
    assert!(paused["items"][0]["until"].is_string());
    let paused = api.post("/v1/pause", json!({ "kind": "a" })).await.is(200);
    assert_eq!(api.get("/v1/pauses").await.is(200), paused);
    assert_eq!(
        paused["items"][0],
        json!({
            "kind": "a", "all": false, "until": null, "reason": null,
            "paused_at": paused["items"][0]["paused_at"],
        })
    );
    assert_eq!(api.get("/v1/kinds/a").await.is(200)["paused"], true);
    let resumed = api.post("/v1/resume", json!({ "kind": "a" })).await.is(200);
    assert_eq!(
        (&resumed["was_paused"], &resumed["pauses"][0]["queue"]),
        (&json!(true), &json!("default"))
    );
    assert_eq!(api.get("/v1/kinds/a").await.is(200)["paused"], true, "its queue is paused");
    api.post("/v1/resume", json!({ "queue": "default" })).await.is(200);
    assert_eq!(api.get("/v1/kinds/a").await.is(200)["paused"], false);
    let again = api.post("/v1/resume", json!({ "queue": "default" })).await.is(200);
    assert_eq!(again, json!({ "was_paused": false, "pauses": [] }));
    api.post("/v1/pause", json!({ "kind": "c" })).await.is_problem(404, "kind.unknown");
    for (body, pointer) in [
        (json!({}), ""),
        (json!({ "queue": "a", "kind": "a" }), ""),
        (json!({ "all": true, "kind": "a" }), ""),
        (json!({ "all": true, "for_ms": 0 }), "/for_ms"),
        (json!({ "all": true, "for_ms": 1, "until": "2099-01-01T00:00:00Z" }), "/for_ms"),
        (json!({ "all": true, "untill": "2099-01-01T00:00:00Z" }), "/untill"),
    ] {
        api.post("/v1/pause", body).await.points_at(422, "request.invalid", pointer);
    }
    for body in
        [json!({ "queue": "../x" }), json!({ "all": true, "until": "2020-01-01T00:00:00Z" })]
    {
        api.post("/v1/pause", body).await.is_problem(422, "request.invalid");
    }
}
