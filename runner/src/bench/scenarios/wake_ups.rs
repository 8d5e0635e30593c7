//! What wake-ups cost those who enqueue: a commit that notifies waits for a lock that all of them
//! want.

use futures::future::BoxFuture;
use stokehold_queue::WakeListener;
use stokehold_queue::bench::SLEEPER;
use tokio::task::JoinSet;

use super::{Bar, Found, Limit, Needs, Scenario, Stand};
use crate::bench::door::Door;
use crate::bench::load;
use crate::bench::workload::{Shape, Workload};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "wake-ups",
    about: "32 sessions enqueueing single jobs with a sleeper to be woken, against none",
    bars: &[Bar::ratio("with / without", Limit::Least(0.90))],
    needs: Needs::NOTHING,
    run,
};

fn run(stand: &Stand) -> BoxFuture<'_, anyhow::Result<Found>> {
    Box::pin(async move {
        let shape = Shape::BurnDown { jobs: stand.size(100_000, 3_000) };
        let workload = Workload { clients: 32, batch_jobs: 1, ..stand.workload(shape) };
        // It listens as a sleeping node does; nobody runs what comes in.
        let mut listener = WakeListener::connect(&stand.bed.database).await?;
        let mut listening = JoinSet::new();
        listening.spawn(async move { while listener.heard().await.is_ok() {} });
        let kind = stand.bed.kind(&workload.handler, false).await?;
        let door = Door::open(&stand.bed, &workload).await?;
        let caller = door.caller(&kind.name, &workload.payload)?;
        // Connections are opened, caches are filled.
        load::enqueue(&caller, &Shape::BurnDown { jobs: 500 }, 32, 1).await?;
        let (mut with, mut without) = (Vec::new(), Vec::new());
        for _ in 0..stand.size(5, 3) {
            for (asleep, rates) in [(false, &mut without), (true, &mut with)] {
                stand.bed.database.set_sleeping(SLEEPER, asleep).await?;
                let took = load::enqueue(&caller, &shape, workload.clients, 1).await?;
                rates.push(shape.jobs() as f64 / took.as_secs_f64());
            }
        }
        stand.bed.database.set_sleeping(SLEEPER, false).await?;
        drop(caller);
        door.close().await?;
        Ok(Found::ratio(&with, &without))
    })
}
