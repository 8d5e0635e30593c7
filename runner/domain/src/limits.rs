//! What one attempt may use: each limit with a default and a ceiling.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Limits of one attempt. A release overrides the defaults, never past the ceilings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Fuel: wasmtime's count of executed work, about one per instruction.
    pub fuel: u64,
    /// Wall time from instantiation to the handler's return, in milliseconds.
    pub timeout_ms: u64,
    /// Linear memory in bytes, summed over all memories of the instance.
    pub memory_bytes: u64,
    /// The largest result, in bytes.
    pub result_bytes: u64,
    /// Log text kept of one attempt, in bytes: the first quarter and the last three.
    pub log_bytes: u64,
    /// Calls of host functions in one attempt.
    pub host_calls: u64,
}

/// Limits of an engine, the same for every attempt on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineLimits;

impl EngineLimits {
    /// Wasm stack of one attempt, in bytes.
    pub const STACK_BYTES: usize = 512 << 10;
    /// Elements in one table.
    pub const TABLE_ELEMENTS: usize = 100_000;
    /// The largest module or component taken, in bytes.
    pub const MODULE_BYTES: usize = 64 << 20;
    /// The largest payload of a job, in bytes. The enqueue function repeats it.
    pub const PAYLOAD_BYTES: usize = 1 << 20;
}

impl Limits {
    /// The most that a release may be given.
    pub const CEILING: Limits = Limits {
        fuel: 10_000_000_000_000,
        timeout_ms: 24 * 60 * 60 * 1000,
        memory_bytes: 1 << 30,
        result_bytes: 16 << 20,
        log_bytes: 1 << 20,
        host_calls: 10_000_000,
    };

    /// What a release gets when it says nothing.
    pub const DEFAULT: Limits = Limits {
        fuel: 10_000_000_000,
        timeout_ms: 30_000,
        memory_bytes: 128 << 20,
        result_bytes: 1 << 20,
        log_bytes: 64 << 10,
        host_calls: 100_000,
    };

    /// The wall-time limit.
    pub fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }

    /// Refuses a limit that is zero or over its ceiling, naming both numbers.
    pub fn check(&self) -> Result<(), InvalidLimit> {
        let ceiling = Limits::CEILING;
        for (name, value, most) in [
            ("fuel", self.fuel, ceiling.fuel),
            ("timeout_ms", self.timeout_ms, ceiling.timeout_ms),
            ("memory_bytes", self.memory_bytes, ceiling.memory_bytes),
            ("result_bytes", self.result_bytes, ceiling.result_bytes),
            ("log_bytes", self.log_bytes, ceiling.log_bytes),
            ("host_calls", self.host_calls, ceiling.host_calls),
        ] {
            if value == 0 || value > most {
                return Err(InvalidLimit { name, value, most });
            }
        }
        Ok(())
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits::DEFAULT
    }
}

/// A limit outside its range.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("limit {name} is {value}: 1 to {most} is allowed")]
pub struct InvalidLimit {
    name: &'static str,
    value: u64,
    most: u64,
}

impl InvalidLimit {
    /// Which limit it is.
    pub fn name(&self) -> &'static str {
        self.name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_and_ceilings_pass_and_what_lies_outside_is_named() {
        Limits::DEFAULT.check().unwrap();
        Limits::CEILING.check().unwrap();
        let over = Limits { fuel: Limits::CEILING.fuel + 1, ..Limits::DEFAULT };
        assert!(over.check().unwrap_err().to_string().contains("limit fuel is 10000000000001"));
        assert!(Limits { timeout_ms: 0, ..Limits::DEFAULT }.check().is_err());
    }

    #[test]
    fn a_misspelt_limit_is_refused() {
        let error = serde_json::from_str::<Limits>(r#"{"fule": 3}"#).unwrap_err().to_string();
        assert!(error.contains("fule") && error.contains("fuel"), "{error}");
    }
}
