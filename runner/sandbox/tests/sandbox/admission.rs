//! What admission reports, and what loading makes of it.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};
use stokehold_domain::{Digest, EngineLimits};
use stokehold_sandbox::{Abi, Admission, Sandbox, SandboxConfig};

use crate::guests::{self, NOOP};

#[test]
fn a_command_is_recognised_and_its_imports_are_inert() {
    let sandbox = guests::sandbox(guests::small());
    let bytes = wat::parse_str(guests::SPINNER).unwrap();
    let admission = sandbox.admit(&bytes).unwrap();
    assert_eq!(admission.abi, Abi::Command);
    assert_eq!(admission.imports, ["standard library, inert (wasi_snapshot_preview1)"]);
    assert_eq!(admission.size_bytes, bytes.len() as u64);
    assert_eq!(admission.initial_memory_bytes, 64 << 10);
    let text = serde_json::to_string(&admission).unwrap();
    assert!(text.contains(r#""abi":"command""#), "{text}");
    assert_eq!(serde_json::from_str::<Admission>(&text).unwrap(), admission);
}

#[tokio::test]
async fn a_core_module_with_the_contract_becomes_a_component() {
    let sandbox = guests::sandbox(guests::small());
    let text = include_str!("../cases/typed-progress/guest.wat");
    let module = guests::with_contract(wat::parse_str(text).unwrap(), "standard");
    let admission = sandbox.admit(&module).unwrap();
    assert_eq!(admission.abi, Abi::Component);
    assert!(admission.componentised);
    assert_eq!(admission.imports, ["stokehold:job/progress", "stokehold:job/types"]);
    // Both what was uploaded and what was made of it can be loaded.
    let component = admission.component_bytes.unwrap();
    for bytes in [&module, &component] {
        let handler = guests::load_bytes(&sandbox, bytes).await;
        assert_eq!(guests::run(&sandbox, &handler, &guests::ample()).await.outcome.code(), "ok");
    }
}

#[test]
fn an_upload_over_the_limit_is_refused_before_it_is_read() {
    let sandbox = guests::sandbox(guests::small());
    let bytes = vec![0; EngineLimits::MODULE_BYTES + 1];
    let refusal = sandbox.admit(&bytes).unwrap_err();
    assert_eq!(refusal.code(), "module.too-large");
    assert!(refusal.to_string().contains("67108865 bytes; at most 67108864"), "{refusal}");
}

#[test]
fn what_would_cost_the_compiler_too_much_is_refused_by_name_and_number() {
    let sandbox = guests::sandbox(guests::small());
    let nested = format!("{}{}", "(block ".repeat(1_001), ")".repeat(1_001));
    let locals = "(local i64)".repeat(10_001);
    let calls = "(call 0)".repeat(50_001);
    let targets = format!("(block (br_table {} (i32.const 0)))", "0 ".repeat(5_002));
    let large = "(drop (i64.const -1))".repeat(400_000);
    for (body, wanted) in [
        (nested, "nested blocks"),
        (locals, "10001 locals"),
        (calls, "50001 call sites"),
        (targets, "targets of a branch table"),
        (large, "bytes in a function"),
    ] {
        let text = format!(r#"(module (func (export "_start") {body}))"#);
        let refusal = sandbox.admit(&wat::parse_str(text).unwrap()).unwrap_err();
        assert_eq!(refusal.code(), "module.structure");
        assert!(refusal.to_string().contains(wanted), "{refusal}");
    }
    let mut many = String::from("(module (func (export \"_start\"))");
    (0..50_000).for_each(|_| many.write_str("(func)").unwrap());
    many.push(')');
    let refusal = sandbox.admit(&wat::parse_str(many).unwrap()).unwrap_err();
    assert!(refusal.to_string().contains("50001 functions"), "{refusal}");
}

#[test]
fn machine_code_is_refused_even_if_wasmtime_made_it() {
    let sandbox = guests::sandbox(guests::small());
    let engine = wasmtime::Engine::default();
    let artifact = engine.precompile_module(&wat::parse_str(NOOP).unwrap()).unwrap();
    assert_eq!(sandbox.admit(&artifact).unwrap_err().code(), "module.precompiled");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_module_asked_for_many_times_at_once_is_compiled_once_and_kept() {
    let sandbox = guests::sandbox(guests::small());
    let bytes = wat::parse_str(NOOP).unwrap();
    let digest = Digest(Sha256::digest(&bytes).into());
    assert!(sandbox.cached(&digest).is_none());
    let loads: Vec<_> = (0..16)
        .map(|_| {
            let (sandbox, bytes) = (sandbox.clone(), bytes.clone());
            tokio::spawn(async move { sandbox.load(digest, &bytes).await.unwrap() })
        })
        .collect();
    for load in loads {
        assert_eq!(load.await.unwrap().digest(), digest);
    }
    assert_eq!(sandbox.cached(&digest).unwrap().abi(), Abi::Command);
}

#[tokio::test]
async fn the_least_recently_used_handler_makes_room() {
    let sandbox = guests::sandbox(SandboxConfig { code_cache_bytes: 100_000, ..guests::small() });
    let mut digests = Vec::new();
    for _ in 0..20 {
        let n = guests::unique();
        let text = format!(r#"(module (global i32 (i32.const {n})) (func (export "_start")))"#);
        digests.push(guests::load(&sandbox, &text).await.digest());
    }
    let kept: Vec<bool> = digests.iter().map(|digest| sandbox.cached(digest).is_some()).collect();
    assert!(kept[19] && !kept[0], "{kept:?}");
}

#[test]
fn a_setting_outside_its_range_is_refused_with_its_name_and_numbers() {
    let refused = |config| Sandbox::start(config).unwrap_err().to_string();
    let none = refused(SandboxConfig { slots: 0, ..guests::small() });
    assert!(none.contains("slots is 0: 1 to 10000"), "{none}");
    let many = refused(SandboxConfig { slots: 10_000, ..guests::small() });
    assert!(many.contains("10000 attempts at once") && many.contains("GiB"), "{many}");
    let nowhere = Some("/nowhere/guests.jsonl".into());
    let file = refused(SandboxConfig { guest_log_file: nowhere, ..guests::small() });
    assert!(file.contains("/nowhere/guests.jsonl"), "{file}");
}
