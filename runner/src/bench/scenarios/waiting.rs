//! What a large queue costs those in it whose turn it is.

use chrono::{TimeDelta, Utc};
use futures::future::BoxFuture;
use stokehold_queue::NewJob;

use super::{Bar, Found, Limit, Needs, Scenario, Stand};
use crate::bench::handler::Handler;

/// Jobs in one enqueueing call.
const CALL_JOBS: usize = 10_000;
/// Kinds that have no active release, so that their jobs wait.
const KINDS: usize = 10;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "waiting",
    about: "throughput beside a million waiting jobs, half scheduled, half of other kinds, against none",
    bars: &[Bar::ratio("with / without", Limit::Least(0.95))],
    needs: Needs { sibling: true, ..Needs::NOTHING },
    run,
};

fn run(stand: &Stand) -> BoxFuture<'_, anyhow::Result<Found>> {
    Box::pin(async move {
        let workload = stand.burn_down(stand.size(100_000, 4_000));
        let waiting = stand.size(1_000_000, 20_000);
        stand.bed.output.note(format!("Enqueueing {waiting} jobs that wait …"));
        let mut kinds = Vec::new();
        for _ in 0..KINDS {
            kinds.push(stand.bed.kind(&Handler::noop(), false).await?);
        }
        let tomorrow = Utc::now() + TimeDelta::days(1);
        for (call, from) in (0..waiting).step_by(CALL_JOBS).enumerate() {
            let job = NewJob {
                run_at: (call % 2 == 0).then_some(tomorrow),
                ..NewJob::new(&kinds[call / 2 % KINDS].name, workload.payload.clone())
            };
            let jobs = vec![job; CALL_JOBS.min(waiting - from)];
            stand.bed.database.enqueue(&jobs).await?;
        }
        stand.bed.database.settle_tables().await?;
        stand.against_sibling(&workload, 3).await
    })
}
