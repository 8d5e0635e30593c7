//! A measured number beside what it must reach.

use serde::Serialize;

use crate::bench::report::BUILD;

/// What a figure must reach.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bar {
    /// The figure, with its unit.
    pub(crate) figure: &'static str,
    /// The number.
    pub(crate) limit: Limit,
    /// Whether it compares two runs with each other: then it holds on any machine.
    pub(crate) is_ratio: bool,
}

/// On which side of a number a figure must lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Limit {
    /// At least so much.
    Least(f64),
    /// At most so much.
    Most(f64),
}

/// What became of one figure.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Verdict {
    pub(crate) name: &'static str,
    pub(crate) figure: &'static str,
    pub(crate) measured: f64,
    pub(crate) bar: String,
    pub(crate) is_ratio: bool,
    /// Nothing when the number is not one to be judged by.
    pub(crate) met: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) details: Option<serde_json::Value>,
}

impl Bar {
    /// A ratio of two runs.
    pub(crate) const fn ratio(figure: &'static str, limit: Limit) -> Bar {
        Bar { figure, limit, is_ratio: true }
    }

    /// A number that says something only of optimised code and a run in full, though it may be a ratio
    /// to something else than our own code.
    pub(crate) const fn absolute(figure: &'static str, limit: Limit) -> Bar {
        Bar { figure, limit, is_ratio: false }
    }

    /// The bar in words.
    pub(crate) fn words(&self) -> String {
        match self.limit {
            Limit::Least(least) => format!(">= {}", short(least)),
            Limit::Most(most) => format!("<= {}", short(most)),
        }
    }
}

impl Verdict {
    /// Compares; an absolute number of a debug build or of a run in small is not judged.
    pub(crate) fn of(name: &'static str, bar: &Bar, measured: f64, quick: bool) -> Verdict {
        let judged = bar.is_ratio || !quick && BUILD == "release";
        let met = match bar.limit {
            Limit::Least(least) => measured >= least,
            Limit::Most(most) => measured <= most,
        };
        Verdict {
            name,
            figure: bar.figure,
            measured,
            bar: bar.words(),
            is_ratio: bar.is_ratio,
            met: judged.then_some(met),
            details: None,
        }
    }

    /// One line for people; name and figure are so wide.
    pub(crate) fn line(&self, (name, figure): (usize, usize)) -> String {
        format!(
            "{:<name$}  {:<figure$}  {:>8}  {:>8}  {}",
            self.name,
            self.figure,
            short(self.measured),
            self.bar,
            self.word()
        )
    }

    /// How it compares.
    pub(crate) fn word(&self) -> &'static str {
        match self.met {
            Some(true) => "met",
            Some(false) => "missed",
            None => "not judged",
        }
    }
}

/// A number with as many digits as mean something.
fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_judged_always_and_absolute_numbers_not_in_small() {
        let ratio = Bar::ratio("rate", Limit::Least(0.95));
        assert_eq!(Verdict::of("x", &ratio, 0.95, true).word(), "met");
        assert_eq!(Verdict::of("x", &ratio, 0.9, true).word(), "missed");
        let absolute = Bar::absolute("ms", Limit::Most(3.0));
        assert_eq!(Verdict::of("x", &absolute, 2.0, true).word(), "not judged");
        let verdict = Verdict::of("x", &absolute, 2.0, true);
        assert_eq!(verdict.line((2, 3)), "x   ms       2.00   <= 3.00  not judged");
    }
}
