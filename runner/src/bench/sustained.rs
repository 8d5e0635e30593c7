//! A load without end: the nodes always have more waiting than they can run, for as long as it goes.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use stokehold_queue::bench::Backlog;
use tokio::task::JoinSet;

use super::bed::Bed;
use super::door::{Caller, Door};
use super::fleet::Fleet;
use super::meter::{Meter, foreign_share};
use super::outcome::Outcome;
use super::workload::Workload;

/// What waits at least, in seconds of work.
const BACKLOG_S: f64 = 1.0;
/// And in jobs, before the rate is known and whatever it is.
const LEAST_BACKLOG_JOBS: i64 = 20_000;
/// How often the backlog is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// What a load without end came to.
pub(crate) struct Sustained {
    /// Of the jobs that ended.
    pub(crate) outcome: Outcome,
    /// What others took of the machine meanwhile.
    pub(crate) foreign_cpu_share: Option<f64>,
}

/// Runs a workload at full load for so long, whatever its shape says, and reads what ended. What is
/// left then is deleted.
pub(crate) async fn run(
    bed: &Bed,
    workload: &Workload,
    duration: Duration,
) -> anyhow::Result<Sustained> {
    let meter = Meter::find(bed).await?;
    let kind = bed.kind(&workload.handler, true).await?;
    let after = bed.database.newest_job().await?;
    let door = Door::open(bed, workload).await?;
    let mut backlog = Backlog::follow(&bed.database, kind.id).await?;
    let missing = Arc::new(AtomicI64::new(LEAST_BACKLOG_JOBS));
    let mut clients = JoinSet::new();
    for _ in 0..workload.clients {
        let caller = door.caller(&kind.name, &workload.payload)?;
        clients.spawn(keep_up(caller, workload.batch_jobs, Arc::clone(&missing)));
    }
    let fleet = Fleet::start(bed, &workload.fleet()).await?;
    let clock = meter.read(Some(&fleet), door.api());
    let begun = Instant::now();
    while begun.elapsed() < duration {
        fleet.check()?;
        if let Some(ended) = clients.try_join_next() {
            ended
                .context("a client panicked")
                .flatten()
                .context("the jobs could not be enqueued")?;
        }
        let waiting = backlog.waiting(&bed.database).await?;
        let per_s = waiting.claimed as f64 / begun.elapsed().as_secs_f64().max(1.0);
        let wanted = LEAST_BACKLOG_JOBS.max((per_s * BACKLOG_S) as i64);
        missing.store(wanted - waiting.jobs, Ordering::Relaxed);
        tokio::time::sleep(LOOK).await;
    }
    let foreign_cpu_share = foreign_share(&clock, &meter.read(Some(&fleet), door.api()));
    clients.shutdown().await;
    fleet.stop().await?;
    door.close().await?;
    let outcome = Outcome::read_ended(&bed.database, &[kind.id], after).await?;
    bed.database.remove_live(kind.id).await?;
    Ok(Sustained { outcome, foreign_cpu_share })
}

/// Enqueues what is missing.
async fn keep_up(caller: Caller, batch_jobs: usize, missing: Arc<AtomicI64>) -> anyhow::Result<()> {
    let batch = i64::try_from(batch_jobs)?;
    loop {
        if missing.fetch_sub(batch, Ordering::Relaxed) > 0 {
            caller.enqueue(batch_jobs).await?;
        } else {
            tokio::time::sleep(LOOK / 5).await;
        }
    }
}
