//! A load without end: the nodes always have more waiting than they can run, for as long as it goes.

use std::time::{Duration, Instant};

use super::bed::Bed;
use super::door::Door;
use super::fleet::Fleet;
use super::outcome::Outcome;
use super::workload::Workload;

/// What waits at least, in seconds of work. The counter by which it is kept is a second old.
const BACKLOG_S: f64 = 3.0;
/// And in jobs, before the rate is known.
const LEAST_BACKLOG_JOBS: f64 = 20_000.0;
/// How long to wait when enough waits.
const PAUSE: Duration = Duration::from_millis(20);

/// Runs a workload at full load for so long, whatever its shape says, and reads what ended. What is
/// left then is deleted.
pub(crate) async fn run(
    bed: &Bed,
    workload: &Workload,
    duration: Duration,
) -> anyhow::Result<Outcome> {
    let kind = bed.kind(&workload.handler, true).await?;
    let after = bed.database.newest_job().await?;
    let fleet = Fleet::start(bed, &workload.fleet()).await?;
    let door = Door::open(bed, workload).await?;
    let caller = door.caller(&kind.name, &workload.payload)?;
    let begun = Instant::now();
    let (mut enqueued, ended_before) = (0, bed.database.ended_so_far().await?);
    while begun.elapsed() < duration {
        fleet.check()?;
        let ended = (bed.database.ended_so_far().await? - ended_before).max(0) as f64;
        let per_s = ended / begun.elapsed().as_secs_f64().max(1.0);
        let wanted = (per_s * BACKLOG_S).max(LEAST_BACKLOG_JOBS);
        if enqueued as f64 - ended < wanted {
            caller.enqueue(workload.batch_jobs).await?;
            enqueued += workload.batch_jobs;
        } else {
            tokio::time::sleep(PAUSE).await;
        }
    }
    drop(caller);
    fleet.stop().await?;
    door.close().await?;
    let outcome = Outcome::read_ended(&bed.database, &[kind.id], after).await?;
    bed.database.remove_live(kind.id).await?;
    Ok(outcome)
}
