//! One line of an order, and the checks each of its fields must pass, whatever the input's form.

use std::str::FromStr;

use crate::money::Amount;

/// One line of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OrderLine {
    pub(crate) order_id: String,
    /// The day, as `2026-11-30`.
    pub(crate) day: String,
    pub(crate) customer: String,
    pub(crate) product: String,
    pub(crate) quantity: u32,
    pub(crate) unit_price: Amount,
    /// Three capital letters.
    pub(crate) currency: String,
}

/// The names of the fields, in the order of [`OrderLine`].
pub(crate) const FIELDS: [&str; 7] =
    ["order_id", "date", "customer", "product", "quantity", "unit_price", "currency"];

/// A field that cannot be what it should: which one, by its place in [`FIELDS`], and why.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BadField {
    pub(crate) field: usize,
    pub(crate) reason: String,
}

impl OrderLine {
    /// Checks seven texts, in the order of [`FIELDS`].
    pub(crate) fn from_texts(texts: [&str; 7]) -> Result<Self, BadField> {
        let [order_id, date, customer, product, quantity, unit_price, currency] =
            texts.map(str::trim);
        let line = Self {
            order_id: filled(0, order_id)?,
            day: day(date).map_err(|reason| bad(1, date, reason))?,
            customer: filled(2, customer)?,
            product: filled(3, product)?,
            quantity: quantity
                .parse()
                .map_err(|_| bad(4, quantity, "not a whole number from 0 to 4294967295"))?,
            unit_price: Amount::from_str(unit_price)
                .map_err(|reason| bad(5, unit_price, reason))?,
            currency: currency_code(currency).map_err(|reason| bad(6, currency, reason))?,
        };
        if line.total().is_none() {
            return Err(bad(5, unit_price, "too much, times the quantity"));
        }
        Ok(line)
    }

    /// Price times quantity; checked when the line was made.
    pub(crate) fn total(&self) -> Option<Amount> {
        self.unit_price.times(self.quantity)
    }
}

fn bad(field: usize, text: &str, reason: &str) -> BadField {
    // The text is a stranger's: enough of it to be found again, no more.
    let shown: String = text.chars().take(40).collect();
    BadField { field, reason: format!("{shown:?} is {reason}") }
}

fn filled(field: usize, text: &str) -> Result<String, BadField> {
    if text.is_empty() {
        return Err(BadField { field, reason: "it is empty".into() });
    }
    Ok(text.to_owned())
}

fn day(text: &str) -> Result<String, &'static str> {
    const WRONG: &str = "not a day like 2026-11-30";
    // A time of day may follow.
    let day = text.split(['T', ' ']).next().unwrap_or_default();
    let parts: Vec<&str> = day.split('-').collect();
    let [year, month, date] = parts[..] else { return Err(WRONG) };
    let number = |part: &str, digits: usize| {
        let right = part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit());
        right.then(|| part.parse::<u32>().ok()).flatten()
    };
    let (Some(year), Some(month), Some(date)) =
        (number(year, 4), number(month, 2), number(date, 2))
    else {
        return Err(WRONG);
    };
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let longest = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 => 28 + u32::from(leap),
        _ => return Err("a month that does not exist"),
    };
    if (1..=longest).contains(&date) {
        Ok(day.to_owned())
    } else {
        Err("a day that does not exist")
    }
}

fn currency_code(text: &str) -> Result<String, &'static str> {
    if text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_alphabetic()) {
        Ok(text.to_ascii_uppercase())
    } else {
        Err("not a currency like EUR")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: [&str; 7] = ["A1", "2024-02-29", "Ann", "Tea", "2", "3.50", "eur"];

    #[test]
    fn a_line_is_checked_and_tidied() {
        let line = OrderLine::from_texts(GOOD).expect("a line");
        assert_eq!(line.currency, "EUR");
        assert_eq!(line.total().map(|total| total.to_string()).as_deref(), Some("7.00"));
    }

    #[test]
    fn each_field_is_refused_under_its_own_number() {
        for (field, text) in [
            (0, ""),
            (1, "2026-02-29"),
            (1, "2026-13-01"),
            (1, "30.11.2026"),
            (1, "2026-1-1"),
            (2, " "),
            (3, ""),
            (4, "-1"),
            (4, "two"),
            (5, "1,5"),
            (6, "EURO"),
        ] {
            let mut texts = GOOD;
            texts[field] = text;
            assert_eq!(OrderLine::from_texts(texts).expect_err(text).field, field, "{text}");
        }
    }
}
