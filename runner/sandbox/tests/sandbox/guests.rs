//! Guests for tests: assembled from text, wrapped in the contract where they follow it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use stokehold_domain::{Attempt, Blob, ClaimToken, Digest, JobId, Limits};
use stokehold_sandbox::{Control, Handler, Report, Sandbox, SandboxConfig};
use wit_component::StringEncoding;
use wit_parser::Resolve;

/// A sandbox for one test.
pub(crate) fn sandbox(config: SandboxConfig) -> Sandbox {
    Sandbox::start(config).unwrap()
}

/// Small, so that many tests fit on one machine.
pub(crate) fn small() -> SandboxConfig {
    SandboxConfig { slots: 16, guest_threads: 2, ..SandboxConfig::default() }
}

/// The attempt that test guests are told about.
pub(crate) fn attempt(payload: &[u8]) -> Attempt {
    Attempt {
        job_id: JobId(7),
        token: ClaimToken(70),
        attempt: 2,
        max_attempts: 5,
        ..Attempt::local("test.case", Blob::json(payload), 1_700_000_000_000)
    }
}

/// Limits that no well-behaved test guest meets.
pub(crate) fn ample() -> Limits {
    Limits { fuel: Limits::CEILING.fuel, ..Limits::DEFAULT }
}

/// Puts the contract's type into a core module, as wit-bindgen does.
pub(crate) fn with_contract(mut module: Vec<u8>, world: &str) -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../sdk/wit");
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(folder).unwrap();
    let world = resolve.select_world(&[package], Some(world)).unwrap();
    wit_component::embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)
        .unwrap();
    module
}

/// Compiles a guest given as text.
pub(crate) async fn load(sandbox: &Sandbox, text: &str) -> Handler {
    load_bytes(sandbox, &wat::parse_str(text).unwrap()).await
}

pub(crate) async fn load_bytes(sandbox: &Sandbox, bytes: &[u8]) -> Handler {
    sandbox.load(Digest(Sha256::digest(bytes).into()), bytes).await.unwrap()
}

/// Runs to the end with nothing in its way.
pub(crate) async fn run(sandbox: &Sandbox, handler: &Handler, limits: &Limits) -> Report {
    sandbox.run(handler, attempt(b"null"), limits, Control::new()).await
}

/// Waits until the sandbox holds nothing, and fails if that never comes.
pub(crate) async fn idle(sandbox: &Sandbox) {
    let waited = tokio::time::timeout(Duration::from_secs(5), async {
        while !sandbox.pool_metrics().is_idle() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    assert!(waited.await.is_ok(), "still held: {:?}", sandbox.pool_metrics());
}

/// Waits until a guest has logged something, which shows that it runs.
pub(crate) async fn started(control: &Control) {
    let waited = tokio::time::timeout(Duration::from_secs(5), async {
        while control.take_new_lines().is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    waited.await.unwrap();
}

/// A number no other guest of this process has, to make modules differ.
pub(crate) fn unique() -> u8 {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Logs "up" and then never ends.
pub(crate) const SPINNER: &str = r#"(module
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "\40\00\00\00\03\00\00\00")
  (data (i32.const 64) "up\0a")
  (func (export "_start")
    (drop (call $write (i32.const 2) (i32.const 0) (i32.const 1) (i32.const 16)))
    (loop (br 0))))"#;

/// Logs "up" and then sleeps for an hour.
pub(crate) const SLEEPER: &str = r#"(module
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "\40\00\00\00\03\00\00\00")
  (data (i32.const 64) "up\0a")
  (func (export "_start")
    (drop (call $write (i32.const 2) (i32.const 0) (i32.const 1) (i32.const 16)))
    (i32.store (i32.const 1040) (i32.const 1))
    (i64.store (i32.const 1048) (i64.const 3600000000000))
    (drop (call $poll (i32.const 1024) (i32.const 2048) (i32.const 1) (i32.const 4096)))))"#;

/// Does nothing.
pub(crate) const NOOP: &str = r#"(module (memory (export "memory") 1) (func (export "_start")))"#;
