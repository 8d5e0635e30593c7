//! How soon a quiet kind's jobs start while another kind floods every slot.

use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::json;
use stokehold_domain::Blob;

use super::{Bar, Found, Limit, Needs, Scenario, Stand};
use crate::bench::door::Door;
use crate::bench::fleet::Fleet;
use crate::bench::handler::Handler;
use crate::bench::load;
use crate::bench::outcome::Outcome;
use crate::bench::wait;

/// Between two of the quiet kind's jobs.
const SPACING: Duration = Duration::from_millis(20);

pub(super) const SCENARIO: Scenario = Scenario {
    name: "flood",
    about: "single jobs of a quiet kind beside 100,000 of another that take every slot",
    // A look a second finds the quiet kind anew; then it takes turns with the other.
    bars: &[Bar::absolute("quiet start p99 ms", Limit::Most(1_200.0))],
    needs: Needs::NOTHING,
    run,
};

fn run(stand: &Stand) -> BoxFuture<'_, anyhow::Result<Found>> {
    Box::pin(async move {
        let (bed, jobs) = (&stand.bed, stand.size(100_000, 3_000));
        let mut workload = stand.burn_down(jobs);
        workload.handler = Handler::sleep();
        workload.payload = Blob::json("5");
        let (flood, quiet) =
            (bed.kind(&workload.handler, false).await?, bed.kind(&Handler::noop(), true).await?);
        let door = Door::open(bed, &workload).await?;
        let (pouring, dripping) = (
            door.caller(&flood.name, &workload.payload)?,
            door.caller(&quiet.name, &Blob::json("1"))?,
        );
        let after = bed.database.newest_job().await?;
        load::enqueue(&pouring, &workload.shape, 1, workload.batch_jobs).await?;
        let fleet = Fleet::start(bed, &workload.fleet()).await?;
        bed.activate(&flood).await?;
        // What comes before the flood has begun or after its end says nothing.
        while bed.database.job_span(&[flood.id], after).await?.is_none() {
            tokio::time::sleep(SPACING).await;
        }
        let before = bed.database.newest_job().await?;
        let mut drops = 0;
        while bed.database.any_live(&[flood.id], after).await? {
            fleet.check()?;
            dripping.enqueue(1).await?;
            drops += 1;
            tokio::time::sleep(SPACING).await;
        }
        wait::until_done(&bed.database, &fleet, &[flood.id, quiet.id], after).await?;
        fleet.stop().await?;
        drop((pouring, dripping));
        door.close().await?;
        let quiet = Outcome::read(&bed.database, &[quiet.id], before, drops).await?;
        let flood = Outcome::read(&bed.database, &[flood.id], after, jobs).await?;
        let start = quiet.start.percentiles().unwrap_or_default();
        Ok(Found::one(
            start.p99,
            json!({
                "quiet_jobs": drops,
                "quiet_start_ms": start,
                "flood_jobs_per_s": flood.jobs_per_s(),
            }),
        ))
    })
}
