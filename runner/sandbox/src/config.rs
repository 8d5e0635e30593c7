//! How a sandbox is set up, and why one may refuse to start.

use std::path::PathBuf;
use std::thread::available_parallelism;
use std::time::Duration;

use stokehold_domain::Limits;

/// Settings of one sandbox: one engine, one pool, one set of guest threads.
#[derive(Clone, Debug)]
pub struct SandboxConfig {
    /// Attempts at once. The pool is sized from it.
    pub slots: usize,
    /// Threads that run guests, and nothing else.
    pub guest_threads: usize,
    /// Uploads compiled at once; each takes one thread.
    pub compile_slots: usize,
    /// Compiled code kept in memory, in bytes; the least recently used goes first.
    pub code_cache_bytes: u64,
    /// The most linear memory that one memory of any attempt can have, in bytes. The limits of an
    /// attempt lower it, never raise it.
    pub max_memory_bytes: u64,
    /// How long a guest that asks `context.cancelled` may go on after it was told to stop. One that
    /// never asks is stopped at once.
    pub cancel_grace: Duration,
    /// Every line a guest logs is also appended here at once, as one JSON object a line.
    pub guest_log_file: Option<PathBuf>,
}

impl Default for SandboxConfig {
    fn default() -> Self {
        let cores = available_parallelism().map_or(2, usize::from);
        SandboxConfig {
            slots: 64,
            guest_threads: cores,
            // An upload must not take every core.
            compile_slots: (cores / 2).max(1),
            code_cache_bytes: 512 << 20,
            max_memory_bytes: Limits::CEILING.memory_bytes,
            cancel_grace: Duration::from_millis(500),
            guest_log_file: None,
        }
    }
}

/// Attempts at once that one sandbox can be configured for.
pub(crate) const MAX_SLOTS: usize = 10_000;
/// Guest threads that one sandbox can be configured for.
pub(crate) const MAX_THREADS: usize = 1_024;

impl SandboxConfig {
    /// Refuses a setting outside its range, naming it and the range.
    pub(crate) fn check(&self) -> Result<(), StartError> {
        let page = 64 << 10;
        for (name, value, least, most) in [
            ("slots", self.slots as u64, 1, MAX_SLOTS as u64),
            ("guest_threads", self.guest_threads as u64, 1, MAX_THREADS as u64),
            ("compile_slots", self.compile_slots as u64, 1, MAX_THREADS as u64),
            ("max_memory_bytes", self.max_memory_bytes, page, 4 << 30),
        ] {
            if !(least..=most).contains(&value) {
                return Err(StartError::Setting { name, value, least, most });
            }
        }
        Ok(())
    }
}

/// Why a sandbox refused to start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A setting lies outside its range.
    #[error("sandbox setting {name} is {value}: {least} to {most} is allowed")]
    Setting {
        /// The setting.
        name: &'static str,
        /// What it was set to.
        value: u64,
        /// The least allowed.
        least: u64,
        /// The most allowed.
        most: u64,
    },
    /// The pool needs more address space than the process has.
    #[error(
        "a pool for {slots} attempts at once reserves {needed_gib} GiB of address space and {origin} \
         allows {available_gib} GiB: lower `slots` (about {fitting} fit) or raise the limit"
    )]
    AddressSpace {
        /// The configured number of attempts at once.
        slots: usize,
        /// Address space that the pool reserves, in GiB.
        needed_gib: u64,
        /// Address space that there is, in GiB.
        available_gib: u64,
        /// What sets the limit.
        origin: &'static str,
        /// About how many slots would fit.
        fitting: usize,
    },
    /// wasmtime would not build the engine.
    #[error(
        "the wasm engine for {slots} attempts at once could not be built: {reason}. \
         If it speaks of memory, lower `slots` or raise the address-space limit of the process"
    )]
    Engine {
        /// The configured number of attempts at once.
        slots: usize,
        /// What wasmtime said.
        reason: String,
    },
    /// A thread could not be started.
    #[error("the sandbox could not start its threads")]
    Threads(#[source] std::io::Error),
    /// The file for guest logs could not be opened.
    #[error("the guest log file {} could not be opened for appending", path.display())]
    GuestLogFile {
        /// The configured path.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The sandbox could not stop an endless loop, so it must not be given work.
    #[error("the start-up self-test failed: {0}")]
    SelfTest(String),
}
