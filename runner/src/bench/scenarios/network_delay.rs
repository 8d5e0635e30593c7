//! What a database that is some way off costs.

use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::json;

use super::{Bar, Found, Limit, Needs, Scenario, Stand};
use crate::bench::proxy::Proxy;
use crate::bench::workload::{Singles, Workload};

/// Each way: as between two regions that are near each other.
const DELAY: Duration = Duration::from_millis(5);

pub(super) const SCENARIO: Scenario = Scenario {
    name: "network-delay",
    about: "throughput of a node that is 5 ms away from the database each way, against none",
    bars: &[Bar::ratio("with / without", Limit::Least(0.5))],
    needs: Needs::NOTHING,
    run,
};

fn run(stand: &Stand) -> BoxFuture<'_, anyhow::Result<Found>> {
    Box::pin(async move {
        let near = stand.burn_down(stand.size(100_000, 4_000));
        let proxy = Proxy::start(&stand.bed, DELAY).await?;
        let far = Workload { node_url: Some(proxy.url().to_owned()), ..near.clone() };
        let (mut with, mut without) = (Vec::new(), Vec::new());
        for _ in 0..2 {
            without.push(stand.run(&near).await?.jobs_per_s);
            with.push(stand.run(&far).await?.jobs_per_s);
        }
        let jobs = stand.size(200, 20);
        let singles = Singles { jobs, spacing: Duration::from_millis(50) };
        let idle =
            stand.run(&Workload { singles, shape: stand.burn_down(100).shape, ..far }).await?;
        let mut found = Found::ratio(&with, &without);
        found.details["idle_start_ms"] = json!(idle.idle_enqueue_to_start_ms);
        found.details["idle_done_ms"] = json!(idle.idle_enqueue_to_done_ms);
        Ok(found)
    })
}
