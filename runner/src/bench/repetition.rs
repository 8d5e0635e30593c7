//! One run of a workload: from empty tables to figures.

use std::time::Duration;

use serde::Serialize;
use stokehold_domain::KindLimits;
use stokehold_queue::bench::DatabaseGauges;

use super::bed::{Bed, BenchKind};
use super::door::{Caller, Door};
use super::fleet::{Fleet, FleetOptions};
use super::load;
use super::meter::{CpuReading, Meter, Work};
use super::outcome::{Bucket, Outcome};
use super::percentiles::Percentiles;
use super::wait;
use super::workload::{Entrance, Shape, Singles, Workload, usual_batch_jobs};

/// What a session of the server that ended may take to hand in what it counted.
const COUNTED: Duration = Duration::from_millis(300);

/// The figures of one run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Repetition {
    pub(crate) jobs: usize,
    /// From the first start to the last recorded outcome.
    pub(crate) span_s: f64,
    pub(crate) jobs_per_s: f64,
    pub(crate) enqueue_jobs_per_s: f64,
    /// Last third of the run over the first.
    pub(crate) flatness: f64,
    /// Of the load itself.
    pub(crate) enqueue_to_start_ms: Percentiles,
    pub(crate) enqueue_to_done_ms: Percentiles,
    /// Of single jobs on the idle fleet afterwards.
    pub(crate) idle_enqueue_to_start_ms: Option<Percentiles>,
    /// To the handler's first instruction, by its own clock, if it tells.
    pub(crate) idle_enqueue_to_handler_ms: Option<Percentiles>,
    pub(crate) idle_enqueue_to_done_ms: Option<Percentiles>,
    /// Of running the jobs; when they do not wait for each other, of enqueueing them too.
    #[serde(flatten)]
    pub(crate) work: Work,
    /// Of enqueueing, when that comes first.
    pub(crate) enqueue: Option<Work>,
    pub(crate) timeline: Vec<Bucket>,
}

/// Runs a workload once.
pub(crate) async fn run(bed: &Bed, workload: &Workload) -> anyhow::Result<Repetition> {
    let meter = Meter::find(bed).await?;
    let measured = if workload.shape.holds_back() {
        burn_down(bed, workload, &meter).await?
    } else {
        paced(bed, workload, &meter).await?
    };
    let Measured { outcome, enqueued_in, enqueue, work } = measured;
    let idle = match workload.singles {
        Singles { jobs: 0, .. } => None,
        singles => Some(measure_idle(bed, workload, singles).await?),
    };
    Ok(Repetition {
        jobs: outcome.jobs,
        span_s: outcome.span_s,
        jobs_per_s: outcome.jobs_per_s(),
        enqueue_jobs_per_s: outcome.jobs as f64 / enqueued_in.as_secs_f64(),
        flatness: outcome.flatness(),
        enqueue_to_start_ms: outcome.start.percentiles().unwrap_or_default(),
        enqueue_to_done_ms: outcome.done.percentiles().unwrap_or_default(),
        idle_enqueue_to_start_ms: idle.as_ref().and_then(|idle| idle.start.percentiles()),
        idle_enqueue_to_handler_ms: idle.as_ref().and_then(|idle| idle.handler.percentiles()),
        idle_enqueue_to_done_ms: idle.as_ref().and_then(|idle| idle.done.percentiles()),
        work,
        enqueue,
        timeline: outcome.timeline,
    })
}

struct Measured {
    outcome: Outcome,
    enqueued_in: Duration,
    enqueue: Option<Work>,
    work: Work,
}

/// The jobs are there and the nodes are up before the first job may run, so that neither enqueueing
/// nor starting is part of the figures.
async fn burn_down(bed: &Bed, workload: &Workload, meter: &Meter) -> anyhow::Result<Measured> {
    let kind = bed.kind(&workload.handler, false).await?;
    if workload.features.limits != KindLimits::default() {
        bed.limit(&kind, &workload.features.limits).await?;
    }
    let after = bed.database.newest_job().await?;
    let jobs = workload.shape.jobs();
    bed.output.note(format!("Enqueueing {jobs} jobs …"));
    let door = Door::open(bed, workload).await?;
    let caller = door.caller(&kind.name, &workload.payload)?.using(&workload.features);
    let before = (meter.read(None, door.api()), bed.database.gauges().await?);
    let enqueued_in =
        load::enqueue(&caller, &workload.shape, workload.clients, workload.batch_jobs).await?;
    let clock = meter.read(None, door.api());
    drop(caller);
    door.close().await?;
    let counters = counted(bed).await?;
    let enqueue = Work::between((&before.0, &clock), (&before.1, &counters), jobs);

    let fleet = Fleet::start(bed, &workload.fleet()).await?;
    warm_up(bed, workload, &fleet).await?;
    bed.output.note("Burning them down …");
    let before = (meter.read(Some(&fleet), None), bed.database.gauges().await?);
    bed.activate(&kind).await?;
    wait::until_done(&bed.database, &fleet, &[kind.id], after).await?;
    let clock = meter.read(Some(&fleet), None);
    fleet.stop().await?;
    let work = finish(bed, (&before.0, &before.1), &clock, jobs).await?;
    let outcome = Outcome::read(&bed.database, &[kind.id], after, jobs).await?;
    Ok(Measured { outcome, enqueued_in, enqueue: Some(enqueue), work })
}

