//! How many no-op jobs a second one node and its database come to.

use futures::future::BoxFuture;
use serde_json::json;

use super::{Bar, Found, Limit, Needs, Scenario, Stand};
use crate::bench::percentiles::median;

/// 1.5 times the fastest queue of native code on the same machine and server (41,300 jobs/s).
const BAR_JOBS_PER_S: f64 = 62_000.0;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "throughput",
    about: "400,000 no-op jobs, each in a fresh sandbox, history kept, commits durable",
    bars: &[Bar::absolute("jobs/s", Limit::Least(BAR_JOBS_PER_S))],
    needs: Needs::NOTHING,
    run,
};

fn run(stand: &Stand) -> BoxFuture<'_, anyhow::Result<Found>> {
    Box::pin(async move {
        let workload = stand.burn_down(stand.size(400_000, 2_000));
        let rates = stand.rates(&workload, stand.size(3, 1)).await?;
        let middle = median(rates.iter().copied()).unwrap_or_default();
        Ok(Found::one(middle, json!({ "jobs_per_s": rates })))
    })
}
