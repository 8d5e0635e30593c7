//! How soon a single job starts on an idle node.

use std::time::Duration;

use anyhow::Context;
use futures::future::BoxFuture;
use serde_json::json;

use super::{Bar, Found, Limit, Needs, Scenario, Stand};
use crate::bench::handler::Handler;
use crate::bench::workload::{Singles, Workload};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "latency-idle",
    about: "single jobs, spaced out, on an idle node: from enqueueing to the handler's first instruction",
    bars: &[
        Bar::absolute("handler p50 ms", Limit::Most(1.6)),
        Bar::absolute("handler p99 ms", Limit::Most(3.0)),
    ],
    needs: Needs::NOTHING,
    run,
};

fn run(stand: &Stand) -> BoxFuture<'_, anyhow::Result<Found>> {
    Box::pin(async move {
        let mut workload = Workload { handler: Handler::clock(), ..stand.burn_down(100) };
        let jobs = stand.size(2_000, 50);
        workload.singles = Singles { jobs, spacing: Duration::from_millis(10) };
        let run = stand.run(&workload).await?;
        let handler = run.idle_enqueue_to_handler_ms.context("the handler told no time")?;
        Ok(Found {
            figures: vec![handler.p50, handler.p99],
            details: json!({
                "handler_ms": handler,
                "claim_ms": run.idle_enqueue_to_start_ms,
                "done_ms": run.idle_enqueue_to_done_ms,
            }),
        })
    })
}
