//! Schedules: set, looked at, turned off and on, and asked for.

use axum::body::Body;
use axum::http::Method;
use serde_json::json;

use super::harness::Api;

#[tokio::test]
async fn a_schedule_is_set_shown_with_its_next_fires_and_deleted() {
    let api = Api::start().await;
    let path = "/v1/schedules/nightly";
    api.get(path).await.is_problem(404, "schedule.unknown");
    let body = json!({ "kind": "report", "cron": "30 2 1 1 *", "timezone": "Europe/Berlin" });
    api.put(path, body.clone()).await.is_problem(404, "kind.unknown");
    api.kind("report").await;
    let made = api.put(path, body.clone()).await.is(201);
    assert_eq!(made["misfire"], "once");
    assert_eq!(made["next_fires"].as_array().unwrap().len(), 5);
    let local = made["next_local"][0].as_str().unwrap();
    assert!(local.ends_with("-01-01 02:30:00 CET"), "{local}");
    assert_eq!(api.put(path, body).await.is(200), made);
    assert_eq!(api.get("/v1/schedules").await.is(200)["items"], json!([made]));
    let paused = api.post(&format!("{path}/pause"), json!(null)).await.is(200);
    assert!(paused["paused_at"].is_string());
    assert_eq!(paused["next_fires"], json!([]));
    let resumed = api.post(&format!("{path}/resume"), json!(null)).await.is(200);
    assert_eq!(resumed, made);
    let fire = api.post(&format!("{path}/run"), json!(null)).await.is(201);
    let id = fire["job_id"].as_str().unwrap();
    let job = api.get(&format!("/v1/jobs/{id}")).await.is(200);
    assert_eq!(job["metadata"]["schedule"], "nightly");
    assert_eq!(api.get(path).await.is(200)["last_fires"], json!([fire]));
    let gone = api.call(Method::DELETE, path, None, Body::empty()).await;
    assert_eq!(gone.is(200)["name"], "nightly");
    api.call(Method::DELETE, path, None, Body::empty()).await.is_problem(404, "schedule.unknown");
    api.get(&format!("/v1/jobs/{id}")).await.is(200);
}

#[tokio::test]
async fn what_is_wrong_is_pointed_at() {
    let api = Api::start().await;
    api.kind("report").await;
    for (body, pointer) in [
        (json!({ "cron": "61 * * * *" }), "/cron"),
        (json!({ "cron": "0 0 30 2 *" }), "/cron"),
        (json!({ "timezone": "Berlin" }), "/timezone"),
        (json!({ "kind": "../x" }), "/kind"),
        (json!({ "priority": 1001 }), "/priority"),
        (json!({ "max_attempts": 0 }), "/max_attempts"),
        (json!({ "misfire_window_s": 604_801 }), "/misfire_window_s"),
        (json!({ "misfire": "never" }), "/misfire"),
        (json!({ "payload": "x".repeat(65_535) }), "/payload"),
        (json!({ "colour": "blue" }), "/colour"),
    ] {
        let mut whole = json!({ "kind": "report", "cron": "0 0 * * *" });
        whole.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
        let answer = api.put("/v1/schedules/x", whole).await;
        answer.points_at(422, "request.invalid", pointer);
    }
    for word in ["pause", "resume", "run"] {
        let path = format!("/v1/schedules/x/{word}");
        api.post(&path, json!(null)).await.is_problem(404, "schedule.unknown");
    }
}

#[tokio::test]
async fn a_backfill_says_what_it_would_do_does_it_once_and_has_a_limit() {
    let api = Api::start().await;
    api.kind("report").await;
    let path = "/v1/schedules/x";
    api.put(path, json!({ "kind": "report", "cron": "0 * * * *" })).await.is(201);
    let path = format!("{path}/backfill");
    let range = |to: &str, dry_run: bool| json!({ "from": "2024-01-01T00:00:00Z", "to": to, "dry_run": dry_run });
    let day = "2024-01-02T00:00:00Z";
    let would = api.post(&path, range(day, true)).await.is(200);
    assert_eq!(would["items"].as_array().unwrap().len(), 24);
    assert_eq!(would["items"][0]["job_id"], json!(null));
    assert_eq!(
        api.post(&path, range(day, false)).await.is(200)["items"].as_array().unwrap().len(),
        24
    );
    assert_eq!(api.post(&path, range(day, false)).await.is(200)["items"], json!([]));
    let refused = api.post(&path, range("2024-03-01T00:00:00Z", false)).await;
    let problem = refused.is_problem(422, "request.invalid");
    assert_eq!(problem["detail"], "1440 fires, more than 1000");
    let answer = api.post(&path, range("2999-01-01T00:00:00Z", false)).await;
    answer.is_problem(422, "request.invalid");
}
