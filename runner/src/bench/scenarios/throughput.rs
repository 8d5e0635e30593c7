//! How many no-op jobs a second one node and its database come to.

use futures::future::BoxFuture;

use super::{Bar, Found, Limit, Needs, Scenario, Stand, Yardstick};

/// 1.5 times the fastest queue of native code, which did 0.516 of bare SQL where the bar was set (41,346
/// of 80,063 jobs/s).
const OF_BARE_SQL: f64 = 0.775;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "throughput",
    about: "400,000 no-op jobs, each in a fresh sandbox, history kept, commits durable, against bare SQL",
    bars: &[Bar::absolute("jobs/s / bare SQL", Limit::Least(OF_BARE_SQL))],
    needs: Needs::NOTHING,
    run,
};

fn run(stand: &Stand) -> BoxFuture<'_, anyhow::Result<Found>> {
    Box::pin(async move {
        let jobs = stand.size(400_000, 4_000);
        let yardstick = Yardstick { batch: 100, connections: 4 };
        stand.against_bare_sql(&stand.burn_down(jobs), yardstick, stand.size(2, 1)).await
    })
}
