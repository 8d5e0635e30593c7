//! Exact amounts of money: no binary fractions, no rounding.

use std::fmt;
use std::ops::AddAssign;
use std::str::FromStr;

/// Parts of a currency's unit that are counted: ten-thousandths, enough for prices per piece.
const PARTS: i128 = 10_000;
const DIGITS: usize = 4;

/// An amount in some currency, in ten-thousandths of its unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Amount(i128);

impl Amount {
    /// The amount that so many pieces cost; none if it is out of all measure.
    pub(crate) fn times(self, quantity: u32) -> Option<Self> {
        self.0.checked_mul(i128::from(quantity)).map(Self)
    }
}

impl AddAssign for Amount {
    fn add_assign(&mut self, other: Self) {
        // 2^127 ten-thousandths are more than any input of finite length adds up to here.
        self.0 = self.0.saturating_add(other.0);
    }
}

impl FromStr for Amount {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let (negative, digits) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || !all_digits(whole) || !all_digits(fraction) {
            return Err("not a decimal number like 12.50");
        }
        if fraction.len() > DIGITS {
            return Err("more than four digits after the point");
        }
        if whole.len() > 18 {
            return Err("more than eighteen digits before the point");
        }
        let whole: i128 = whole.parse().map_err(|_| "not a decimal number like 12.50")?;
        let fraction: i128 =
            format!("{fraction:0<DIGITS$}").parse().map_err(|_| "not a decimal number")?;
        let parts = whole * PARTS + fraction;
        Ok(Self(if negative { -parts } else { parts }))
    }
}

/// Two digits after the point, more if the amount has them.
impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let (whole, parts) = (self.0.unsigned_abs() / 10_000, self.0.unsigned_abs() % 10_000);
        let fraction = format!("{parts:04}");
        let kept = fraction.trim_end_matches('0').len().max(2);
        write!(f, "{sign}{whole}.{}", &fraction[..kept])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_and_written_exactly() {
        for (text, written) in [
            ("0", "0.00"),
            ("12.5", "12.50"),
            ("-0.05", "-0.05"),
            ("1.0001", "1.0001"),
            ("999999999999999999.9999", "999999999999999999.9999"),
        ] {
            assert_eq!(text.parse::<Amount>().expect(text).to_string(), written);
        }
    }

    #[test]
    fn a_tenth_added_ten_times_is_one() {
        let mut sum = Amount::default();
        for _ in 0..10 {
            sum += "0.1".parse().expect("an amount");
        }
        assert_eq!(sum.to_string(), "1.00");
    }

    #[test]
    fn what_is_no_amount_is_refused() {
        for text in ["", ".", ".5", "1e3", "1,50", "12.34567", "--1", "1.2.3", "NaN"] {
            assert!(text.parse::<Amount>().is_err(), "{text}");
        }
    }
}
