//! Uploads.

use std::path::Path;

use axum::body::Body;
use axum::http::Method;
use futures::{StreamExt, stream};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use stokehold_domain::{Digest, EngineLimits};

use super::harness::{Answer, Api, NOTHING};

async fn upload(api: &Api, bytes: impl Into<Body>) -> Answer {
    api.call(Method::PUT, "/v1/modules", Some("application/wasm"), bytes).await
}

#[tokio::test]
async fn an_upload_is_stored_once_under_the_digest_of_its_bytes() {
    let api = Api::start().await;
    let bytes = wat::parse_str(NOTHING).unwrap();
    let digest = Digest(Sha256::digest(&bytes).into()).to_string();
    let first = upload(&api, bytes.clone()).await;
    let module = first.is(201);
    assert_eq!(first.header("location"), format!("/v1/modules/{digest}"));
    assert_eq!(module["digest"], digest);
    assert_eq!(module["abi"], "command");
    assert_eq!(module["size_bytes"], bytes.len());
    assert_eq!((&module["new"], &module["releases"]), (&json!(true), &json!(0)));
    let second = upload(&api, bytes).await.is(200);
    assert_eq!(second["new"], false);
    assert_eq!(second["created_at"], module["created_at"]);
    let list = api.get("/v1/modules").await.is(200);
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    let one = api.get(&format!("/v1/modules/sha256:{digest}")).await.is(200);
    assert_eq!(one, list["items"][0]);
    let absent = "0".repeat(64);
    api.get(&format!("/v1/modules/{absent}")).await.is_problem(404, "module.unknown");
    api.get("/v1/modules/xyz").await.names_parameter("digest");
}

#[tokio::test]
async fn a_core_module_with_component_metadata_is_stored_as_its_component_each_time_the_same() {
    let api = Api::start().await;
    let module = with_contract(wat::parse_str(TYPED).unwrap());
    let first = upload(&api, module.clone()).await.is(201);
    let second = upload(&api, module.clone()).await.is(200);
    assert_eq!(first["digest"], second["digest"]);
    assert_eq!(first["abi"], "component");
    let uploaded = Digest(Sha256::digest(&module).into());
    assert_eq!(first["report"]["digest"], uploaded.to_string());
    assert_ne!(first["digest"], first["report"]["digest"]);
    let digest: Digest = first["digest"].as_str().unwrap().parse().unwrap();
    let stored = api.database.module_bytes(digest).await.unwrap().unwrap();
    assert_eq!(Digest(Sha256::digest(&stored).into()), digest);
    // The component itself is the same module.
    assert_eq!(upload(&api, stored).await.is(200)["digest"], first["digest"]);
}

#[tokio::test]
async fn what_cannot_run_is_refused_by_name_and_leaves_nothing_behind() {
    let api = Api::start().await;
    let wat = |text: &str| wat::parse_str(text).unwrap();
    let mut cut = wat(NOTHING);
    cut.truncate(cut.len() - 1);
    let cases: [(Vec<u8>, &str, &str); 8] = [
        (b"".to_vec(), "module.not-wasm", "an empty file"),
        (b"\x7fELF\x02\x01\x01".to_vec(), "module.not-wasm", "ELF"),
        (b"(module)".to_vec(), "module.not-wasm", "text"),
        (b"<script>alert(1)</script>".to_vec(), "module.not-wasm", "something else"),
        (cut, "module.invalid", "byte"),
        (wat("(module)"), "contract.export", "_start"),
        (
            wat(r#"(module (import "env" "steal" (func)) (memory (export "memory") 1)
                 (func (export "_start")))"#),
            "contract.import",
            "steal",
        ),
        (
            wat(r#"(module (memory (export "memory") 1 1 shared) (func (export "_start")))"#),
            "module.unsupported-proposal",
            "thread",
        ),
    ];
    for (bytes, code, word) in cases {
        let answer = upload(&api, bytes).await;
        let problem = answer.is_problem(422, code);
        assert!(problem["detail"].as_str().unwrap().contains(word), "{problem}");
    }
    assert_eq!(api.get("/v1/modules").await.is(200)["items"], json!([]));
}

#[tokio::test]
async fn an_upload_over_the_limit_is_told_the_limit_whether_or_not_it_announced_its_size() {
    let api = Api::start().await;
    let most = EngineLimits::MODULE_BYTES;
    let chunk = vec![0_u8; 1 << 20];
    let endless = stream::repeat_with(move || Ok::<_, std::io::Error>(chunk.clone()));
    let chunks = endless.take((most >> 20) + 1);
    let announced = upload(&api, vec![0_u8; most + 1]).await;
    let streamed = upload(&api, Body::from_stream(chunks)).await;
    for answer in [announced, streamed] {
        let problem = answer.is_problem(413, "module.too-large");
        assert!(problem["detail"].as_str().unwrap().contains("67108864"), "{problem}");
    }
}

#[tokio::test]
async fn pruning_names_what_no_release_runs_and_deletes_it_unless_dry() {
    let api = Api::start().await;
    api.kind("used").await;
    let unused = r#"(module (memory (export "memory") 2) (func (export "_start")))"#;
    let unused = api.upload(unused).await;
    let prune = |body| api.post("/v1/modules/prune", body);
    let young = prune(json!({ "older_than_s": 3600 })).await.is(200);
    assert_eq!(young, json!({ "digests": [], "dry_run": false }));
    let dry = prune(json!({ "older_than_s": 0, "dry_run": true })).await.is(200);
    assert_eq!(dry, json!({ "digests": [unused], "dry_run": true }));
    let done = prune(json!({ "older_than_s": 0 })).await.is(200);
    assert_eq!(done["digests"], json!([unused]));
    api.get(&format!("/v1/modules/{unused}")).await.is_problem(404, "module.unknown");
    assert_eq!(api.get("/v1/modules").await.is(200)["items"][0]["releases"], 1);
    prune(json!({ "older_than_s": u64::MAX })).await.is(200);
    prune(json!({ "older_than_s": -1 })).await.points_at(422, "request.invalid", "/older_than_s");
    prune(json!({})).await.is_problem(422, "request.invalid");
}

/// A handler of the typed contract that returns nothing.
const TYPED: &str = r#"(module
  (memory (export "memory") 1)
  (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 1024))
  (func (export "stokehold:job/handler@0.1.0#handle")
    (param i64 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
    (i32.const 16)))"#;

fn with_contract(mut module: Vec<u8>) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sdk/wit");
    let mut resolve = wit_parser::Resolve::default();
    let (package, _) = resolve.push_dir(folder).unwrap();
    let world = resolve.select_world(&[package], Some("pure")).unwrap();
    let utf8 = wit_component::StringEncoding::UTF8;
    wit_component::embed_component_metadata(&mut module, &resolve, world, utf8).unwrap();
    module
}
