//! Making jobs.

use axum::http::Method;
use serde_json::{Value, json};
use sqlx::Executor;
use stokehold_domain::JobId;

use super::harness::{Answer, Api};

async fn raw(api: &Api, path: &str, media_type: Option<&str>, body: &[u8]) -> Answer {
    api.call(Method::POST, path, media_type, body.to_vec()).await
}

async fn no_jobs(api: &Api) {
    assert_eq!(api.get("/v1/jobs").await.is(200), json!({ "items": [], "next": null }));
}

#[tokio::test]
async fn an_enqueued_job_is_found_with_all_that_was_said_of_it() {
    let api = Api::start().await;
    api.put("/v1/kinds/k", json!({ "queue": "q", "max_attempts": 7 })).await.is(201);
    let answer = api
        .post(
            "/v1/jobs",
            json!({
                "kind": "k", "payload": { "a": [1, null] }, "run_at": "2099-01-02T03:04:05Z",
                "priority": -3, "max_attempts": 2, "metadata": { "order": "7", "n": { "x": [1] } },
            }),
        )
        .await;
    let id = answer.is(201)["id"].as_str().unwrap().to_owned();
    assert_eq!(answer.header("location"), format!("/v1/jobs/{id}"));
    let job = api.get(&format!("/v1/jobs/{id}")).await.is(200);
    for (field, value) in [
        ("id", json!(id)),
        ("kind", json!("k")),
        ("queue", json!("q")),
        ("state", json!("scheduled")),
        ("priority", json!(-3)),
        ("max_attempts", json!(2)),
        ("attempt", json!(0)),
        ("run_at", json!("2099-01-02T03:04:05Z")),
        ("metadata", json!({ "order": "7", "n": { "x": [1] } })),
        (
            "payload",
            json!({ "media_type": "application/json", "size_bytes": 14, "json": { "a": [1, null] } }),
        ),
        ("outcome", Value::Null),
        ("result", Value::Null),
    ] {
        assert_eq!(job[field], value, "{field}");
    }
    let plain = api.job("k").await;
    let job = api.get(&format!("/v1/jobs/{plain}")).await.is(200);
    assert_eq!((&job["state"], &job["max_attempts"]), (&json!("available"), &json!(7)));
    assert_eq!(job["payload"]["json"], json!({}));
}

