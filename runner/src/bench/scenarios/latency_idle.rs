//! How soon a single job starts on an idle node.

use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::json;

use super::{Bar, Found, Limit, Needs, Scenario, Stand};
use crate::bench::workload::Singles;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "latency-idle",
    about: "single jobs, spaced out, on an idle node: from enqueueing to start",
    bars: &[
        Bar::absolute("start p50 ms", Limit::Most(1.6)),
        Bar::absolute("start p99 ms", Limit::Most(3.0)),
    ],
    needs: Needs::NOTHING,
    run,
};

fn run(stand: &Stand) -> BoxFuture<'_, anyhow::Result<Found>> {
    Box::pin(async move {
        let mut workload = stand.burn_down(100);
        let jobs = stand.size(2_000, 50);
        workload.singles = Singles { jobs, spacing: Duration::from_millis(10) };
        let run = stand.run(&workload).await?;
        let start = run.idle_enqueue_to_start_ms.unwrap_or_default();
        Ok(Found {
            figures: vec![start.p50, start.p99],
            details: json!({ "start_ms": start, "done_ms": run.idle_enqueue_to_done_ms }),
        })
    })
}
