//! `stokehold bench`: how fast this machine and its PostgreSQL run sandboxed jobs.
//!
//! Two parts on a durable database of its own (or the one given). *Burn-down*: all jobs are enqueued
//! before the runner starts; the rate is jobs over the time from the first claim to the last recorded
//! outcome. *Latency*: single jobs, spaced out, on an idle runner; the percentiles are of the times
//! that the database itself wrote down, so no clock of ours is compared with its.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::ValueEnum;
use hdrhistogram::Histogram;
use serde::Serialize;
use stokehold_domain::{Blob, Digest, JobId, KindId, Limits};
use stokehold_node::Node;
use stokehold_queue::bench::JobTimes;
use stokehold_queue::{Database, DatabaseOptions, KindPolicy, NewJob, NewModule};
use stokehold_sandbox::Sandbox;
use tokio_util::sync::CancellationToken;

use super::database::DatabaseArgs;
use super::output::Output;
use crate::dev::{self, DatabaseChoice};
use crate::services::{self, NodeArgs};

/// Jobs in one enqueueing call.
const BATCH: usize = 1_000;
/// How long nothing may end before the benchmark gives up.
const STALLED: Duration = Duration::from_secs(60);

/// Measure how fast this machine and database are
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  stokehold bench
  stokehold bench --jobs 100000 --slots 16 --handler noop-command --json

It runs on a durable database of its own, thrown away at the end; with --database-url or
DATABASE_URL on that one, in kinds whose names begin with `bench.`.")]
pub(crate) struct Args {
    /// Jobs to burn down
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    jobs: usize,
    /// Single jobs to measure the latency with
    #[arg(long, value_name = "N", default_value_t = 500)]
    latency_jobs: usize,
    /// Time between those
    #[arg(long, value_name = "DURATION", default_value = "10ms", value_parser = super::units::parse_duration)]
    spacing: Duration,
    /// Bytes in each payload
    #[arg(long, value_name = "N", default_value_t = 10)]
    payload_bytes: usize,
    /// The handler, which does nothing
    #[arg(long, value_enum, default_value = "noop")]
    handler: Handler,
    #[command(flatten)]
    node: NodeArgs,
    #[command(flatten)]
    database: DatabaseArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Handler {
    /// A component of the typed contract
    Noop,
    /// A WASI command
    NoopCommand,
}

impl Handler {
    fn bytes(self) -> &'static [u8] {
        match self {
            Handler::Noop => include_bytes!(concat!(env!("OUT_DIR"), "/noop.wasm")),
            Handler::NoopCommand => include_bytes!(concat!(env!("OUT_DIR"), "/noop-command.wasm")),
        }
    }
}

#[derive(Serialize)]
struct Report {
    jobs: usize,
    slots: usize,
    payload_bytes: usize,
    handler: String,
    enqueue_jobs_per_s: f64,
    burn_down_s: f64,
    jobs_per_s: f64,
    latency_jobs: usize,
    enqueue_to_start_ms: Percentiles,
    enqueue_to_done_ms: Percentiles,
    cores: usize,
}

#[derive(Serialize)]
struct Percentiles {
    p50: f64,
    p95: f64,
    p99: f64,
    max: f64,
}

impl Percentiles {
    /// Three digits are kept, which is more than two runs agree in.
    fn of(seconds: impl Iterator<Item = f64>) -> anyhow::Result<Percentiles> {
        let mut microseconds = Histogram::<u64>::new(3)?;
        for value in seconds {
            microseconds.record((value.max(0.0) * 1e6) as u64)?;
        }
        let ms = |quantile| microseconds.value_at_quantile(quantile) as f64 / 1e3;
        Ok(Percentiles {
            p50: ms(0.5),
            p95: ms(0.95),
            p99: ms(0.99),
            max: microseconds.max() as f64 / 1e3,
        })
    }
}

/// Runs both parts and prints the figures.
pub(crate) async fn run(args: Args, output: &Output) -> anyhow::Result<()> {
    args.node.config().check()?;
    if args.jobs == 0 {
        bail!("--jobs is 0: there is nothing to measure");
    }
    let choice = match args.database.url() {
        Some(url) => DatabaseChoice::Url(url),
        None => DatabaseChoice::Scratch,
    };
    let opened = dev::open_database(choice).await?;
    let report = tokio::select! {
        report = measure(&args, &opened.url, output) => report,
        _ = tokio::signal::ctrl_c() => Err(super::fault::Fault::interrupted().into()),
    };
    opened.close().await?;
    let report = report?;
    if output.is_json() {
        output.document(&report)?;
        return Ok(());
    }
    let percentiles = |p: &Percentiles| {
        format!("p50 {:.2}   p95 {:.2}   p99 {:.2}   max {:.2} ms", p.p50, p.p95, p.p99, p.max)
    };
    output.fields(&[
        (
            "throughput",
            format!(
                "{:.0} jobs/s ({} jobs in {:.2} s, {} slots, {} cores)",
                report.jobs_per_s, report.jobs, report.burn_down_s, report.slots, report.cores
            ),
        ),
        ("enqueueing", format!("{:.0} jobs/s", report.enqueue_jobs_per_s)),
        ("enqueue to start", percentiles(&report.enqueue_to_start_ms)),
        ("enqueue to done", percentiles(&report.enqueue_to_done_ms)),
    ])?;
    Ok(())
}