/// The jobs come while the nodes run.
async fn paced(bed: &Bed, workload: &Workload, meter: &Meter) -> anyhow::Result<Measured> {
    let fleet = Fleet::start(bed, &workload.fleet()).await?;
    warm_up(bed, workload, &fleet).await?;
    let kind = bed.kind(&workload.handler, true).await?;
    let door = Door::open(bed, workload).await?;
    let caller = door.caller(&kind.name, &workload.payload)?.using(&workload.features);
    let after = bed.database.newest_job().await?;
    let jobs = workload.shape.jobs();
    bed.output.note(format!("Enqueueing {jobs} jobs while they are run …"));
    let before = (meter.read(Some(&fleet), door.api()), bed.database.gauges().await?);
    let enqueued_in =
        load::enqueue(&caller, &workload.shape, workload.clients, workload.batch_jobs).await?;
    wait::until_done(&bed.database, &fleet, &[kind.id], after).await?;
    let clock = meter.read(Some(&fleet), door.api());
    drop(caller);
    door.close().await?;
    fleet.stop().await?;
    let work = finish(bed, (&before.0, &before.1), &clock, jobs).await?;
    let outcome = Outcome::read(&bed.database, &[kind.id], after, jobs).await?;
    Ok(Measured { outcome, enqueued_in, enqueue: None, work })
}

async fn finish(
    bed: &Bed,
    before: (&CpuReading, &DatabaseGauges),
    clock: &CpuReading,
    jobs: usize,
) -> anyhow::Result<Work> {
    let counters = counted(bed).await?;
    Ok(Work::between((before.0, clock), (before.1, &counters), jobs))
}

/// The counters once those who worked have gone: only then have they handed in all of it.
async fn counted(bed: &Bed) -> anyhow::Result<DatabaseGauges> {
    tokio::time::sleep(COUNTED).await;
    Ok(bed.database.gauges().await?)
}

/// Jobs before the measurement, of a kind of their own: code is compiled, pools are filled.
async fn warm_up(bed: &Bed, workload: &Workload, fleet: &Fleet) -> anyhow::Result<()> {
    if workload.warm_up == 0 {
        return Ok(());
    }
    bed.output.note(format!("Warming up with {} jobs …", workload.warm_up));
    let kind = bed.kind(&workload.handler, true).await?;
    let shape = Shape::BurnDown { jobs: workload.warm_up };
    let batched = Workload { entrance: Entrance::Sql, ..workload.clone() };
    let door = Door::open(bed, &batched).await?;
    let caller = door.caller(&kind.name, &workload.payload)?;
    let after = bed.database.newest_job().await?;
    let batch_jobs = usual_batch_jobs(workload.payload.bytes.len());
    load::enqueue(&caller, &shape, 1, batch_jobs).await?;
    wait::until_done(&bed.database, fleet, &[kind.id], after).await?;
    drop(caller);
    door.close().await
}

/// Single jobs on a fleet that has nothing else to do.
async fn measure_idle(bed: &Bed, workload: &Workload, singles: Singles) -> anyhow::Result<Outcome> {
    let fleet = Fleet::start(bed, &workload.fleet()).await?;
    let kind = bed.kind(&workload.handler, true).await?;
    let door = Door::open(bed, workload).await?;
    bed.output.note(format!("Measuring the latency with {} single jobs …", singles.jobs));
    let caller = door.caller(&kind.name, &workload.payload)?;
    let outcome = single_jobs(bed, &fleet, &caller, &kind, singles).await?;
    drop(caller);
    door.close().await?;
    fleet.stop().await?;
    Ok(outcome)
}

/// Runs single jobs, spaced out. One goes ahead and does not count: it finds the code not yet
/// compiled.
pub(crate) async fn single_jobs(
    bed: &Bed,
    fleet: &Fleet,
    caller: &Caller,
    kind: &BenchKind,
    singles: Singles,
) -> anyhow::Result<Outcome> {
    let before = bed.database.newest_job().await?;
    caller.enqueue(1).await?;
    wait::until_done(&bed.database, fleet, &[kind.id], before).await?;
    let after = bed.database.newest_job().await?;
    for _ in 0..singles.jobs {
        tokio::time::sleep(singles.spacing).await;
        caller.enqueue(1).await?;
    }
    wait::until_done(&bed.database, fleet, &[kind.id], after).await?;
    Outcome::read(&bed.database, &[kind.id], after, singles.jobs).await
}

impl Workload {
    /// The nodes that it wants.
    pub(crate) fn fleet(&self) -> FleetOptions {
        FleetOptions {
            nodes: self.nodes,
            slots: self.slots,
            flags: self.node_flags.clone(),
            url: self.node_url.clone(),
        }
    }
}
