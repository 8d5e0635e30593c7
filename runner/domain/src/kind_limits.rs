//! How many jobs of a kind run at a time, and how many start in a time, across the fleet.

use serde::{Deserialize, Serialize};

/// Limits of a kind; nothing for none. Exact across nodes, and changed while jobs run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KindLimits {
    /// The most that run at a time; 1 to 1,000,000.
    pub max_running: Option<u32>,
    /// The most of those that share a concurrency key; 1 to 1,000,000.
    pub max_running_per_key: Option<u32>,
    /// Those that share a key run in the order in which they became available, one at a time, and one that failed is
    /// tried again before the next.
    pub keeps_order: bool,
    /// How fast they start.
    pub rate: Option<Rate>,
    /// How fast those that share a key start.
    pub key_rate: Option<Rate>,
}

/// A bucket of `burst` tokens, one for each start, into which `starts` come back in `per_ms`, evenly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    /// Starts in a period; 1 to 1,000,000.
    pub starts: u32,
    /// The period in milliseconds; 1 to 86,400,000, a day.
    pub per_ms: u32,
    /// The most starts at once after a rest; `starts` when 0.
    #[serde(default)]
    pub burst: u32,
}

impl Rate {
    /// The size of the bucket.
    pub fn bucket(&self) -> u32 {
        if self.burst == 0 { self.starts } else { self.burst }
    }
}

/// The most of anything that a limit counts. The tables repeat it.
const MOST: u32 = 1_000_000;
/// The longest period, in milliseconds.
const LONGEST_MS: u32 = 24 * 60 * 60 * 1000;

impl KindLimits {
    /// Refuses what the tables refuse, naming the field.
    pub fn check(&self) -> Result<(), InvalidKindLimit> {
        let rate = |rate: Option<Rate>| {
            let [starts, per_ms, bucket] =
                rate.map_or([None; 3], |r| [Some(r.starts), Some(r.per_ms), Some(r.bucket())]);
            (starts, per_ms, bucket)
        };
        let ((starts, per_ms, burst), (key_starts, key_per_ms, key_burst)) =
            (rate(self.rate), rate(self.key_rate));
        for (field, number, most) in [
            ("max_running", self.max_running, MOST),
            ("max_running_per_key", self.max_running_per_key, MOST),
            ("rate.starts", starts, MOST),
            ("rate.per_ms", per_ms, LONGEST_MS),
            ("rate.burst", burst, MOST),
            ("key_rate.starts", key_starts, MOST),
            ("key_rate.per_ms", key_per_ms, LONGEST_MS),
            ("key_rate.burst", key_burst, MOST),
        ] {
            if let Some(number) = number
                && !(1..=most).contains(&number)
            {
                let why = format!("`{field}` is {number}: 1 to {most} is allowed");
                return Err(InvalidKindLimit { field, why });
            }
        }
        if self.keeps_order && self.max_running_per_key != Some(1) {
            let why = "order is kept where one job of a key runs at a time: say 1".to_owned();
            return Err(InvalidKindLimit { field: "max_running_per_key", why });
        }
        Ok(())
    }
}

/// A limit that cannot be.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{why}")]
pub struct InvalidKindLimit {
    field: &'static str,
    why: String,
}

impl InvalidKindLimit {
    /// Which limit it is.
    pub fn field(&self) -> &'static str {
        self.field
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_out_of_its_range_is_named() {
        let rate = Rate { starts: 5, per_ms: 1_000, burst: 0 };
        assert_eq!((rate.bucket(), Rate { burst: 2, ..rate }.bucket()), (5, 2));
        let fine = KindLimits {
            max_running: Some(1),
            max_running_per_key: Some(1),
            keeps_order: true,
            rate: Some(rate),
            key_rate: Some(rate),
        };
        assert_eq!(fine.check(), Ok(()));
        for (limits, field) in [
            (KindLimits { max_running: Some(0), ..fine.clone() }, "max_running"),
            (KindLimits { max_running_per_key: Some(2), ..fine.clone() }, "max_running_per_key"),
            (KindLimits { max_running_per_key: None, ..fine.clone() }, "max_running_per_key"),
            (KindLimits { rate: Some(Rate { starts: 0, ..rate }), ..fine.clone() }, "rate.starts"),
            (
                KindLimits { key_rate: Some(Rate { per_ms: 0, ..rate }), ..fine.clone() },
                "key_rate.per_ms",
            ),
            (KindLimits { rate: Some(Rate { burst: 1_000_001, ..rate }), ..fine }, "rate.burst"),
        ] {
            assert_eq!(limits.check().unwrap_err().field(), field);
        }
    }
}
