//! Limits of kinds, as flags and as text.

use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use stokehold_api::wire::{KindChange, KindInfo, StartRate};

use super::units;

/// How many run at a time, and start in a time.
#[derive(Args, Debug)]
#[command(next_help_heading = "Limits, on all nodes together; `none` takes one away")]
pub(super) struct LimitArgs {
    /// The most jobs of it that run at a time
    #[arg(long, value_name = "N", value_parser = number)]
    max_running: Option<Limit<u32>>,
    /// The most of those that share a concurrency key
    #[arg(long, value_name = "N", value_parser = number)]
    max_running_per_key: Option<Limit<u32>>,
    /// Whether jobs that share a key run in order, one at a time; a failed one is tried again before the next
    #[arg(long, value_name = "BOOL")]
    keeps_order: Option<bool>,
    /// How fast jobs start, such as 100/1m, or 100/1m:10 for 10 at once after a rest
    #[arg(long, value_name = "N/TIME[:N]", value_parser = rate)]
    rate: Option<Limit<StartRate>>,
    /// How fast those start that share a key
    #[arg(long, value_name = "N/TIME[:N]", value_parser = rate)]
    key_rate: Option<Limit<StartRate>>,
}

/// A limit, or that there is to be none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Limit<T>(Option<T>);

impl LimitArgs {
    pub(super) fn apply(&self, change: KindChange) -> KindChange {
        KindChange {
            max_running: self.max_running.map(|limit| limit.0),
            max_running_per_key: self.max_running_per_key.map(|limit| limit.0),
            keeps_order: self.keeps_order,
            rate: self.rate.map(|limit| limit.0),
            key_rate: self.key_rate.map(|limit| limit.0),
            ..change
        }
    }
}

fn number(text: &str) -> Result<Limit<u32>, String> {
    limit(text, |text| {
        u32::from_str(text).map_err(|error| format!("{error}: a number or `none` is wanted"))
    })
}

fn rate(text: &str) -> Result<Limit<StartRate>, String> {
    limit(text, |text| {
        let wanted = || format!("{text:?} is no rate: write 100/1m, 100/1m:10 or none");
        let (starts, rest) = text.split_once('/').ok_or_else(wanted)?;
        let (per, burst) = match rest.split_once(':') {
            Some((per, burst)) => (per, Some(burst.parse().map_err(|_| wanted())?)),
            None => (rest, None),
        };
        // `100/s` is said as often as `100/1s`.
        let per = if per.starts_with(|c: char| c.is_ascii_digit()) {
            per.to_owned()
        } else {
            format!("1{per}")
        };
        let per_ms = units::parse_duration(&per)?.as_millis();
        Ok(StartRate {
            starts: starts.parse().map_err(|_| wanted())?,
            per_ms: per_ms.try_into().map_err(|_| wanted())?,
            burst,
        })
    })
}

fn limit<T>(text: &str, read: impl Fn(&str) -> Result<T, String>) -> Result<Limit<T>, String> {
    if text == "none" { Ok(Limit(None)) } else { read(text).map(|limit| Limit(Some(limit))) }
}

/// The limits of a kind in one line.
pub(super) fn shown(kind: &KindInfo) -> String {
    let rate = |rate: StartRate, what: &str| {
        let per = units::duration(Duration::from_millis(rate.per_ms.into()));
        let burst = rate.burst.filter(|burst| *burst != rate.starts);
        let burst = burst.map(|burst| format!(", {burst} at once")).unwrap_or_default();
        format!("{} starts in {per}{what}{burst}", rate.starts)
    };
    let mut parts = Vec::new();
    parts.extend(kind.max_running.map(|most| format!("{most} at a time")));
    let order = if kind.keeps_order { ", in order" } else { "" };
    parts.extend(kind.max_running_per_key.map(|most| format!("{most} of a key at a time{order}")));
    parts.extend(kind.rate.map(|limit| rate(limit, "")));
    parts.extend(kind.key_rate.map(|limit| rate(limit, " of a key")));
    if parts.is_empty() { "none".to_owned() } else { parts.join("; ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_starts_in_a_time_and_perhaps_a_burst() {
        let minute = StartRate { starts: 100, per_ms: 60_000, burst: None };
        assert_eq!(rate("100/1m"), Ok(Limit(Some(minute))));
        assert_eq!(rate("100/m"), Ok(Limit(Some(minute))));
        assert_eq!(rate("100/1m:7"), Ok(Limit(Some(StartRate { burst: Some(7), ..minute }))));
        assert_eq!(rate("none"), Ok(Limit(None)));
        for wrong in ["", "100", "/1m", "x/1m", "1/", "1/x", "1/1m:", "1/1m:x", "-1/1m"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
        assert_eq!((number("3"), number("none")), (Ok(Limit(Some(3))), Ok(Limit(None))));
        assert!(number("many").is_err());
    }
}
