//! `stokehold demo`: everything at work, by way of the same API that everybody uses.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use stokehold_api::wire::{Job, JobBatch, NewRelease};
use stokehold_domain::JobId;

use super::output::Output;
use super::text::one_line;
use super::units;
use crate::client::Client;
use crate::demo::scenes::{self, Scene};
use crate::dev::{DatabaseChoice, Dev, Options};
use crate::services::{self, NodeArgs};
use crate::shutdown;
use crate::telemetry::LogArgs;

/// How long all jobs may take; they take seconds.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long one look at a job waits for its end.
const POLL: Duration = Duration::from_secs(20);

/// See it at work: real handlers, real jobs, and what becomes of handlers that misbehave
#[derive(clap::Args, Debug)]
#[command(after_help = "\
`make demo` builds the handlers first. The database is a fresh one, thrown away at the end.")]
pub(crate) struct Args {
    /// End when the jobs have ended, and fail if one did not end as it should
    #[arg(long)]
    exit: bool,
    /// The folder with the demo's handlers
    #[arg(long, value_name = "FOLDER", default_value = "target/guests")]
    guests: PathBuf,
    /// The address to listen on; with --exit any free one
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    #[command(flatten)]
    node: NodeArgs,
    #[command(flatten)]
    log: LogArgs,
}

/// Runs the demo, and the server until told to stop.
pub(crate) async fn run(args: Args, output: &Output) -> anyhow::Result<()> {
    args.log.start(true)?;
    let stop = shutdown::on_signal()?;
    let usual = services::DEFAULT_ADDRESS.parse().context("the default address")?;
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let listen = args.listen.unwrap_or(if args.exit { any } else { usual });
    let modules = read_modules(&args.guests)?;
    output.note("Starting PostgreSQL, the API and a runner …");
    let database = DatabaseChoice::Embedded { folder: None, ephemeral: true, binaries: None };
    let options = Options { listen, database, node: args.node, keep_connection: !args.exit };
    let Some(dev) = stop.run_until_cancelled(Dev::start(options)).await.transpose()? else {
        return Ok(());
    };
    let client = Client::new(dev.url.parse()?, dev.key.clone())?;
    let (url, key) = (dev.url.clone(), dev.key.clone());
    let serving = tokio::spawn(dev.run(stop.clone()));
    let shown = stop.run_until_cancelled(show(&client, &modules, output)).await;
    let verdict = match shown {
        Some(Ok(0)) => Ok(()),
        Some(Ok(off)) => Err(anyhow::anyhow!("{off} jobs did not end as they should have")),
        Some(Err(error)) => Err(error),
        None => Ok(()),
    };
    if verdict.is_ok() && !args.exit && !stop.is_cancelled() {
        output.fields(&[("API", url), ("key", key)])?;
        output.line(
            "\nThe server stays up. In another terminal:\n  \
             stokehold job list --state discarded\n  \
             stokehold enqueue demo.probe --payload '{\"do\":\"panic\",\"message\":\"ouch\"}' --wait\n\
             Ctrl-C stops everything, the database included.",
        )?;
    } else {
        stop.cancel();
    }
    serving.await.context("the server panicked").flatten()?;
    verdict
}

