//! How soon a single job's handler begins on an idle node.

use std::time::Duration;

use anyhow::Context;
use futures::future::BoxFuture;
use serde_json::json;

use super::{Bar, Found, Limit, Needs, Scenario, Stand};
use crate::bench::handler::Handler;
use crate::bench::percentiles::Times;
use crate::bench::workload::{Singles, Workload};

const SPACING: Duration = Duration::from_millis(10);
/// Where the bar was set: 1.6 ms where notifying and claiming in bare SQL took 1.06.
const P50_OF_BARE_SQL: f64 = 1.51;
/// And 3.0 ms where that took 1.49.
const P99_OF_BARE_SQL: f64 = 2.01;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "latency-idle",
    about: "single jobs on an idle node: until the handler's first instruction, against bare NOTIFY and claim",
    bars: &[
        Bar::absolute("handler p50 / bare SQL", Limit::Most(P50_OF_BARE_SQL)),
        Bar::absolute("handler p99 / bare SQL", Limit::Most(P99_OF_BARE_SQL)),
    ],
    needs: Needs::NOTHING,
    run,
};

fn run(stand: &Stand) -> BoxFuture<'_, anyhow::Result<Found>> {
    Box::pin(async move {
        let mut workload = Workload { handler: Handler::clock(), ..stand.burn_down(100) };
        let jobs = stand.size(1_500, 50);
        workload.singles = Singles { jobs, spacing: SPACING };
        let mut bare = Times::precise()?;
        for time in stand.bed.database.yardstick_latency(jobs, SPACING).await? {
            bare.add(time.as_secs_f64())?;
        }
        let bare = bare.percentiles().context("bare SQL took no time")?;
        let run = stand.run(&workload).await?;
        let handler = run.idle_enqueue_to_handler_ms.context("the handler told no time")?;
        Ok(Found {
            figures: vec![handler.p50 / bare.p50, handler.p99 / bare.p99],
            details: json!({
                "handler_ms": handler,
                "bare_sql_ms": bare,
                "claim_ms": run.idle_enqueue_to_start_ms,
                "done_ms": run.idle_enqueue_to_done_ms,
            }),
        })
    })
}
