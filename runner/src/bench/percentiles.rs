//! Distributions of times.

use anyhow::Context;
use hdrhistogram::Histogram;
use serde::Serialize;

/// A distribution of times, by the microsecond.
#[derive(Clone, Debug)]
pub(crate) struct Times {
    microseconds: Histogram<u64>,
}

/// What reports show of a distribution, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Percentiles {
    pub(crate) p50: f64,
    pub(crate) p95: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) max: f64,
}

impl Times {
    /// Three digits are kept, which is more than two runs agree in.
    pub(crate) fn precise() -> anyhow::Result<Times> {
        Times::with_digits(3)
    }

    /// Two digits, for when there are many of them at once.
    pub(crate) fn coarse() -> anyhow::Result<Times> {
        Times::with_digits(2)
    }

    fn with_digits(digits: u8) -> anyhow::Result<Times> {
        let microseconds = Histogram::new(digits).context("a histogram could not be made")?;
        Ok(Times { microseconds })
    }

    /// Adds one time in seconds. A negative one, from a clock that was set back, counts as zero.
    pub(crate) fn add(&mut self, seconds: f64) -> anyhow::Result<()> {
        self.microseconds.record((seconds.max(0.0) * 1e6) as u64)?;
        Ok(())
    }

    /// How many there are.
    pub(crate) fn len(&self) -> u64 {
        self.microseconds.len()
    }

    /// The time that a share of all does not exceed, in milliseconds.
    pub(crate) fn quantile_ms(&self, share: f64) -> f64 {
        self.microseconds.value_at_quantile(share) as f64 / 1e3
    }

    /// The percentiles that reports show; `None` of nothing.
    pub(crate) fn percentiles(&self) -> Option<Percentiles> {
        (self.len() > 0).then(|| Percentiles {
            p50: self.quantile_ms(0.5),
            p95: self.quantile_ms(0.95),
            p99: self.quantile_ms(0.99),
            p999: self.quantile_ms(0.999),
            max: self.microseconds.max() as f64 / 1e3,
        })
    }
}

impl Percentiles {
    /// Of several repetitions: the median of each.
    pub(crate) fn median(of: &[Percentiles]) -> Option<Percentiles> {
        let pick = |field: fn(&Percentiles) -> f64| median(of.iter().map(field));
        Some(Percentiles {
            p50: pick(|p| p.p50)?,
            p95: pick(|p| p.p95)?,
            p99: pick(|p| p.p99)?,
            p999: pick(|p| p.p999)?,
            max: pick(|p| p.max)?,
        })
    }

    /// One line for people.
    pub(crate) fn words(&self) -> String {
        format!(
            "p50 {:.2}   p95 {:.2}   p99 {:.2}   p99.9 {:.2}   max {:.2} ms",
            self.p50, self.p95, self.p99, self.p999, self.max
        )
    }
}

/// The middle one, or the mean of the two in the middle; `None` of nothing.
pub(crate) fn median(of: impl Iterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = of.collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_times() {
        let mut times = Times::precise().unwrap();
        assert_eq!(times.percentiles(), None);
        for ms in 1..=1000 {
            times.add(f64::from(ms) / 1e3).unwrap();
        }
        times.add(-1.0).unwrap();
        let found = times.percentiles().unwrap();
        assert!((499.0..502.0).contains(&found.p50), "{found:?}");
        assert!((989.0..992.0).contains(&found.p99), "{found:?}");
        assert!((999.0..1001.0).contains(&found.max), "{found:?}");
    }

    #[test]
    fn the_median_is_the_middle_one() {
        assert_eq!(median([].into_iter()), None);
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), Some(2.0));
        assert_eq!(median([4.0, 1.0, 2.0, 3.0].into_iter()), Some(2.5));
    }
}
