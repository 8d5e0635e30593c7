//! What goes wrong outside any one handler reads like every other problem, and tells no secrets.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Method, Request, header};
use axum::middleware;
use axum::routing::get;
use futures::{StreamExt, stream};
use sqlx::postgres::PgConnectOptions;
use stokehold_queue::{Database, DatabaseOptions};

use super::harness::{Answer, Api, answer, sandbox};
use crate::{ApiState, MAX_REQUESTS, rim, server};

/// A server whose database is nowhere.
fn lost() -> ApiState {
    let nowhere = PgConnectOptions::new().host("/nonexistent-secret-place").username("u");
    let options = DatabaseOptions {
        call_deadline: Duration::from_millis(300),
        ..DatabaseOptions::new(nowhere)
    };
    ApiState::new(Database::lazy(options), sandbox())
}

async fn get_from(state: ApiState, path: &str) -> Answer {
    let request = Request::get(path).header(header::AUTHORIZATION, key_text());
    answer(crate::router(state), request.body(Body::empty()).unwrap()).await
}

fn key_text() -> String {
    format!("Bearer {}", Database::new_key_text())
}

#[tokio::test]
async fn an_unknown_path_and_a_wrong_method_are_problems_with_or_without_a_key() {
    let api = Api::start().await;
    for path in
        ["/", "/v1", "/v1/nope", "/v1/jobs/", "/v1/jobs/1/nope", "/v2/jobs", "/%00", "/v1//jobs"]
    {
        api.get(path).await.is_problem(404, "route.unknown");
        let request = Request::get(path).body(Body::empty()).unwrap();
        api.send(request).await.is_problem(404, "route.unknown");
    }
    for (method, path, allow) in [
        (Method::DELETE, "/v1/jobs", "GET"),
        (Method::PATCH, "/v1/kinds/a", "PUT"),
        (Method::OPTIONS, "/v1/jobs", "POST"),
        (Method::POST, "/healthz", "GET"),
        (Method::GET, "/v1/keys", "POST"),
    ] {
        let answer = api.call(method, path, None, Body::empty()).await;
        answer.is_problem(405, "route.method");
        assert!(answer.header("allow").contains(allow), "{}", answer.header("allow"));
    }
}

#[tokio::test]
async fn the_requests_id_is_taken_when_it_is_harmless_and_made_up_when_not() {
    let api = Api::start().await;
    let with_id = async |id: &[u8]| {
        let request = Request::get("/v1/nope").header("x-request-id", id).body(Body::empty());
        api.send(request.unwrap()).await.header("x-request-id").to_owned()
    };
    assert_eq!(with_id(b"a-B.7_z").await, "a-B.7_z");
    for odd in [&b""[..], b"a b", b"<b>", b"\xff", b"a\"b", &[b'x'; 65]] {
        let made = with_id(odd).await;
        assert!(made.len() == 32 && made.bytes().all(|b| b.is_ascii_hexdigit()), "{made}");
    }
    assert_ne!(with_id(b"").await, with_id(b"").await);
}

#[tokio::test]
async fn a_body_over_the_limit_of_its_route_is_told_the_limit() {
    let api = Api::start().await;
    let json_type = Some("application/json");
    for (path, most) in [
        ("/v1/jobs", 2_usize << 20),
        ("/v1/keys", 2 << 20),
        ("/v1/kinds/a/activate", 2 << 20),
        ("/v1/jobs/1/cancel", 2 << 20),
        ("/v1/jobs/batch", 64 << 20),
    ] {
        let chunk = vec![b' '; 1 << 20];
        let endless = stream::repeat_with(move || Ok::<_, std::io::Error>(chunk.clone()));
        let chunks = Body::from_stream(endless.take((most >> 20) + 1));
        let streamed = api.call(Method::POST, path, json_type, chunks).await;
        let announced = api.call(Method::POST, path, json_type, vec![b' '; most + 1]).await;
        for answer in [streamed, announced] {
            let problem = answer.is_problem(413, "request.too-large");
            assert!(problem["detail"].as_str().unwrap().contains(&most.to_string()), "{problem}");
        }
    }
}

