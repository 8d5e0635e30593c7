//! What wake-ups cost those who enqueue: a commit that notifies waits for a lock that all of them
//! want, so a node must not ask to be notified for longer than it waits.

use futures::future::BoxFuture;

use super::{Bar, Found, Limit, Needs, Scenario, Stand};
use crate::bench::door::Door;
use crate::bench::fleet::Fleet;
use crate::bench::load;
use crate::bench::wait;
use crate::bench::workload::{Shape, Workload};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "wake-ups",
    about: "32 sessions enqueueing single jobs for a node that is woken, against one that only polls",
    bars: &[Bar::ratio("with / without", Limit::Least(0.90))],
    needs: Needs::NOTHING,
    run,
};

fn run(stand: &Stand) -> BoxFuture<'_, anyhow::Result<Found>> {
    Box::pin(async move {
        let (mut with, mut without) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            without.push(rate(stand, &["--no-wake-ups"]).await?);
            with.push(rate(stand, &[]).await?);
        }
        Ok(Found::ratio(&with, &without))
    })
}

/// Jobs enqueued a second while a node with these flags runs them.
async fn rate(stand: &Stand, flags: &[&str]) -> anyhow::Result<f64> {
    let bed = &stand.bed;
    let shape = Shape::BurnDown { jobs: stand.size(20_000, 3_000) };
    let workload = Workload {
        clients: 32,
        batch_jobs: 1,
        node_flags: flags.iter().map(ToString::to_string).collect(),
        ..stand.workload(shape)
    };
    let fleet = Fleet::start(bed, &workload.fleet()).await?;
    let kind = bed.kind(&workload.handler, true).await?;
    let door = Door::open(bed, &workload).await?;
    let caller = door.caller(&kind.name, &workload.payload)?;
    // Connections are opened, caches are filled.
    let after = bed.database.newest_job().await?;
    load::enqueue(&caller, &Shape::BurnDown { jobs: 500 }, workload.clients, 1).await?;
    wait::until_done(&bed.database, &fleet, &[kind.id], after).await?;
    let after = bed.database.newest_job().await?;
    let took = load::enqueue(&caller, &shape, workload.clients, 1).await?;
    wait::until_done(&bed.database, &fleet, &[kind.id], after).await?;
    drop(caller);
    door.close().await?;
    fleet.stop().await?;
    Ok(shape.jobs() as f64 / took.as_secs_f64())
}