#[tokio::test]
async fn ids_and_numbers_past_two_to_the_53_survive() {
    let api = Api::start().await;
    api.put("/v1/kinds/k", json!({})).await.is(201);
    api.sql("alter table stokehold.jobs alter column id restart with 9007199254740993").await;
    assert_eq!(api.job("k").await, JobId(9_007_199_254_740_993));
    let text = r#"{"kind":"k","payload":{"n":12345678901234567890123456789,"f":1.10,"e":1e400}}"#;
    let made = raw(&api, "/v1/jobs", Some("application/json"), text.as_bytes()).await.is(201);
    assert_eq!(made["id"], "9007199254740994");
    let job = api.get("/v1/jobs/9007199254740994").await.text();
    assert!(job.contains(r#"{"n":12345678901234567890123456789,"f":1.10,"e":1e400}"#), "{job}");
    let batch = json!({ "jobs": [{ "kind": "k" }] });
    let made = api.post("/v1/jobs/batch", batch).await.is(201);
    assert_eq!(made, json!({ "ids": ["9007199254740995"] }));
    let list = api.get("/v1/jobs?limit=1").await.is(200);
    assert_eq!(list["items"][0]["id"], "9007199254740995");
}

#[tokio::test]
async fn payloads_come_as_json_null_as_bytes_or_not_at_all() {
    let api = Api::start().await;
    api.put("/v1/kinds/k", json!({})).await.is(201);
    for (body, payload) in [
        (
            json!({ "payload": null }),
            json!({ "media_type": "application/json", "size_bytes": 4, "json": null }),
        ),
        (
            json!({ "payload": [1], "media_type": "application/ld+json" }),
            json!({ "media_type": "application/ld+json", "size_bytes": 3, "json": [1] }),
        ),
        (
            json!({ "payload_base64": "AP+A" }),
            json!({ "media_type": "application/octet-stream", "size_bytes": 3, "base64": "AP+A" }),
        ),
        (
            json!({ "payload_base64": "", "media_type": "text/plain" }),
            json!({ "media_type": "text/plain", "size_bytes": 0, "base64": "" }),
        ),
        (
            json!({ "payload_base64": "e30=", "media_type": "application/json" }),
            json!({ "media_type": "application/json", "size_bytes": 2, "json": {} }),
        ),
    ] {
        let mut body = body;
        body["kind"] = json!("k");
        let id = api.post("/v1/jobs", body).await.is(201)["id"].as_str().unwrap().to_owned();
        assert_eq!(api.get(&format!("/v1/jobs/{id}")).await.is(200)["payload"], payload);
    }
}

#[tokio::test]
async fn what_is_wrong_with_a_job_is_refused_at_its_place() {
    let api = Api::start().await;
    api.put("/v1/kinds/k", json!({})).await.is(201);
    let invalid = |body: Value, pointer: &'static str| (body, 422, "request.invalid", pointer);
    let big = "x".repeat(1 << 20);
    for (body, status, code, pointer) in [
        (json!({ "kind": "nope" }), 404, "kind.unknown", "/kind"),
        (json!({ "kind": "k", "payload": big }), 413, "request.too-large", "/payload"),
        (json!({ "kind": "k", "metadata": { "a": big } }), 413, "request.too-large", "/metadata"),
        invalid(json!({ "kind": "../k" }), "/kind"),
        invalid(json!({ "kind": "k\0" }), "/kind"),
        invalid(json!({ "kind": 7 }), "/kind"),
        invalid(json!({ "kind": "k", "paylod": 1 }), "/paylod"),
        invalid(json!({ "kind": "k", "priority": 1001 }), "/priority"),
        invalid(json!({ "kind": "k", "priority": 1e10 }), "/priority"),
        invalid(json!({ "kind": "k", "max_attempts": 0 }), "/max_attempts"),
        invalid(json!({ "kind": "k", "run_at": "tomorrow" }), "/run_at"),
        invalid(json!({ "kind": "k", "payload": 1, "payload_base64": "AA==" }), "/payload_base64"),
        invalid(json!({ "kind": "k", "payload_base64": "not base64" }), "/payload_base64"),
        invalid(
            json!({ "kind": "k", "payload_base64": "bm8=", "media_type": "application/json" }),
            "/payload_base64",
        ),
        invalid(json!({ "kind": "k", "payload": 1, "media_type": "image/png" }), "/media_type"),
        invalid(
            json!({ "kind": "k", "payload_base64": "", "media_type": "a\r\nb" }),
            "/media_type",
        ),
        invalid(
            json!({ "kind": "k", "payload_base64": "", "media_type": "nonsense" }),
            "/media_type",
        ),
        invalid(json!({ "kind": "k", "metadata": [1] }), "/metadata"),
        invalid(
            json!({ "kind": "k", "metadata": { "a": { "b~/": ["x\0"] } } }),
            "/metadata/a/b~0~1/0",
        ),
        invalid(json!({ "kind": "k", "metadata": { "n\0": 1 } }), "/metadata/n\u{fffd}"),
    ] {
        api.post("/v1/jobs", body).await.points_at(status, code, pointer);
    }
    api.post("/v1/jobs", json!({})).await.is_problem(422, "request.invalid");
    let unknown = api.post("/v1/jobs", json!({ "kind": "k", "paylod": 1 })).await.text();
    assert!(unknown.contains("paylod") && unknown.contains("`payload`"), "{unknown}");
    let long = json!({ "kind": "k", "x".repeat(1 << 20): 1 });
    let answer = api.post("/v1/jobs", long).await;
    answer.is_problem(422, "request.invalid");
    assert!(answer.body.len() < 20_000, "an answer of {} bytes", answer.body.len());
    no_jobs(&api).await;
}

#[tokio::test]
async fn what_is_not_json_is_told_apart_from_json_that_is_not_wanted() {
    let api = Api::start().await;
    let json_type = Some("application/json; charset=utf-8");
    for bad in [
        "",
        "{",
        "{\"kind\": \"k\",}",
        "nope",
        "{\"kind\": \"k\"} {}",
        "{\"kind\": \"\\ud800\"}",
        "\u{feff}{}",
    ] {
        let answer = raw(&api, "/v1/jobs", json_type, bad.as_bytes()).await;
        let problem = answer.is_problem(400, "request.json");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("line") && detail.contains("column"), "{bad:?}: {detail}");
    }
    raw(&api, "/v1/jobs", json_type, b"{\"kind\": \"\xff\"}").await.is_problem(400, "request.json");
    let deep = "[".repeat(100_000);
    let deep = format!("{{\"kind\":\"k\",\"metadata\":{{\"a\":{deep}");
    raw(&api, "/v1/jobs", json_type, deep.as_bytes()).await.is_problem(400, "request.json");
    for media_type in
        [None, Some("text/plain"), Some("application/x-www-form-urlencoded"), Some("")]
    {
        let answer = raw(&api, "/v1/jobs", media_type, b"{}").await;
        answer.is_problem(415, "request.media-type");
    }
    let twice = br#"{"kind":"k","kind":"k"}"#;
    raw(&api, "/v1/jobs", json_type, twice).await.is_problem(422, "request.invalid");
    raw(&api, "/v1/jobs", json_type, b"[]").await.is_problem(422, "request.invalid");
}

#[tokio::test]
async fn a_deeply_nested_payload_is_only_bytes() {
    let api = Api::start().await;
    api.put("/v1/kinds/k", json!({})).await.is(201);
    let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
    let body = format!("{{\"kind\":\"k\",\"payload\":{deep}}}");
    let made = raw(&api, "/v1/jobs", Some("application/json"), body.as_bytes()).await.is(201);
    let path = format!("/v1/jobs/{}", made["id"].as_str().unwrap());
    let job = api.get(&path).await;
    assert_eq!(job.status, 200);
    assert!(job.text().contains(&deep));
}

#[tokio::test]
async fn a_batch_is_made_whole_and_in_order_or_not_at_all() {
    let api = Api::start().await;
    api.put("/v1/kinds/k", json!({})).await.is(201);
    let jobs: Vec<Value> = (0..10_000).map(|n| json!({ "kind": "k", "payload": n })).collect();
    let made = api.post("/v1/jobs/batch", json!({ "jobs": jobs })).await.is(201);
    let ids = made["ids"].as_array().unwrap();
    assert_eq!(ids.len(), 10_000);
    let last = api.get(&format!("/v1/jobs/{}", ids[9_999].as_str().unwrap())).await.is(200);
    assert_eq!(last["payload"]["json"], 9_999);
    assert_eq!(api.post("/v1/jobs/batch", json!({ "jobs": [] })).await.is(201)["ids"], json!([]));

    let before = api.get("/v1/jobs?limit=1").await.is(200);
    let too_many: Vec<Value> = (0..10_001).map(|_| json!({ "kind": "k" })).collect();
    let answer = api.post("/v1/jobs/batch", json!({ "jobs": too_many })).await;
    answer.points_at(422, "request.invalid", "/jobs");
    let good = json!({ "kind": "k" });
    for (bad, status, code, pointer) in [
        (json!({ "kind": "nope" }), 404, "kind.unknown", "/jobs/3/kind"),
        (json!({ "kind": "A" }), 422, "request.invalid", "/jobs/3/kind"),
        (json!({ "kind": "k", "priority": -1001 }), 422, "request.invalid", "/jobs/3/priority"),
        (
            json!({ "kind": "k", "metadata": { "a": "\0" } }),
            422,
            "request.invalid",
            "/jobs/3/metadata/a",
        ),
        (json!({ "kind": "k", "metadta": {} }), 422, "request.invalid", "/jobs/3/metadta"),
        (json!(7), 422, "request.invalid", "/jobs/3"),
    ] {
        let batch = json!({ "jobs": [good, good, good, bad, good] });
        let answer = api.post("/v1/jobs/batch", batch).await;
        answer.points_at(status, code, pointer);
        assert!(!answer.text().contains("job 4"), "{}", answer.text());
    }
    assert_eq!(api.get("/v1/jobs?limit=1").await.is(200), before);
}

#[tokio::test]
async fn a_body_of_bytes_is_a_payload_with_its_media_type_and_metadata_from_the_query() {
    let api = Api::start().await;
    api.put("/v1/kinds/k", json!({})).await.is(201);
    let path = "/v1/kinds/k/jobs?priority=-7&max_attempts=1&run_at=2099-01-01T00:00:00Z\
                &meta.file=a%20b.png&meta.%C3%A9=1";
    let made = raw(&api, path, Some("image/png"), b"\x89PNG\0").await;
    let id = made.is(201)["id"].as_str().unwrap().to_owned();
    assert_eq!(made.header("location"), format!("/v1/jobs/{id}"));
    let job = api.get(&format!("/v1/jobs/{id}")).await.is(200);
    assert_eq!(
        job["payload"],
        json!({ "media_type": "image/png", "size_bytes": 5, "base64": "iVBORwA=" })
    );
    assert_eq!(job["metadata"], json!({ "file": "a b.png", "é": "1" }));
    assert_eq!((&job["priority"], &job["max_attempts"]), (&json!(-7), &json!(1)));
    assert_eq!(job["state"], "scheduled");
    let made = raw(&api, "/v1/kinds/k/jobs", None, b"").await.is(201);
    let job = api.get(&format!("/v1/jobs/{}", made["id"].as_str().unwrap())).await.is(200);
    assert_eq!(job["payload"]["media_type"], "application/octet-stream");
    assert_eq!(job["metadata"], Value::Null);
}

#[tokio::test]
async fn a_body_of_bytes_is_refused_for_what_it_says_it_is_and_is_not() {
    let api = Api::start().await;
    api.put("/v1/kinds/k", json!({})).await.is(201);
    let json_type = Some("application/json");
    let broken = raw(&api, "/v1/kinds/k/jobs", json_type, b"{\n \"a\": }").await;
    let problem = broken.is_problem(400, "request.json");
    assert!(problem["detail"].as_str().unwrap().contains("line 2 column 7"), "{problem}");
    raw(&api, "/v1/kinds/k/jobs", json_type, b"\"\xff\"").await.is_problem(400, "request.json");
    raw(&api, "/v1/kinds/k/jobs", json_type, b"").await.is_problem(400, "request.json");
    let odd = raw(&api, "/v1/kinds/k/jobs", Some("nonsense"), b"").await;
    odd.is_problem(415, "request.media-type");
    let over = vec![0; (1 << 20) + 1];
    let over = raw(&api, "/v1/kinds/k/jobs", None, &over).await;
    let problem = over.is_problem(413, "request.too-large");
    assert!(problem["detail"].as_str().unwrap().contains("1048576"), "{problem}");
    raw(&api, "/v1/kinds/nope/jobs", None, b"").await.is_problem(404, "kind.unknown");
    for (query, parameter) in [
        ("priority=1001", "priority"),
        ("priority=x", "priority"),
        ("priority=1&priority=2", "priority"),
        ("max_attempts=0", "max_attempts"),
        ("run_at=soon", "run_at"),
        ("meta.=1", "meta."),
        ("meta.a=1&meta.a=2", "meta.a"),
        ("meta.a=%00", "meta.a"),
        ("metadata=1", "metadata"),
    ] {
        let answer = raw(&api, &format!("/v1/kinds/k/jobs?{query}"), None, b"").await;
        answer.names_parameter(parameter);
    }
    no_jobs(&api).await;
}

#[tokio::test]
async fn jobs_of_concurrent_requests_are_committed_together_and_answered_each_for_itself() {
    let api = Api::start().await;
    api.kind("k").await;
    // Nobody can commit until all have come.
    let mut gate = api.connection().await;
    gate.execute("begin; lock table stokehold.jobs in share mode").await.unwrap();
    let send = async |n: usize| {
        // Every tenth is of a kind that does not exist.
        let kind = if n % 10 == 9 { "nobody" } else { "k" };
        (n, api.post("/v1/jobs", json!({ "kind": kind, "payload": n })).await)
    };
    let requests = futures::future::join_all((0..200).map(send));
    let open = async {
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        gate.execute("commit").await.unwrap();
    };
    let (answers, ()) = tokio::join!(requests, open);
    for (n, answer) in answers {
        if n % 10 == 9 {
            answer.points_at(404, "kind.unknown", "/kind");
            assert!(answer.text().contains("there is no kind 'nobody'"), "{}", answer.text());
            continue;
        }
        let id = answer.is(201)["id"].as_str().unwrap().to_owned();
        let job = api.get(&format!("/v1/jobs/{id}")).await.is(200);
        assert_eq!(job["payload"]["json"], n, "each request has the id of its own job");
    }
    let commits: i64 = sqlx::query_scalar("select count(distinct xmin::text) from stokehold.jobs")
        .fetch_one(&mut gate)
        .await
        .unwrap();
    assert!(commits <= 10, "180 jobs were made in {commits} commits");
}
