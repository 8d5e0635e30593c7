//! What a node asks of the database while there is nothing to do.

use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use serde_json::json;

use super::{Bar, Found, Limit, Needs, Scenario, Stand};
use crate::bench::fleet::Fleet;

/// Statements of our own between the two readings.
const OURS: f64 = 3.0;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "idle-cost",
    about: "statements a second of one idle node",
    bars: &[Bar::absolute("statements/s", Limit::Most(2.0))],
    needs: Needs { statements: true, ..Needs::NOTHING },
    run,
};

fn run(stand: &Stand) -> BoxFuture<'_, anyhow::Result<Found>> {
    Box::pin(async move {
        let fleet = Fleet::start(&stand.bed, &stand.burn_down(0).fleet()).await?;
        // It comes to rest first.
        tokio::time::sleep(Duration::from_secs(3)).await;
        let (before, begun) = (stand.bed.database.gauges().await?, Instant::now());
        let cpu_before = fleet.cpu();
        tokio::time::sleep(stand.time(20, 5)).await;
        let (after, seconds) = (stand.bed.database.gauges().await?, begun.elapsed().as_secs_f64());
        let cpu_us_per_s = (fleet.cpu() - cpu_before).as_secs_f64() * 1e6 / seconds;
        fleet.check()?;
        fleet.stop().await?;
        let transactions = (after.transactions - before.transactions) as f64;
        let statements =
            after.statements.zip(before.statements).map(|(to, from)| (to - from) as f64);
        // Each of a node's statements is a transaction of its own, or nearly so.
        let counted = statements.unwrap_or(transactions);
        Ok(Found::one(
            (counted - OURS).max(0.0) / seconds,
            json!({
                "statements": statements,
                "transactions": transactions,
                "seconds": seconds,
                "node_cpu_us_per_s": cpu_us_per_s,
            }),
        ))
    })
}
