//! The real handler's work: read an order, add it up, say the total.

use serde::{Deserialize, Serialize};

/// What a job of the no-op runs carries.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Noop {
    pub(crate) n: u64,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Order {
    pub(crate) id: u64,
    pub(crate) customer: String,
    pub(crate) currency: String,
    pub(crate) lines: Vec<Line>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Line {
    pub(crate) sku: String,
    pub(crate) name: String,
    pub(crate) quantity: u64,
    pub(crate) price_cents: u64,
}

#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Total {
    pub(crate) order: u64,
    pub(crate) lines: usize,
    pub(crate) total_cents: u64,
}

impl Order {
    pub(crate) fn total(&self) -> Total {
        let total_cents = self.lines.iter().map(|line| line.quantity * line.price_cents).sum();
        Total { order: self.id, lines: self.lines.len(), total_cents }
    }
}
