//! Where the guest was when it ended, in names that its author knows.

use stokehold_domain::problem::clean;
use wasmtime::{Error, WasmBacktrace};

/// Frames that are kept.
const MAX_FRAMES: usize = 16;
/// Bytes of one frame that are kept.
const MAX_FRAME_BYTES: usize = 240;

/// Starts of names that belong to a language's runtime and say nothing about the handler.
const RUNTIME: [&str; 21] = [
    "std::",
    "<std::",
    "core::",
    "<core::",
    "alloc::",
    "<alloc::",
    "__rust",
    "rust_",
    "_start",
    "__main_void",
    "__original_main",
    "main.command_export",
    "panic_abort",
    "abort",
    "dlmalloc",
    "__wasm_call",
    "cabi_",
    "_initialize",
    "__assert",
    "__wasi_",
    "runtime.",
];

/// The guest's frames, innermost first, demangled; those of the language's runtime are left out
/// unless there are no others.
pub(crate) fn frames(error: &Error) -> Vec<String> {
    let Some(trace) = error.downcast_ref::<WasmBacktrace>() else { return Vec::new() };
    let all: Vec<(bool, String)> = trace
        .frames()
        .iter()
        .map(|frame| {
            let name = match frame.func_name() {
                Some(name) => format!("{:#}", rustc_demangle::demangle(name)),
                None => format!("function {}", frame.func_index()),
            };
            let offset = frame.module_offset().map(|at| format!(" at {at:#x}")).unwrap_or_default();
            let is_runtime = RUNTIME.iter().any(|start| name.starts_with(start));
            (is_runtime, clean(&format!("{name}{offset}"), MAX_FRAME_BYTES))
        })
        .collect();
    let own_code = all.iter().any(|(is_runtime, _)| !is_runtime);
    let kept = all.into_iter().filter(|(is_runtime, _)| !(own_code && *is_runtime));
    kept.map(|(_, text)| text).take(MAX_FRAMES).collect()
}
