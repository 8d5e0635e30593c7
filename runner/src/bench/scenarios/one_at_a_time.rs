//! What one job costs when none can be claimed or settled together with others.

use futures::future::BoxFuture;
use serde_json::json;

use super::{Bar, Found, Limit, Needs, Scenario, Stand};
use crate::bench::percentiles::median;
use crate::bench::workload::Workload;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "one-at-a-time",
    about: "no-op jobs, each claimed alone and settled alone, 16 slots",
    bars: &[Bar::absolute("jobs/s", Limit::Least(5_000.0))],
    needs: Needs::NOTHING,
    run,
};

fn run(stand: &Stand) -> BoxFuture<'_, anyhow::Result<Found>> {
    Box::pin(async move {
        let flags = ["--batch", "1"].map(str::to_owned).to_vec();
        let workload =
            Workload { node_flags: flags, slots: 16, ..stand.burn_down(stand.size(50_000, 500)) };
        let rates = stand.rates(&workload, stand.size(3, 1)).await?;
        let middle = median(rates.iter().copied()).unwrap_or_default();
        Ok(Found::one(middle, json!({ "jobs_per_s": rates })))
    })
}
