//! Which WebAssembly proposals are offered: an allow-list, because a list of exclusions goes stale
//! with every upgrade of the engine. The gate and the engine read the same list.

use wasmparser::WasmFeatures;

/// What handlers may use. Multi-memory is absent although the engine turns it on for the adapters
/// that it makes itself.
pub(crate) const OFFERED: WasmFeatures = WasmFeatures::MUTABLE_GLOBAL
    .union(WasmFeatures::SATURATING_FLOAT_TO_INT)
    .union(WasmFeatures::SIGN_EXTENSION)
    .union(WasmFeatures::REFERENCE_TYPES)
    .union(WasmFeatures::MULTI_VALUE)
    .union(WasmFeatures::BULK_MEMORY)
    .union(WasmFeatures::SIMD)
    .union(WasmFeatures::FLOATS)
    .union(WasmFeatures::TAIL_CALL)
    .union(WasmFeatures::EXTENDED_CONST)
    .union(WasmFeatures::COMPONENT_MODEL);

/// A proposal that is refused by name.
pub(crate) struct Proposal {
    pub(crate) feature: WasmFeatures,
    pub(crate) name: &'static str,
    pub(crate) advice: &'static str,
}

const fn proposal(feature: WasmFeatures, name: &'static str, advice: &'static str) -> Proposal {
    Proposal { feature, name, advice }
}

/// Those a toolchain is likely to have turned on, with the setting that turns them off.
pub(crate) const REFUSED: [Proposal; 16] = [
    proposal(
        WasmFeatures::THREADS,
        "threads (atomics, shared memory)",
        "build without threads: no `-pthread`, no `-C target-feature=+atomics`, target wasm32-wasip1 \
         or wasm32-wasip2",
    ),
    proposal(
        WasmFeatures::MEMORY64,
        "memory64 (64-bit memories)",
        "build for a wasm32 target: no `-m64`, no `-sMEMORY64`",
    ),
    proposal(
        WasmFeatures::EXCEPTIONS,
        "exceptions",
        "build without wasm exceptions: C++ `-fno-exceptions`, Rust `-C panic=abort`",
    ),
    proposal(
        WasmFeatures::LEGACY_EXCEPTIONS,
        "legacy exceptions",
        "build without wasm exceptions: C++ `-fno-exceptions`, Rust `-C panic=abort`",
    ),
    proposal(
        WasmFeatures::FUNCTION_REFERENCES,
        "typed function references",
        "turn off `function-references` in your compiler",
    ),
    proposal(
        WasmFeatures::GC.union(WasmFeatures::FUNCTION_REFERENCES).union(WasmFeatures::GC_TYPES),
        "garbage collection",
        "languages that need the wasm collector are not supported yet; choose a target with its own \
         memory management",
    ),
    proposal(
        WasmFeatures::GC_TYPES,
        "host references (externref)",
        "such modules are made for browsers (wasm-bindgen); build for wasm32-wasip1 or wasm32-wasip2",
    ),
    proposal(
        WasmFeatures::MULTI_MEMORY,
        "multiple memories",
        "turn off `multimemory` in your compiler or linker",
    ),
    proposal(
        WasmFeatures::RELAXED_SIMD,
        "relaxed SIMD",
        "its results differ between processors: build without `-mrelaxed-simd` or \
         `-C target-feature=+relaxed-simd`",
    ),
    proposal(
        WasmFeatures::SHARED_EVERYTHING_THREADS.union(WasmFeatures::THREADS),
        "shared-everything threads",
        "build without threads",
    ),
    proposal(
        WasmFeatures::STACK_SWITCHING,
        "stack switching",
        "turn off `stack-switching` in your compiler",
    ),
    proposal(
        WasmFeatures::WIDE_ARITHMETIC,
        "wide arithmetic",
        "build without `-mwide-arithmetic` or `-C target-feature=+wide-arithmetic`",
    ),
    proposal(WasmFeatures::CUSTOM_PAGE_SIZES, "custom page sizes", "keep the page size of 64 KiB"),
    proposal(
        WasmFeatures::CM_ASYNC,
        "asynchronous components (WASI 0.3)",
        "build for WASI 0.2: target wasm32-wasip2",
    ),
    proposal(
        WasmFeatures::CM_ERROR_CONTEXT,
        "component error contexts",
        "build for WASI 0.2: target wasm32-wasip2",
    ),
    proposal(
        WasmFeatures::CM_FIXED_LENGTH_LISTS,
        "fixed-length lists in interfaces",
        "use plain lists in your WIT",
    ),
];

/// The refused proposal that the validator's error is about, found by asking it again with one more
/// proposal on: the right one lets it get further.
pub(crate) fn responsible(
    error: &wasmparser::Error,
    validate: impl Fn(WasmFeatures) -> Result<(), wasmparser::Error>,
) -> Option<&'static Proposal> {
    let named = error.missing_wasm_feature();
    if let Some(found) = REFUSED.iter().find(|refused| Some(refused.feature) == named) {
        return Some(found);
    }
    REFUSED.iter().find(|refused| match validate(OFFERED.union(refused.feature)) {
        Ok(()) => true,
        Err(later) => later.offset() > error.offset(),
    })
}
