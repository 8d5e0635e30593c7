//! What one job costs when none can be claimed or settled together with others.

use futures::future::BoxFuture;

use super::{Bar, Found, Limit, Needs, Scenario, Stand, Yardstick};
use crate::bench::workload::Workload;

/// 5,000 jobs/s where bare SQL did 6,530.
const OF_BARE_SQL: f64 = 0.766;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "one-at-a-time",
    about: "no-op jobs, each claimed alone and settled alone, 16 slots, against bare SQL",
    bars: &[Bar::absolute("jobs/s / bare SQL", Limit::Least(OF_BARE_SQL))],
    needs: Needs::NOTHING,
    run,
};

fn run(stand: &Stand) -> BoxFuture<'_, anyhow::Result<Found>> {
    Box::pin(async move {
        let node_flags = ["--batch", "1"].map(str::to_owned).to_vec();
        let jobs = stand.size(10_000, 500);
        let workload = Workload { node_flags, slots: 16, ..stand.burn_down(jobs) };
        let yardstick = Yardstick { batch: 1, connections: 16 };
        stand.against_bare_sql(&workload, yardstick, stand.size(3, 1)).await
    })
}