async fn measure(args: &Args, url: &str, output: &Output) -> anyhow::Result<Report> {
    let options = DatabaseOptions::from_url(url)?;
    let database = Database::connect(options.clone()).await?;
    database.migrate().await?;
    let sandbox = args.node.sandbox().await?;
    let kind = prepare(&database, &sandbox, args).await?;
    let name = kind.1.clone();
    let job = |_| NewJob::new(name.clone(), Blob::json(payload(args.payload_bytes)));

    output.note(format!("Enqueueing {} jobs …", args.jobs));
    let begun = Instant::now();
    let mut first = None;
    for from in (0..args.jobs).step_by(BATCH) {
        let jobs: Vec<NewJob> = (from..args.jobs.min(from + BATCH)).map(job).collect();
        let ids = database.enqueue(&jobs).await?;
        first = first.or(ids.first().copied());
    }
    let before = JobId(first.map_or(0, |id| id.0 - 1));
    let enqueue_s = begun.elapsed().as_secs_f64();

    output.note("Burning them down …");
    let stop = CancellationToken::new();
    let config = args.node.config();
    let node = Node::new(services::node_pool(&options, &config), sandbox, config)?;
    let mut registered = node.registered();
    let node = tokio::spawn({
        let stop = stop.clone();
        async move { node.run(stop).await }
    });
    let _guard = stop.drop_guard_ref();
    registered.wait_for(Option::is_some).await.context("the runner did not start")?;
    wait_until_done(&database, kind.0).await?;
    let times = database.job_times(kind.0, before).await?;
    if times.len() != args.jobs {
        bail!("{} of {} jobs have ended", times.len(), args.jobs);
    }
    let burn_down_s = span(&times);
    let last = JobId(before.0 + i64::try_from(args.jobs)?);

    output.note(format!("Measuring the latency with {} single jobs …", args.latency_jobs));
    for n in 0..args.latency_jobs {
        tokio::time::sleep(args.spacing).await;
        database.enqueue(&[job(n)]).await?;
    }
    wait_until_done(&database, kind.0).await?;
    let singles = database.job_times(kind.0, last).await?;
    stop.cancel();
    node.await??;
    database.close().await;
    Ok(Report {
        jobs: args.jobs,
        slots: args.node.slots,
        payload_bytes: args.payload_bytes,
        handler: args
            .handler
            .to_possible_value()
            .map_or_else(String::new, |v| v.get_name().to_owned()),
        enqueue_jobs_per_s: args.jobs as f64 / enqueue_s,
        burn_down_s,
        jobs_per_s: args.jobs as f64 / burn_down_s,
        latency_jobs: singles.len(),
        enqueue_to_start_ms: Percentiles::of(singles.iter().map(|job| job.start_s))?,
        enqueue_to_done_ms: Percentiles::of(singles.iter().map(|job| job.done_s))?,
        cores: std::thread::available_parallelism().map_or(0, usize::from),
    })
}

/// A kind of its own for the run, so that what stands in the database already does not count.
async fn prepare(
    database: &Database,
    sandbox: &Sandbox,
    args: &Args,
) -> anyhow::Result<(KindId, String)> {
    let bytes = args.handler.bytes();
    let admission = sandbox.admit(bytes)?;
    let report = serde_json::to_value(&admission)?;
    let digest: Digest = admission.digest;
    database.put_module(NewModule { digest, bytes, report: &report }).await?;
    let name = format!("bench.{}", std::process::id());
    let (kind, _) = database.put_kind(&name, &KindPolicy::default()).await?;
    database.create_release(&name, digest, &Limits::DEFAULT, true).await?;
    Ok((kind.id, name))
}

/// A JSON string of about that many bytes.
fn payload(bytes: usize) -> Vec<u8> {
    format!("\"{}\"", "x".repeat(bytes.saturating_sub(2))).into_bytes()
}

async fn wait_until_done(database: &Database, kind: KindId) -> anyhow::Result<()> {
    let (mut left, mut moved_at) = (i64::MAX, Instant::now());
    loop {
        let now = database.count_live(kind).await?;
        if now == 0 {
            return Ok(());
        }
        if now < left {
            (left, moved_at) = (now, Instant::now());
        }
        if moved_at.elapsed() > STALLED {
            bail!("{now} jobs are left and none has ended for {} s", STALLED.as_secs());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// From the first start to the last outcome, in seconds.
fn span(times: &[JobTimes]) -> f64 {
    let starts = times.iter().map(|job| job.enqueued_s + job.start_s);
    let ends = times.iter().map(|job| job.enqueued_s + job.done_s);
    ends.fold(f64::MIN, f64::max) - starts.fold(f64::MAX, f64::min)
}
