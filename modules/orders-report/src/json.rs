//! Orders as a JSON array of objects with the same field names as the CSV form.

use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use serde_json::Number;

use crate::fault::{Fault, Place};
use crate::order::{FIELDS, OrderLine};

#[derive(Deserialize)]
struct Texts {
    order_id: TextOrNumber,
    date: String,
    customer: TextOrNumber,
    product: String,
    quantity: TextOrNumber,
    unit_price: TextOrNumber,
    currency: String,
}

/// A number is taken as it is written, as far as JSON readers keep that: up to 15 digits.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a text or a number")]
enum TextOrNumber {
    Text(String),
    Number(Number),
}

impl TextOrNumber {
    fn into_text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Number(number) => number.to_string(),
        }
    }
}

/// Checked while it is read, so that the reader knows the place of what is wrong.
impl<'de> Deserialize<'de> for OrderLine {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let texts = Texts::deserialize(deserializer)?;
        let [order_id, customer, quantity, unit_price] =
            [texts.order_id, texts.customer, texts.quantity, texts.unit_price]
                .map(TextOrNumber::into_text);
        OrderLine::from_texts([
            &order_id,
            &texts.date,
            &customer,
            &texts.product,
            &quantity,
            &unit_price,
            &texts.currency,
        ])
        .map_err(|bad| D::Error::custom(format!("{}: {}", FIELDS[bad.field], bad.reason)))
    }
}

/// Reads a whole file.
pub(crate) fn read(text: &str) -> Result<Vec<OrderLine>, Fault> {
    serde_json::from_str(text).map_err(|error| {
        let message = error.to_string();
        // The library ends its texts with the place, which we tell first.
        let message = message.split(" at line ").next().unwrap_or(&message);
        let place = Place { line: error.line().max(1), column: error.column().max(1) };
        Fault::at(place, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_may_be_texts_and_texts_numbers() {
        let lines = read(
            r#"[{"order_id":17,"date":"2026-11-30T12:00:00Z","customer":"Ann","product":"Tea",
                "quantity":"3","unit_price":0.1,"currency":"EUR","note":null}]"#,
        )
        .expect("one line");
        assert_eq!(lines[0].order_id, "17");
        assert_eq!(lines[0].total().map(|total| total.to_string()).as_deref(), Some("0.30"));
    }

    #[test]
    fn a_fault_is_told_by_line_and_column() {
        let fault = read("[\n{\"order_id\":1}]").expect_err("no date").to_string();
        assert_eq!(fault, "line 2, column 14: missing field `date`");
        let fault = read("[{}").expect_err("cut off").to_string();
        assert!(fault.starts_with("line 1, column 3"), "{fault}");
        let fault = read(
            "[\n{\"order_id\":1,\"date\":\"soon\",\"customer\":\"A\",\"product\":\"T\",\
             \"quantity\":1,\"unit_price\":\"1\",\"currency\":\"EUR\"}]",
        )
        .expect_err("no day")
        .to_string();
        assert!(fault.starts_with("line 2, column "), "{fault}");
        assert!(fault.ends_with("date: \"soon\" is not a day like 2026-11-30"), "{fault}");
    }
}
