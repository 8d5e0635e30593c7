//! What an attempt used.

use serde::{Deserialize, Serialize};

/// Measured by the host, whatever the outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// Fuel spent. After some traps wasmtime accounts a part only: then "at least".
    pub fuel: u64,
    /// Wall time in microseconds, instantiation and waits included.
    pub wall_us: u64,
    /// High-water mark of linear memory in bytes, summed over the instance's memories.
    pub peak_memory_bytes: u64,
    /// Host functions called.
    pub host_calls: u64,
}
