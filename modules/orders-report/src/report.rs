//! Sums over orders. Amounts are written as texts, since a JSON number may lose cents.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Serialize, Serializer};

use crate::money::Amount;
use crate::order::OrderLine;

/// How many customers are listed for each currency.
const TOP_CUSTOMERS: usize = 5;

/// An amount for each currency.
type Revenue = BTreeMap<String, Amount>;

/// The whole report.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Report {
    /// How many different orders there are.
    pub(crate) orders: usize,
    /// How many lines they have.
    pub(crate) lines: usize,
    revenue: Revenue,
    products: BTreeMap<String, Product>,
    days: BTreeMap<String, Day>,
    /// The best customers by currency, the best first.
    top_customers: BTreeMap<String, Vec<Customer>>,
}

#[derive(Debug, Default, Serialize)]
struct Product {
    quantity: u64,
    revenue: Revenue,
}

#[derive(Debug, Default, Serialize)]
struct Day {
    orders: usize,
    revenue: Revenue,
}

#[derive(Debug, Serialize)]
struct Customer {
    customer: String,
    revenue: Amount,
}

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Report {
    /// Sums up all lines.
    pub(crate) fn of(lines: &[OrderLine]) -> Self {
        let mut report = Self { lines: lines.len(), ..Self::default() };
        let mut orders = BTreeSet::new();
        let mut orders_of_day: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        let mut customers: BTreeMap<&str, BTreeMap<&str, Amount>> = BTreeMap::new();
        for line in lines {
            let total = line.total().unwrap_or_default();
            orders.insert(line.order_id.as_str());
            orders_of_day.entry(&line.day).or_default().insert(&line.order_id);
            *customers.entry(&line.currency).or_default().entry(&line.customer).or_default() +=
                total;
            add(&mut report.revenue, line, total);
            let product = report.products.entry(line.product.clone()).or_default();
            product.quantity += u64::from(line.quantity);
            add(&mut product.revenue, line, total);
            let day = report.days.entry(line.day.clone()).or_default();
            add(&mut day.revenue, line, total);
        }
        report.orders = orders.len();
        for (name, orders) in orders_of_day {
            if let Some(day) = report.days.get_mut(name) {
                day.orders = orders.len();
            }
        }
        report.top_customers =
            customers.into_iter().map(|(currency, all)| (currency.to_owned(), top(all))).collect();
        report
    }
}

fn add(revenue: &mut Revenue, line: &OrderLine, total: Amount) {
    *revenue.entry(line.currency.clone()).or_default() += total;
}

/// The best first; equals by name, so that the same orders give the same report.
fn top(customers: BTreeMap<&str, Amount>) -> Vec<Customer> {
    let mut all: Vec<(&str, Amount)> = customers.into_iter().collect();
    all.sort_by(|one, other| other.1.cmp(&one.1).then(one.0.cmp(other.0)));
    all.into_iter()
        .take(TOP_CUSTOMERS)
        .map(|(customer, revenue)| Customer { customer: customer.to_owned(), revenue })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(order: &str, day: &str, customer: &str, price: &str, currency: &str) -> OrderLine {
        OrderLine::from_texts([order, day, customer, "Tea", "2", price, currency]).expect("a line")
    }

    #[test]
    fn lines_are_summed_by_currency_product_day_and_customer() {
        let report = Report::of(&[
            line("1", "2026-11-29", "Ann", "0.10", "EUR"),
            line("1", "2026-11-29", "Ann", "0.20", "EUR"),
            line("2", "2026-11-30", "Bob", "5", "EUR"),
            line("3", "2026-11-30", "Ann", "1.005", "USD"),
        ]);
        let value = serde_json::to_value(&report).expect("serializes");
        let expected = serde_json::json!({
            "orders": 3,
            "lines": 4,
            "revenue": { "EUR": "10.60", "USD": "2.01" },
            "products": { "Tea": { "quantity": 8, "revenue": { "EUR": "10.60", "USD": "2.01" } } },
            "days": {
                "2026-11-29": { "orders": 1, "revenue": { "EUR": "0.60" } },
                "2026-11-30": { "orders": 2, "revenue": { "EUR": "10.00", "USD": "2.01" } },
            },
            "top_customers": {
                "EUR": [
                    { "customer": "Bob", "revenue": "10.00" },
                    { "customer": "Ann", "revenue": "0.60" },
                ],
                "USD": [{ "customer": "Ann", "revenue": "2.01" }],
            },
        });
        assert_eq!(value, expected);
    }

    #[test]
    fn only_the_best_customers_are_listed() {
        let lines: Vec<_> =
            (0..9).map(|n| line("1", "2026-11-29", &format!("c{n}"), "1", "EUR")).collect();
        let report = Report::of(&lines);
        let names: Vec<_> = report.top_customers["EUR"].iter().map(|one| &one.customer).collect();
        assert_eq!(names, ["c0", "c1", "c2", "c3", "c4"]);
    }
}
