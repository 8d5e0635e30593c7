//! When a failed attempt is tried again.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The longest delay of any kind: what a handler asks for is clamped to it.
pub const MAX_DELAY: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// How the nominal delay grows from attempt to attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BackoffForm {
    /// `base × 2^(attempt − 1)`, at most `cap`.
    #[default]
    Exponential,
    /// `base × attempt`, at most `cap`.
    Linear,
    /// Always `base`.
    Fixed,
    /// One of `delays` for each attempt, the last for all further ones.
    List,
}

impl BackoffForm {
    /// All forms.
    pub const ALL: [BackoffForm; 4] =
        [BackoffForm::Exponential, BackoffForm::Linear, BackoffForm::Fixed, BackoffForm::List];

    /// As stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            BackoffForm::Exponential => "exponential",
            BackoffForm::Linear => "linear",
            BackoffForm::Fixed => "fixed",
            BackoffForm::List => "list",
        }
    }
}

impl std::str::FromStr for BackoffForm {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = BackoffForm::ALL.into_iter().find(|form| form.as_str() == text);
        found.ok_or_else(|| {
            let known = BackoffForm::ALL.map(BackoffForm::as_str).join(", ");
            format!("{text:?} is no form of backoff: {known} are known")
        })
    }
}

/// How long to wait after a failed attempt. Of the nominal delay a part is random, so that jobs that failed
/// together do not come back together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Backoff {
    /// How the delay grows.
    pub form: BackoffForm,
    /// Delay after the first failure, in milliseconds.
    pub base_ms: u64,
    /// No delay that grows is longer, in milliseconds.
    pub cap_ms: u64,
    /// The delays of the form `list`, in milliseconds; 1 to 100 of them, none for other forms.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub delays_ms: Vec<u64>,
    /// How many hundredths of the nominal delay are random, 0 to 100.
    pub jitter_percent: u8,
}

impl Default for Backoff {
    fn default() -> Self {
        Backoff {
            form: BackoffForm::Exponential,
            base_ms: 1_000,
            cap_ms: 60 * 60 * 1000,
            delays_ms: Vec::new(),
            jitter_percent: 50,
        }
    }
}

impl Backoff {
    /// The most delays of the form `list`. The tables and the enqueue function repeat it.
    pub const MAX_DELAYS: usize = 100;

    /// The delay after failed attempt number `attempt` (from 1); `random` in 0..1 places it within the part of
    /// the nominal delay that is random.
    pub fn delay(&self, attempt: u32, random: f64) -> Duration {
        let nominal = match self.form {
            BackoffForm::Exponential => {
                let doublings = attempt.saturating_sub(1).min(63);
                self.base_ms.saturating_mul(1 << doublings).min(self.cap_ms)
            }
            BackoffForm::Linear => self.base_ms.saturating_mul(attempt.into()).min(self.cap_ms),
            BackoffForm::Fixed => self.base_ms,
            BackoffForm::List => {
                let index = (attempt.saturating_sub(1) as usize).min(Backoff::MAX_DELAYS);
                let delay = self.delays_ms.get(index).or(self.delays_ms.last());
                delay.copied().unwrap_or(self.base_ms)
            }
        };
        let random_part = f64::from(self.jitter_percent.min(100)) / 100.0;
        let jittered = nominal as f64 * (1.0 - random_part * (1.0 - random.clamp(0.0, 1.0)));
        Duration::from_millis(jittered as u64).min(MAX_DELAY)
    }

    /// Refuses what the tables refuse.
    pub fn check(&self) -> Result<(), InvalidBackoff> {
        let is_list = self.form == BackoffForm::List;
        if is_list == self.delays_ms.is_empty() {
            return Err(InvalidBackoff("the delays go with the form list, which needs them"));
        }
        if self.delays_ms.len() > Backoff::MAX_DELAYS {
            return Err(InvalidBackoff("there are over 100 delays"));
        }
        if self.jitter_percent > 100 {
            return Err(InvalidBackoff("the jitter is over 100 percent"));
        }
        let longest = MAX_DELAY.as_millis() as u64;
        if self.delays_ms.iter().chain([&self.base_ms, &self.cap_ms]).any(|ms| *ms > longest) {
            return Err(InvalidBackoff("a delay is over 30 days"));
        }
        Ok(())
    }
}

