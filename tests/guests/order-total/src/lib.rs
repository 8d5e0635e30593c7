//! Reads an order, adds it up, says the total: the work that `tests/bench/peers` gives to every
//! queue, each in its own language.

use serde::{Deserialize, Serialize};
use stokehold_sdk::{Failure, Job};

// Fields that the sum does not need are parsed all the same, as the others do.
#[derive(Deserialize)]
#[expect(dead_code, reason = "all of an order is read, whatever is used of it")]
struct Order {
    id: u64,
    customer: String,
    currency: String,
    lines: Vec<Line>,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "all of an order is read, whatever is used of it")]
struct Line {
    sku: String,
    name: String,
    quantity: u64,
    price_cents: u64,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct Total {
    order: u64,
    lines: usize,
    total_cents: u64,
}

#[stokehold_sdk::handler]
fn add_up(job: Job<Order>) -> Result<Total, Failure> {
    Ok(total(&job.payload))
}

fn total(order: &Order) -> Total {
    let total_cents = order.lines.iter().map(|line| line.quantity * line.price_cents).sum();
    Total { order: order.id, lines: order.lines.len(), total_cents }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_the_sum_of_its_lines() {
        let order: Order = serde_json::from_str(
            r#"{"id": 7, "customer": "Ann", "currency": "EUR", "lines": [
                {"sku": "A", "name": "Mug", "quantity": 3, "price_cents": 1250},
                {"sku": "B", "name": "Tea", "quantity": 2, "price_cents": 90}]}"#,
        )
        .expect("an order");
        assert_eq!(total(&order), Total { order: 7, lines: 2, total_cents: 3930 });
    }
}
