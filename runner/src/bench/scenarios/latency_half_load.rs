//! How soon jobs start while the system does half of what it can.

use futures::future::BoxFuture;
use serde_json::json;

use super::{Bar, Found, Limit, Needs, Scenario, Stand};
use crate::bench::sustained;
use crate::bench::workload::{Shape, Workload};

/// Calls a second that enqueue: what is left of the machine is for running jobs.
const CALLS_PER_S: f64 = 500.0;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "latency-half-load",
    about: "a steady load of half of what is enqueued and run at once at most: from enqueueing to start",
    bars: &[Bar::absolute("start p99 ms", Limit::Most(50.0))],
    needs: Needs::NOTHING,
    run,
};

fn run(stand: &Stand) -> BoxFuture<'_, anyhow::Result<Found>> {
    Box::pin(async move {
        // Of a machine that does both: a burn-down has it for running alone.
        let both = Workload { clients: 4, ..stand.burn_down(0) };
        let full = sustained::run(&stand.bed, &both, stand.time(10, 2)).await?;
        let full_jobs_per_s = full.outcome.jobs_per_s();
        let jobs_per_s = full_jobs_per_s / 2.0;
        let shape = Shape::Steady { jobs_per_s, duration: stand.time(20, 3) };
        let workload = Workload {
            clients: 8,
            batch_jobs: (jobs_per_s / CALLS_PER_S).ceil() as usize,
            warm_up: 1_000,
            ..stand.workload(shape)
        };
        let half = stand.run(&workload).await?;
        Ok(Found::one(
            half.enqueue_to_start_ms.p99,
            json!({
                "full_jobs_per_s": full_jobs_per_s,
                "jobs_per_s": half.jobs_per_s,
                "start_ms": half.enqueue_to_start_ms,
                "done_ms": half.enqueue_to_done_ms,
                "timeline": half.timeline,
            }),
        ))
    })
}
