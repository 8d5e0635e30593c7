//! What a job may say about itself, and requests that may be repeated.

use axum::http::{Method, Request, header};
use serde_json::{Value, json};

use super::harness::{Answer, Api};

impl Api {
    /// Posts with an idempotency key, as whoever has this API key.
    async fn repeatable(&self, path: &str, api_key: &str, key: &str, body: &Value) -> Answer {
        let request = Request::builder()
            .method(Method::POST)
            .uri(path)
            .header(header::AUTHORIZATION, format!("Bearer {api_key}"))
            .header(header::CONTENT_TYPE, "application/json")
            .header("idempotency-key", key)
            .body(body.to_string().into())
            .unwrap();
        self.send(request).await
    }
}

#[tokio::test]
async fn a_duplicate_is_told_from_a_new_job_one_by_one_and_in_a_batch() {
    let api = Api::start().await;
    api.kind("k").await;
    let wish = |mode: &str| {
        json!({ "kind": "k", "payload": { "order": { "id": 7 } }, "priority": 4,
                "unique": { "fields": ["order.id"], "mode": mode } })
    };
    let first = api.post("/v1/jobs", wish("existing")).await.is(201);
    assert_eq!(first["answer"], "inserted");
    let again = api.post("/v1/jobs", wish("existing")).await;
    assert_eq!(again.is(200), json!({ "id": first["id"], "answer": "existing" }));
    assert_eq!(again.header("location"), format!("/v1/jobs/{}", first["id"].as_str().unwrap()));
    let replaced = api.post("/v1/jobs", wish("replace")).await.is(200);
    assert_eq!(replaced, json!({ "id": first["id"], "answer": "replaced" }));
    let problem = api.post("/v1/jobs", wish("reject")).await.is_problem(409, "job.duplicate");
    let id = first["id"].as_str().unwrap();
    assert_eq!(problem["detail"], format!("job {id} of kind 'k' has the unique key already"));
    let batch = json!({ "jobs": [{ "kind": "k" }, wish("existing"), { "kind": "k" }] });
    let made = api.post("/v1/jobs/batch", batch).await.is(201);
    assert_eq!(made["duplicates"], json!([{ "index": 1, "answer": "existing" }]));
    assert_eq!(made["ids"][1], first["id"]);
    let batch = json!({ "jobs": [{ "kind": "k" }, wish("reject")] });
    api.post("/v1/jobs/batch", batch).await.is_problem(409, "job.duplicate");
    let job = api.get(&format!("/v1/jobs/{id}")).await.is(200);
    assert_eq!(job["options"]["unique"], json!({ "fields": ["order.id"], "mode": "existing" }));
}

#[tokio::test]
async fn options_are_shown_filtered_by_and_refused_where_they_are_wrong() {
    let api = Api::start().await;
    api.kind("k").await;
    let wish = json!({
        "kind": "k", "tags": ["red", "big"], "metadata": { "customer": "7" },
        "expires_at": "2099-01-01T00:00:00Z", "concurrency_key": "c", "release": 1,
        "timeout_ms": 500, "backoff": { "form": "list", "delays_ms": [1, 2] },
    });
    let id = api.post("/v1/jobs", wish).await.is(201)["id"].as_str().unwrap().to_owned();
    let options = api.get(&format!("/v1/jobs/{id}")).await.is(200)["options"].clone();
    assert_eq!(
        options,
        json!({
            "tags": ["red", "big"], "expires_at": "2099-01-01T00:00:00Z", "concurrency_key": "c",
            "release": 1, "timeout_ms": 500,
            "backoff": { "form": "list", "base_ms": 1000, "cap_ms": 3_600_000, "delays_ms": [1, 2],
                         "jitter_percent": 50 },
        })
    );
    api.job("k").await;
    for (query, found) in [
        ("tag=red", 1),
        ("tag=red&tag=big", 1),
        ("tag=red&tag=small", 0),
        ("meta.customer=7", 1),
        ("meta.customer=7&tag=big&kind=k&state=available", 1),
        ("meta.customer=8", 0),
        ("state=available", 2),
    ] {
        let page = api.get(&format!("/v1/jobs?{query}")).await.is(200);
        assert_eq!(page["items"].as_array().unwrap().len(), found, "{query}");
    }
    for (field, value, pointer) in [
        ("tags", json!([""]), ""),
        ("release", json!(9), ""),
        ("timeout_ms", json!(0), ""),
        ("unique", json!({}), ""),
        ("backoff", json!({ "form": "list" }), "/backoff"),
        ("unique", json!({ "key": "a", "until": 1 }), "/unique"),
        ("expires_at", json!("soon"), "/expires_at"),
    ] {
        let mut wish = json!({ "kind": "k" });
        wish[field] = value;
        let answer = api.post("/v1/jobs", wish).await;
        let problem = answer.is_problem(422, "request.invalid");
        let at = problem["errors"][0]["pointer"].as_str().unwrap();
        assert!(at.starts_with(pointer), "{field}: {problem}");
        assert!(!problem["detail"].as_str().unwrap().is_empty(), "{field}: {problem}");
    }
}

