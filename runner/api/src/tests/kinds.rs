//! Kinds, releases, and which of them runs.

use axum::body::Body;
use axum::http::Method;
use serde_json::{Value, json};

use super::harness::{Api, NOTHING};

const OTHER: &str = r#"(module (memory (export "memory") 3) (func (export "_start")))"#;

#[tokio::test]
async fn a_kind_keeps_what_a_change_leaves_out() {
    let api = Api::start().await;
    let path = "/v1/kinds/image.resize";
    api.get(path).await.is_problem(404, "kind.unknown");
    let made = api.put(path, json!({ "queue": "images", "max_attempts": 3 })).await;
    assert_eq!(made.header("location"), path);
    let mut kind = made.is(201);
    assert_eq!((&kind["queue"], &kind["max_attempts"]), (&json!("images"), &json!(3)));
    assert_eq!((&kind["priority"], &kind["backoff_base_ms"]), (&json!(0), &json!(1000)));
    let change = json!({ "priority": -5, "backoff_base_ms": 10, "backoff_cap_ms": 20 });
    let changed = api.put(path, change).await.is(200);
    kind["priority"] = json!(-5);
    kind["backoff_base_ms"] = json!(10);
    kind["backoff_cap_ms"] = json!(20);
    assert_eq!(changed, kind);
    // No body at all changes nothing.
    assert_eq!(api.call(Method::PUT, path, None, Body::empty()).await.is(200), kind);
    assert_eq!(api.get(path).await.is(200), kind);
    assert_eq!(api.get("/v1/kinds").await.is(200)["items"], json!([kind]));
}

#[tokio::test]
async fn a_policy_outside_its_ranges_is_refused_at_its_field() {
    let api = Api::start().await;
    for (body, pointer) in [
        (json!({ "queue": "../etc" }), "/queue"),
        (json!({ "queue": "a\0" }), "/queue"),
        (json!({ "priority": 1001 }), "/priority"),
        (json!({ "priority": -1001 }), "/priority"),
        (json!({ "priority": "high" }), "/priority"),
        (json!({ "max_attempts": 0 }), "/max_attempts"),
        (json!({ "max_attempts": 1001 }), "/max_attempts"),
        (json!({ "backoff_base_ms": -1 }), "/backoff_base_ms"),
        (json!({ "backoff_base_ms": u64::MAX }), "/backoff_base_ms"),
        (json!({ "backoff_cap_ms": 2_592_000_001_u64 }), "/backoff_cap_ms"),
        (json!({ "max_atempts": 1 }), "/max_atempts"),
    ] {
        let answer = api.put("/v1/kinds/a", body).await;
        answer.points_at(422, "request.invalid", pointer);
    }
    assert_eq!(api.get("/v1/kinds").await.is(200)["items"], json!([]));
}

#[tokio::test]
async fn names_that_could_be_paths_or_markup_are_refused_in_every_path() {
    let api = Api::start().await;
    let long = "x".repeat(64);
    for bad in ["..%2Fx", "%2e%2e%2fx", "A", ".a", "a%00", "a%20b", "%3Cb%3E", "%C3%A9", &long] {
        for (method, rest) in [
            (Method::GET, ""),
            (Method::PUT, ""),
            (Method::GET, "/releases"),
            (Method::POST, "/releases"),
            (Method::POST, "/activate"),
            (Method::POST, "/jobs"),
        ] {
            let path = format!("/v1/kinds/{bad}{rest}");
            let answer = api.call(method, &path, Some("application/json"), "{}").await;
            answer.names_parameter("kind");
        }
    }
    // Not UTF-8: there is no name to speak of.
    api.get("/v1/kinds/%ff%fe").await.is_problem(400, "request.parameter");
}