#[tokio::test]
async fn a_body_that_breaks_off_is_a_problem_of_the_request() {
    let api = Api::start().await;
    let broken = stream::iter([Ok(b"{\"ki".to_vec()), Err(std::io::Error::other("secret-cause"))]);
    let body = Body::from_stream(broken);
    let answer = api.call(Method::POST, "/v1/jobs", Some("application/json"), body).await;
    answer.is_problem(400, "request.body");
    assert!(!answer.text().contains("secret"), "{}", answer.text());
}

#[tokio::test]
async fn a_panic_is_answered_without_its_text() {
    let api = Api::start().await;
    let routes = Router::new()
        .route("/panic", get(|| async { panic!("secret text") as () }))
        .route("/framework", get(|| async { axum::http::StatusCode::UNPROCESSABLE_ENTITY }));
    let router = server::around(routes, api.state.clone());
    for path in ["/panic", "/framework"] {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let answer = answer(router.clone(), request).await;
        answer.is_problem(500, "server.internal");
        assert!(!answer.text().contains("secret"), "{}", answer.text());
    }
}

#[tokio::test]
async fn a_request_over_its_time_is_ended() {
    let api = Api::start().await;
    let limit = middleware::from_fn_with_state(Duration::from_millis(20), rim::time_limit);
    let routes = Router::new().route("/slow", get(std::future::pending::<()>)).route_layer(limit);
    let router = server::around(routes, api.state.clone());
    let request = Request::get("/slow").body(Body::empty()).unwrap();
    answer(router, request).await.is_problem(408, "request.timeout");
}

#[tokio::test]
async fn too_many_requests_at_once_are_told_to_come_again_and_the_process_still_counts_as_alive() {
    let api = Api::start().await;
    assert_eq!(api.state.requests.forget_permits(MAX_REQUESTS), MAX_REQUESTS);
    let busy = api.get("/v1/jobs").await;
    busy.is_problem(503, "server.busy");
    assert_eq!(busy.header("retry-after"), "1");
    api.get("/healthz").await.is(200);
}

#[tokio::test]
async fn a_database_that_is_away_makes_503_and_nothing_of_it_is_told() {
    for path in ["/v1/jobs", "/v1/kinds/a", "/readyz"] {
        let answer = get_from(lost(), path).await;
        answer.is_problem(503, "database.unavailable");
        assert_eq!(answer.header("retry-after"), "2");
        for secret in ["secret", "select", "sqlx", "/nonexistent", "pool", "socket"] {
            assert!(!answer.text().to_lowercase().contains(secret), "{}", answer.text());
        }
    }
    get_from(lost(), "/healthz").await.is(200);
}

#[tokio::test]
async fn an_empty_database_is_not_ready_and_says_what_to_do() {
    let api = Api::start().await;
    let ready = api.get("/readyz").await.is(200);
    assert_eq!(ready["schema_version"], stokehold_queue::migrate::newest_version());
    api.sql("delete from stokehold.migrations").await;
    let answer = api.get("/readyz").await;
    let problem = answer.is_problem(503, "database.schema");
    assert!(problem["detail"].as_str().unwrap().contains("stokehold migrate"), "{problem}");
}

#[tokio::test]
async fn a_fault_in_the_database_is_ours_and_tells_no_sql() {
    let api = Api::start().await;
    api.sql("drop table stokehold.job_history cascade").await;
    let answer = api.get("/v1/jobs").await;
    answer.is_problem(500, "server.internal");
    for secret in ["job_history", "relation", "select", "sqlx", "statement"] {
        assert!(!answer.text().contains(secret), "{}", answer.text());
    }
}

#[tokio::test]
async fn a_problem_reads_well_as_a_whole() {
    let api = Api::start().await;
    let body = serde_json::json!({ "kind": "nope" });
    let mut problem =
        api.post("/v1/jobs/batch", serde_json::json!({ "jobs": [body] })).await.json();
    problem["instance"] = "(id of the request)".into();
    insta::assert_snapshot!("problem", serde_json::to_string_pretty(&problem).unwrap());
}