/// A backoff that cannot be.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0}")]
pub struct InvalidBackoff(&'static str);

/// A kind's policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RetryPolicy {
    /// Tries in all, the first included; 1 means never again.
    pub max_attempts: u16,
    /// How long to wait between them.
    pub backoff: Backoff,
}

impl RetryPolicy {
    /// The most attempts a kind or job may have.
    pub const MAX_ATTEMPTS: u16 = 1_000;
}

impl Default for RetryPolicy {
    fn default() -> Self {
        RetryPolicy { max_attempts: 20, backoff: Backoff::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ms(backoff: &Backoff, attempts: &[u32]) -> Vec<u128> {
        attempts.iter().map(|attempt| backoff.delay(*attempt, 1.0).as_millis()).collect()
    }

    #[test]
    fn delays_grow_from_the_base_up_to_the_cap_as_the_form_says() {
        let mut backoff = Backoff { base_ms: 1_000, cap_ms: 60_000, ..Backoff::default() };
        assert_eq!(
            ms(&backoff, &[1, 2, 3, 6, 7, 100]),
            [1_000, 2_000, 4_000, 32_000, 60_000, 60_000]
        );
        backoff.form = BackoffForm::Linear;
        assert_eq!(ms(&backoff, &[1, 2, 60, 61, u32::MAX]), [1_000, 2_000, 60_000, 60_000, 60_000]);
        backoff.form = BackoffForm::Fixed;
        assert_eq!(ms(&backoff, &[1, 2, 100]), [1_000; 3]);
        backoff = Backoff { form: BackoffForm::List, delays_ms: vec![5, 70, 6], ..backoff };
        assert_eq!(ms(&backoff, &[1, 2, 3, 4, u32::MAX]), [5, 70, 6, 6, 6]);
    }

    #[test]
    fn as_much_of_a_delay_is_random_as_the_jitter_says() {
        let mut backoff = Backoff { form: BackoffForm::Fixed, ..Backoff::default() };
        let shortest = |backoff: &Backoff| backoff.delay(1, 0.0).as_millis();
        assert_eq!(shortest(&backoff), 500);
        backoff.jitter_percent = 0;
        assert_eq!(shortest(&backoff), 1_000);
        backoff.jitter_percent = 100;
        assert_eq!(shortest(&backoff), 0);
    }

    #[test]
    fn a_list_needs_delays_and_nothing_else_takes_them() {
        let list = |delays_ms| Backoff { form: BackoffForm::List, delays_ms, ..Backoff::default() };
        assert!(Backoff::default().check().is_ok() && list(vec![0]).check().is_ok());
        assert!(list(Vec::new()).check().is_err() && list(vec![1; 101]).check().is_err());
        assert!(list(vec![MAX_DELAY.as_millis() as u64 + 1]).check().is_err());
        assert!(Backoff { delays_ms: vec![1], ..Backoff::default() }.check().is_err());
        assert!(Backoff { jitter_percent: 101, ..Backoff::default() }.check().is_err());
    }

    proptest! {
        #[test]
        fn no_attempt_number_overflows_or_passes_the_cap(
            base_ms: u64, cap_ms: u64, attempt: u32, random in 0.0f64..1.0, linear: bool,
        ) {
            let form = if linear { BackoffForm::Linear } else { BackoffForm::Exponential };
            let delay = Backoff { form, base_ms, cap_ms, ..Backoff::default() }.delay(attempt, random);
            prop_assert!(delay <= MAX_DELAY);
            prop_assert!(delay.as_millis() <= u128::from(cap_ms));
        }
    }
}
