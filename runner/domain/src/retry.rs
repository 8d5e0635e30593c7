//! When a failed attempt is tried again.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The longest delay of any kind: what a handler asks for is clamped to it.
pub const MAX_DELAY: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// How the delay grows from attempt to attempt: `base × 2^(attempt − 1)`, at most `cap`, of which the
/// second half is random so that jobs that failed together do not come back together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Backoff {
    /// Delay after the first failure, in milliseconds.
    pub base_ms: u64,
    /// No delay is longer, in milliseconds.
    pub cap_ms: u64,
}

impl Default for Backoff {
    fn default() -> Self {
        Backoff { base_ms: 1_000, cap_ms: 60 * 60 * 1000 }
    }
}

impl Backoff {
    /// The delay after failed attempt number `attempt` (from 1); `random` in 0..1 places it within the
    /// upper half of the nominal delay.
    pub fn delay(&self, attempt: u32, random: f64) -> Duration {
        let doublings = attempt.saturating_sub(1).min(63);
        let nominal = self.base_ms.saturating_mul(1 << doublings).min(self.cap_ms);
        let jittered = nominal as f64 * (0.5 + random.clamp(0.0, 1.0) / 2.0);
        Duration::from_millis(jittered as u64).min(MAX_DELAY)
    }
}

/// A kind's policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

    #[test]
    fn delays_double_from_the_base_up_to_the_cap() {
        let backoff = Backoff { base_ms: 1_000, cap_ms: 60_000 };
        let ms = |attempt| backoff.delay(attempt, 1.0).as_millis();
        assert_eq!(
            [ms(1), ms(2), ms(3), ms(6), ms(7), ms(100)],
            [1_000, 2_000, 4_000, 32_000, 60_000, 60_000]
        );
        assert_eq!(backoff.delay(1, 0.0), Duration::from_millis(500));
    }

    proptest! {
        #[test]
        fn no_attempt_number_overflows_or_passes_the_cap(
            base_ms: u64, cap_ms: u64, attempt: u32, random in 0.0f64..1.0,
        ) {
            let delay = Backoff { base_ms, cap_ms }.delay(attempt, random);
            prop_assert!(delay <= MAX_DELAY);
            prop_assert!(delay.as_millis() <= u128::from(cap_ms));
        }
    }
}
