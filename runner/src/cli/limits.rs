//! Limits of a handler, as flags.

use std::time::Duration;

use clap::Args;
use stokehold_api::wire::LimitsChange;

use super::units::{parse_bytes, parse_count, parse_duration};

/// What one attempt may use. What is not said has its default.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Limits of one attempt")]
pub(crate) struct LimitArgs {
    /// Any limit, repeatable: fuel (10G), timeout (30s), memory (128MiB), result (1MiB), log (64KiB),
    /// calls (100k); the defaults are in brackets
    #[arg(long = "limit", visible_alias = "limits", value_name = "NAME=VALUE", value_parser = limit,
          value_delimiter = ',')]
    limits: Vec<Limit>,
    /// Wall time: short for --limit timeout=…
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    timeout: Option<Duration>,
    /// Linear memory: short for --limit memory=…
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    memory: Option<u64>,
}

/// One `NAME=VALUE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
    Fuel(u64),
    TimeoutMs(u64),
    MemoryBytes(u64),
    ResultBytes(u64),
    LogBytes(u64),
    HostCalls(u64),
}

impl LimitArgs {
    /// The limits that were said. The last word on one wins, short forms over long ones.
    pub(crate) fn change(&self) -> LimitsChange {
        let mut change = LimitsChange::default();
        for limit in &self.limits {
            match *limit {
                Limit::Fuel(fuel) => change.fuel = Some(fuel),
                Limit::TimeoutMs(ms) => change.timeout_ms = Some(ms),
                Limit::MemoryBytes(bytes) => change.memory_bytes = Some(bytes),
                Limit::ResultBytes(bytes) => change.result_bytes = Some(bytes),
                Limit::LogBytes(bytes) => change.log_bytes = Some(bytes),
                Limit::HostCalls(calls) => change.host_calls = Some(calls),
            }
        }
        change.timeout_ms = self.timeout.map(whole_ms).or(change.timeout_ms);
        change.memory_bytes = self.memory.or(change.memory_bytes);
        change
    }
}

fn limit(text: &str) -> Result<Limit, String> {
    let (name, value) =
        text.split_once('=').ok_or_else(|| format!("{text:?} lacks a value: write NAME=VALUE"))?;
    Ok(match name.trim() {
        "fuel" => Limit::Fuel(parse_count(value)?),
        "timeout" => Limit::TimeoutMs(whole_ms(parse_duration(value)?)),
        "memory" => Limit::MemoryBytes(parse_bytes(value)?),
        "result" => Limit::ResultBytes(parse_bytes(value)?),
        "log" => Limit::LogBytes(parse_bytes(value)?),
        "calls" => Limit::HostCalls(parse_count(value)?),
        other => {
            return Err(format!(
                "there is no limit {other:?}: fuel, timeout, memory, result, log and calls are those"
            ));
        }
    })
}

fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_by_name_and_the_short_forms_win() {
        let args = LimitArgs {
            limits: ["fuel=2G", "timeout=1m", "memory=1MiB", "result=2KiB", "log=8k", "calls=5"]
                .map(|text| limit(text).unwrap())
                .to_vec(),
            timeout: Some(Duration::from_secs(5)),
            memory: None,
        };
        let change = args.change();
        assert_eq!((change.fuel, change.timeout_ms), (Some(2_000_000_000), Some(5_000)));
        assert_eq!((change.memory_bytes, change.result_bytes), (Some(1 << 20), Some(2048)));
        assert_eq!((change.log_bytes, change.host_calls), (Some(8192), Some(5)));
        assert_eq!(LimitArgs::default().change(), LimitsChange::default());
    }

    #[test]
    fn a_limit_that_does_not_exist_is_refused_with_those_that_do() {
        assert!(limit("fule=3").unwrap_err().contains("there is no limit \"fule\": fuel,"));
        assert!(limit("fuel").unwrap_err().contains("NAME=VALUE"));
        assert!(limit("timeout=30").unwrap_err().contains("is not a duration"));
    }
}
