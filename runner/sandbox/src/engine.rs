//! The engine's configuration, flag by flag. Defaults of wasmtime are named where they differ from
//! what untrusted code needs.

use std::num::NonZeroUsize;

use stokehold_domain::EngineLimits;
use wasmparser::WasmFeatures;
use wasmtime::{
    Config, Engine, InstanceAllocationStrategy, OptLevel, RegallocAlgorithm, Strategy,
    WasmBacktraceDetails,
};

use crate::proposals::OFFERED;
use crate::{SandboxConfig, StartError, pool};

/// Stack of a host function on the guest's fibre, in bytes, beyond the guest's own part. Overflow
/// there would abort the process, so it is generous.
const HOST_STACK_BYTES: usize = 3 << 19;
/// Frames of a backtrace that are recorded.
const BACKTRACE_FRAMES: NonZeroUsize = NonZeroUsize::new(32).expect("32 is not zero");

pub(crate) fn build(settings: &SandboxConfig) -> Result<Engine, StartError> {
    let mut config = Config::new();
    config
        .allocation_strategy(InstanceAllocationStrategy::Pooling(pool::shape(settings)))
        .strategy(Strategy::Cranelift)
        .cranelift_opt_level(OptLevel::Speed)
        .cranelift_regalloc_algorithm(RegallocAlgorithm::Backtracking)
        // One upload must not take every core from the guests.
        .parallel_compilation(false)
        // Both: epochs bound the wall time and keep neighbours fair, fuel gives the same verdict for
        // the same input on every node.
        .epoch_interruption(true)
        .consume_fuel(true)
        .max_wasm_stack(EngineLimits::STACK_BYTES)
        .async_stack_size(EngineLimits::STACK_BYTES + HOST_STACK_BYTES)
        .async_stack_zeroing(false)
        // The default follows an environment variable, and "enabled" would parse the debug sections
        // of strangers at every trap, on a fibre's stack. Names of functions come without it.
        .wasm_backtrace_details(WasmBacktraceDetails::Disable)
        .wasm_backtrace_max_frames(Some(BACKTRACE_FRAMES))
        .generate_address_map(true)
        .debug_info(false)
        // Registering unwind tables is quadratic in the number of modules on some systems, and
        // wasmtime's own backtraces do without.
        .native_unwind_info(false)
        .memory_init_cow(true)
        .signals_based_traps(true)
        .shared_memory(false)
        .concurrency_support(false)
        .gc_support(false)
        .wasm_features(WasmFeatures::all(), false)
        .wasm_features(OFFERED, true);
    Engine::new(&config)
        .map_err(|error| StartError::Engine { slots: settings.slots, reason: format!("{error:#}") })
}
