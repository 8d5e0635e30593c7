//! The repository checks itself: what a reader relies on and no compiler looks at.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// No hand-written source file is longer; most are far shorter.
const MOST_LINES: usize = 800;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Every file that is committed or about to be.
fn files() -> Vec<PathBuf> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "git lists no files");
    let names = String::from_utf8(output.stdout).unwrap();
    names.lines().map(|name| root().join(name)).filter(|path| path.is_file()).collect()
}

fn has_extension(path: &Path, extensions: &[&str]) -> bool {
    path.extension().and_then(|e| e.to_str()).is_some_and(|e| extensions.contains(&e))
}

/// Written by a program from something that is reviewed.
fn is_generated(path: &Path) -> bool {
    path.ends_with("sdk/rust/src/bindings.rs")
}

#[test]
fn no_source_file_is_too_long_to_hold_in_the_head() {
    for path in files() {
        if has_extension(&path, &["rs", "sql"]) && !is_generated(&path) {
            let lines = std::fs::read_to_string(&path).unwrap().lines().count();
            assert!(lines <= MOST_LINES, "{} has {lines} lines", path.display());
        }
    }
}

#[test]
fn statements_stand_in_the_queue_crate_only() {
    for path in files() {
        let text = path.to_string_lossy().into_owned();
        let elsewhere = text.contains("/runner/") && !text.contains("/runner/queue/");
        if !elsewhere || !has_extension(&path, &["rs"]) || text.contains("/tests") {
            continue;
        }
        let source = std::fs::read_to_string(&path).unwrap();
        assert!(!source.contains("sqlx::"), "{text} speaks to the driver");
    }
}

#[test]
fn no_binary_is_committed() {
    for path in files() {
        assert!(
            !has_extension(&path, &["wasm", "cwasm", "so", "o", "png", "jpg"]),
            "{}",
            path.display()
        );
    }
}

#[test]
fn no_unfinished_mark_is_left() {
    let marks = [["to", "do!("].concat(), ["unimple", "mented!("].concat(), ["FIX", "ME"].concat()];
    for path in files() {
        if has_extension(&path, &["rs", "sql", "sh"]) && !is_generated(&path) {
            let source = std::fs::read_to_string(&path).unwrap();
            for mark in &marks {
                assert!(!source.contains(mark.as_str()), "{} holds {mark}", path.display());
            }
        }
    }
}

#[test]
fn the_contract_is_the_one_that_the_kit_was_made_from() {
    let wit = std::fs::read_to_string(root().join("sdk/wit/handler.wit")).unwrap();
    assert!(wit.contains("package stokehold:job@0.1."), "the contract's version is 0.1");
}