/// The modules with their file names.
type Modules = Vec<(&'static str, Vec<u8>)>;

fn read_modules(folder: &Path) -> anyhow::Result<Modules> {
    scenes::handlers()
        .iter()
        .map(|handler| {
            let path = folder.join(handler.file);
            let bytes = std::fs::read(&path).with_context(|| {
                format!("{} cannot be read: run `make demo`, which builds it", path.display())
            })?;
            Ok((handler.file, bytes))
        })
        .collect()
}

/// Pushes, enqueues, waits and prints; returns how many jobs did not end as they should.
async fn show(client: &Client, modules: &Modules, output: &Output) -> anyhow::Result<usize> {
    for handler in scenes::handlers() {
        let bytes = modules.iter().find(|(file, _)| *file == handler.file).map(|(_, bytes)| bytes);
        let bytes = bytes.context("every handler's file was read")?.clone();
        let size = units::bytes(bytes.len() as u64);
        let module = client.upload_module(bytes.into()).await?.module;
        client.put_kind(handler.kind, &handler.policy).await?;
        let release = NewRelease { digest: module.digest, limits: handler.limits, activate: true };
        let release = client.create_release(handler.kind, &release).await?;
        output.note(format!(
            "Pushed {} ({}, {size}) as release {} of {}",
            handler.file, module.abi, release.number, handler.kind
        ));
    }
    let mut scenes = scenes::scenes()?;
    let mut jobs = Vec::new();
    for scene in &mut scenes {
        let batch = JobBatch { jobs: std::mem::take(&mut scene.jobs) };
        jobs.push(client.enqueue_batch(&batch).await?.ids);
    }
    let begun = Instant::now();
    let total = jobs.iter().map(Vec::len).sum();
    let ended = tokio::time::timeout(PATIENCE, wait(client, &jobs, total))
        .await
        .with_context(|| format!("not all jobs have ended after {} s", PATIENCE.as_secs()))??;
    output.note(format!("{total} jobs ended within {:.1} s.\n", begun.elapsed().as_secs_f64()));
    table(&scenes, &ended, output)
}

/// Follows every job to its end, with a bar for whoever watches.
async fn wait(client: &Client, jobs: &[Vec<JobId>], total: usize) -> anyhow::Result<Vec<Vec<Job>>> {
    let bar = ProgressBar::with_draw_target(Some(total as u64), ProgressDrawTarget::stderr());
    bar.set_style(ProgressStyle::with_template("{bar:40} {pos}/{len} jobs  {elapsed}")?);
    let mut ended = Vec::with_capacity(jobs.len());
    for ids in jobs {
        let mut scene = Vec::with_capacity(ids.len());
        for id in ids {
            let mut job = client.await_job(*id, POLL).await?;
            while !job.state.is_final() {
                job = client.await_job(*id, POLL).await?;
            }
            bar.inc(1);
            scene.push(job);
        }
        ended.push(scene);
    }
    bar.finish_and_clear();
    Ok(ended)
}

fn table(scenes: &[Scene], ended: &[Vec<Job>], output: &Output) -> anyhow::Result<usize> {
    let mut off = 0;
    let mut rows = Vec::new();
    for (scene, jobs) in scenes.iter().zip(ended) {
        let as_it_should = |job: &Job| {
            job.state == scene.state
                && job.outcome.as_deref() == Some(scene.outcome)
                && job.attempt == scene.attempt
        };
        let wrong = jobs.iter().filter(|job| !as_it_should(job)).count();
        off += wrong;
        let Some(shown) = jobs.iter().find(|job| !as_it_should(job)).or(jobs.first()) else {
            bail!("the group '{}' is empty", scene.title);
        };
        let message = shown.problem.as_ref().filter(|_| shown.outcome.as_deref() != Some("ok"));
        rows.push([
            if wrong == 0 { "✓".to_owned() } else { format!("✗ {wrong}") },
            jobs.len().to_string(),
            scene.title.to_owned(),
            shown.state.to_string(),
            shown.outcome.clone().unwrap_or_default(),
            median(jobs.iter().filter_map(|job| Some(job.receipt.as_ref()?.wall_us))),
            peak(jobs),
            message.map_or_else(String::new, |problem| shortened(&one_line(&problem.message))),
        ]);
    }
    output.table(["", "jobs", "what", "ended", "outcome", "median", "memory", "why"], rows)?;
    output.line("")?;
    Ok(off)
}

/// A sentence or so; the whole message is a `stokehold job get` away.
fn shortened(text: &str) -> String {
    const MOST: usize = 90;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn median(wall_us: impl Iterator<Item = u64>) -> String {
    let mut times: Vec<u64> = wall_us.collect();
    times.sort_unstable();
    let middle = times.get(times.len() / 2);
    middle.map_or_else(|| "-".to_owned(), |us| units::duration(Duration::from_micros(*us)))
}

fn peak(jobs: &[Job]) -> String {
    let peak = jobs.iter().filter_map(|job| Some(job.receipt.as_ref()?.peak_memory_bytes)).max();
    peak.map_or_else(|| "-".to_owned(), units::bytes)
}
