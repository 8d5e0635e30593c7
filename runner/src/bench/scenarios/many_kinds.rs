//! What it costs when every job is of another kind, with other code.

use futures::future::BoxFuture;
use serde_json::json;
use stokehold_domain::KindId;
use stokehold_queue::NewJob;

use super::{Bar, Found, Limit, Needs, Scenario, Stand};
use crate::bench::bed::BenchKind;
use crate::bench::fleet::Fleet;
use crate::bench::outcome::Outcome;
use crate::bench::wait;
use crate::bench::workload::BATCH_JOBS;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "many-kinds",
    about: "jobs of 1,000 kinds with different modules in turn, code compiled, against one kind",
    bars: &[Bar::ratio("1,000 kinds / one", Limit::Least(0.5))],
    needs: Needs::NOTHING,
    run,
};

fn run(stand: &Stand) -> BoxFuture<'_, anyhow::Result<Found>> {
    Box::pin(async move {
        let (bed, jobs) = (&stand.bed, stand.size(60_000, 3_000));
        let number = stand.size(1_000, 50);
        let workload = stand.burn_down(jobs);
        bed.output.note(format!("Making {number} kinds …"));
        let mut kinds = Vec::new();
        for n in 0..u32::try_from(number)? {
            kinds.push(bed.kind(&workload.handler.variant(n), true).await?);
        }
        let one = [bed.kind(&workload.handler, true).await?];
        let fleet = Fleet::start(bed, &workload.fleet()).await?;
        // The first job of each kind finds its code not yet compiled.
        let cold = spread(stand, &fleet, &kinds, number).await?;
        spread(stand, &fleet, &one, 1).await?;
        let (mut many, mut single) = (Vec::new(), Vec::new());
        for _ in 0..2 {
            single.push(spread(stand, &fleet, &one, jobs).await?.jobs_per_s());
            many.push(spread(stand, &fleet, &kinds, jobs).await?.jobs_per_s());
        }
        fleet.stop().await?;
        let mut found = Found::ratio(&many, &single);
        found.details["kinds"] = json!(number);
        found.details["first_job_of_each_s"] = json!(cold.span_s);
        Ok(found)
    })
}

/// Enqueues jobs of the kinds in turn while the nodes run, and waits for the last.
async fn spread(
    stand: &Stand,
    fleet: &Fleet,
    kinds: &[BenchKind],
    jobs: usize,
) -> anyhow::Result<Outcome> {
    let (database, payload) = (&stand.bed.database, stand.burn_down(0).payload);
    let after = database.newest_job().await?;
    let ids: Vec<KindId> = kinds.iter().map(|kind| kind.id).collect();
    let all: Vec<NewJob> =
        (0..jobs).map(|n| NewJob::new(&kinds[n % kinds.len()].name, payload.clone())).collect();
    for batch in all.chunks(BATCH_JOBS) {
        database.enqueue(batch).await?;
    }
    wait::until_done(database, fleet, &ids, after).await?;
    Outcome::read(database, &ids, after, jobs).await
}