#[tokio::test]
async fn releases_count_up_and_activation_rolls_back_and_forward() {
    let api = Api::start().await;
    api.put("/v1/kinds/k", json!({})).await.is(201);
    let (one, two) = (api.upload(NOTHING).await, api.upload(OTHER).await);
    let releases = "/v1/kinds/k/releases";
    let first = json!({ "digest": one, "limits": { "fuel": 5, "timeout_ms": 1000 } });
    let first = api.post(releases, first).await.is(201);
    assert_eq!((&first["number"], &first["active"]), (&json!(1), &json!(true)));
    assert_eq!((&first["kind"], &first["digest"]), (&json!("k"), &json!(one)));
    // What is not said of the limits has its default.
    assert_eq!(
        (&first["limits"]["fuel"], &first["limits"]["host_calls"]),
        (&json!(5), &json!(100_000))
    );
    let quiet = json!({ "digest": two, "activate": false });
    let second = api.post(releases, quiet).await.is(201);
    assert_eq!((&second["number"], &second["active"]), (&json!(2), &json!(false)));
    assert_eq!(api.get("/v1/kinds/k").await.is(200)["active_release"], 1);

    api.post("/v1/kinds/k/activate", json!({ "release": 2 })).await.is(200);
    let list = api.get(releases).await.is(200);
    assert_eq!(
        (&list["items"][0]["number"], &list["items"][0]["active"]),
        (&json!(2), &json!(true))
    );
    assert_eq!(list["items"][1]["active"], false);
    let back = api.post("/v1/kinds/k/activate", json!({ "release": 1 })).await.is(200);
    assert_eq!(back["active_release"], 1);
    // New attempts run what is active now.
    api.job("k").await;
    assert_eq!(api.runner().await.claim(1).await[0].release, 1);
}

#[tokio::test]
async fn a_release_of_what_is_not_there_is_refused_by_name() {
    let api = Api::start().await;
    let digest = api.upload(NOTHING).await;
    let release = json!({ "digest": digest });
    for path in ["/v1/kinds/nope/releases", "/v1/kinds/nope/activate"] {
        let body =
            if path.ends_with("releases") { release.clone() } else { json!({ "release": 1 }) };
        api.post(path, body).await.is_problem(404, "kind.unknown");
    }
    api.get("/v1/kinds/nope/releases").await.is_problem(404, "kind.unknown");
    api.put("/v1/kinds/k", json!({})).await.is(201);
    let absent = json!({ "digest": "0".repeat(64) });
    api.post("/v1/kinds/k/releases", absent).await.is_problem(404, "module.unknown");
    let activate = json!({ "release": 1 });
    api.post("/v1/kinds/k/activate", activate).await.is_problem(404, "release.unknown");
    for (body, pointer) in [
        (json!({ "digest": "xyz" }), "/digest"),
        (json!({ "digest": digest, "limits": { "fuel": 0 } }), "/limits/fuel"),
        (json!({ "digest": digest, "limits": { "fule": 1 } }), "/limits/fule"),
        (
            json!({ "digest": digest, "limits": { "memory_bytes": 2_u64 << 30 } }),
            "/limits/memory_bytes",
        ),
        (json!({ "digest": digest, "limits": { "timeout_ms": -1 } }), "/limits/timeout_ms"),
    ] {
        let answer = api.post("/v1/kinds/k/releases", body).await;
        answer.points_at(422, "request.invalid", pointer);
    }
}

#[tokio::test]
async fn limits_are_set_shown_taken_away_and_refused_by_name() {
    let api = Api::start().await;
    let limits = json!({
        "max_running": 4, "max_running_per_key": 1, "keeps_order": true,
        "rate": { "starts": 5, "per_ms": 1000, "burst": 2 },
        "key_rate": { "starts": 1, "per_ms": 60000 },
    });
    let kind = api.put("/v1/kinds/k", limits.clone()).await.is(201);
    for (field, value) in limits.as_object().unwrap() {
        let mut value = value.clone();
        if field == "key_rate" {
            value["burst"] = json!(1);
        }
        assert_eq!(kind[field], value, "{field}");
    }
    // What is absent stays, null takes away.
    let kind = api.put("/v1/kinds/k", json!({ "rate": null, "priority": 1 })).await.is(200);
    assert_eq!((&kind["rate"], &kind["max_running"]), (&Value::Null, &json!(4)));
    let away = json!({ "max_running": null, "keeps_order": false, "max_running_per_key": null, "key_rate": null });
    let kind = api.put("/v1/kinds/k", away).await.is(200);
    for field in limits.as_object().unwrap().keys() {
        assert_eq!(kind[field], Value::Null, "{field}");
    }
    for (change, pointer) in [
        (json!({ "max_running": 0 }), "/max_running"),
        (json!({ "max_running_per_key": 1_000_001 }), "/max_running_per_key"),
        (json!({ "keeps_order": true }), "/max_running_per_key"),
        (json!({ "keeps_order": true, "max_running_per_key": 2 }), "/max_running_per_key"),
        (json!({ "rate": { "starts": 1, "per_ms": 0 } }), "/rate/per_ms"),
        (json!({ "key_rate": { "starts": 0, "per_ms": 1 } }), "/key_rate/starts"),
    ] {
        api.put("/v1/kinds/k", change).await.points_at(422, "request.invalid", pointer);
    }
}