#[tokio::test]
async fn a_request_under_an_idempotency_key_is_done_once_for_each_api_key() {
    let api = Api::start().await;
    api.kind("k").await;
    let (mine, other) = (api.key.clone(), api.database.create_key("other").await.unwrap().text);
    let body = json!({ "kind": "k", "payload": 1 });
    let first = api.repeatable("/v1/jobs", &mine, "r-1", &body).await;
    let again = api.repeatable("/v1/jobs", &mine, "r-1", &body).await;
    assert_eq!(first.is(201), again.is(201));
    assert_eq!(first.header("idempotency-replayed"), "");
    assert_eq!(again.header("idempotency-replayed"), "true");
    assert_eq!(again.header("location"), first.header("location"));
    let changed = json!({ "kind": "k", "payload": 2 });
    let problem = api.repeatable("/v1/jobs", &mine, "r-1", &changed).await;
    problem.is_problem(409, "request.repeated");
    let theirs = api.repeatable("/v1/jobs", &other, "r-1", &changed).await.is(201);
    assert_ne!(theirs["id"], first.json()["id"]);
    let batch = json!({ "jobs": [{ "kind": "k" }, { "kind": "k" }] });
    let first = api.repeatable("/v1/jobs/batch", &mine, "r-2", &batch).await.is(201);
    assert_eq!(api.repeatable("/v1/jobs/batch", &mine, "r-2", &batch).await.is(201), first);
    let bytes = api.repeatable("/v1/kinds/k/jobs", &mine, "r-3", &json!([1])).await.is(201);
    let again = api.repeatable("/v1/kinds/k/jobs", &mine, "r-3", &json!([1])).await;
    assert_eq!((again.is(201), again.header("idempotency-replayed")), (bytes, "true"));
    let page = api.get("/v1/jobs").await.is(200);
    assert_eq!(page["items"].as_array().unwrap().len(), 5);
    for bad in ["", "a b", &"x".repeat(256), "ä"] {
        let answer = api.repeatable("/v1/jobs", &mine, bad, &body).await;
        answer.names_parameter("idempotency-key");
    }
}

#[tokio::test]
async fn a_kind_takes_every_form_of_backoff() {
    let api = Api::start().await;
    let list = json!({ "backoff_form": "list", "backoff_delays_ms": [1000, 60000], "backoff_jitter_percent": 0 });
    let kind = api.put("/v1/kinds/k", list.clone()).await.is(201);
    for (field, value) in list.as_object().unwrap() {
        assert_eq!(kind[field], *value);
    }
    // Another form has no list.
    let kind = api.put("/v1/kinds/k", json!({ "backoff_form": "linear" })).await.is(200);
    assert_eq!(
        (&kind["backoff_form"], &kind["backoff_delays_ms"]),
        (&json!("linear"), &Value::Null)
    );
    for (change, pointer) in [
        (json!({ "backoff_form": "list" }), "/backoff_delays_ms"),
        (json!({ "backoff_delays_ms": [1] }), "/backoff_delays_ms"),
        (json!({ "backoff_jitter_percent": 101 }), "/backoff_jitter_percent"),
        (json!({ "backoff_form": "random" }), "/backoff_form"),
    ] {
        api.put("/v1/kinds/k", change).await.points_at(422, "request.invalid", pointer);
    }
}
