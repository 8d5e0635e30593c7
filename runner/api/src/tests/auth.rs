//! Who gets in.

use axum::body::Body;
use axum::http::{Method, Request, header};
use serde_json::json;

use super::description::operations;
use super::harness::{Answer, Api};

/// A path with something in each of its variable segments.
fn concrete(path: &str) -> String {
    let digest = "0".repeat(64);
    path.replace("{id}", "1")
        .replace("{kind}", "a")
        .replace("{schedule}", "a")
        .replace("{digest}", &digest)
}

async fn with_authorization(api: &Api, method: &Method, path: &str, value: &[u8]) -> Answer {
    let request = Request::builder().method(method).uri(path).header(header::AUTHORIZATION, value);
    api.send(request.body(Body::empty()).unwrap()).await
}

#[tokio::test]
async fn no_described_route_opens_without_a_known_key() {
    let api = Api::start().await;
    let other = stokehold_queue::Database::new_key_text();
    let mine = &api.key;
    let bad = [
        "".to_owned(),
        "Bearer".to_owned(),
        "Bearer ".to_owned(),
        "Bearer null".to_owned(),
        format!("Bearer {other}"),
        format!("Bearer {mine}x"),
        format!("Bearer {}", mine.to_uppercase()),
        format!("Basic {mine}"),
        mine.clone(),
        // The right prefix with another's secret.
        format!("Bearer {}{}", &mine[..15], &other[15..]),
        format!("Bearer {}", "x".repeat(10_000)),
        "Bearer sth_'; drop table stokehold.jobs; --".to_owned(),
    ];
    let keyed: Vec<_> = operations().iter().filter(|operation| operation.wants_key).collect();
    assert_eq!(keyed.len(), 37, "{keyed:?}");
    let mut bodies = std::collections::HashSet::new();
    for operation in &keyed {
        let path = concrete(&operation.path);
        for value in &bad {
            let answer = with_authorization(&api, &operation.method, &path, value.as_bytes()).await;
            let mut problem = answer.is_problem(401, "auth.key");
            assert_eq!(answer.header("www-authenticate"), "Bearer realm=\"stokehold\"");
            problem["instance"] = json!(null);
            bodies.insert(problem.to_string());
        }
        let request = Request::builder().method(&operation.method).uri(&path);
        api.send(request.body(Body::empty()).unwrap()).await.is_problem(401, "auth.key");
        let binary = with_authorization(&api, &operation.method, &path, b"Bearer \xff\xfe").await;
        binary.is_problem(401, "auth.key");
    }
    assert_eq!(bodies.len(), 1, "the answer tells apart why a key is refused: {bodies:?}");
}

#[tokio::test]
async fn open_routes_need_no_key_and_the_scheme_may_be_written_in_any_case() {
    let api = Api::start().await;
    let open: Vec<_> = operations().iter().filter(|operation| !operation.wants_key).collect();
    assert_eq!(open.len(), 2, "{open:?}");
    for operation in open {
        let request = Request::builder().method(&operation.method).uri(&operation.path);
        api.send(request.body(Body::empty()).unwrap()).await.is(200);
    }
    let request = Request::get("/openapi.json").body(Body::empty()).unwrap();
    assert_eq!(api.send(request).await.is(200)["openapi"], "3.1.0");
    let value = format!("bEaReR {}", api.key);
    with_authorization(&api, &Method::GET, "/v1/kinds", value.as_bytes()).await.is(200);
}

#[tokio::test]
async fn a_new_key_is_shown_once_opens_at_once_and_closes_when_revoked() {
    let api = Api::start().await;
    let answer = api.post("/v1/keys", json!({ "name": "bot" })).await;
    let made = answer.is(201);
    let key = made["key"].as_str().unwrap();
    assert!(key.starts_with(&format!("sth_{}_", made["prefix"].as_str().unwrap())));
    let value = format!("Bearer {key}");
    with_authorization(&api, &Method::GET, "/v1/kinds", value.as_bytes()).await.is(200);
    api.sql("update stokehold.api_keys set revoked_at = clock_timestamp() where name = 'bot'")
        .await;
    let answer = with_authorization(&api, &Method::GET, "/v1/kinds", value.as_bytes()).await;
    answer.is_problem(401, "auth.key");
    for name in ["", "Bot", "../bot", "b\0t", "<b>"] {
        let answer = api.post("/v1/keys", json!({ "name": name })).await;
        answer.points_at(422, "request.invalid", "/name");
    }
}
