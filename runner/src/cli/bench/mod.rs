//! `stokehold bench`: how fast this machine and its PostgreSQL run sandboxed jobs. What is measured
//! and how stands in [`crate::bench`]; here the flags are made into a workload, or refused.

mod load;
mod scenarios;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use stokehold_node::NodeConfig;
use stokehold_queue::enqueue::MAX_JOBS;

use self::load::LoadArgs;
use self::scenarios::ScenarioArgs;
use super::database::DatabaseArgs;
use super::fault::Fault;
use super::output::Output;
use super::units;
use crate::bench::bed::{Bed, BedOptions};
use crate::bench::handler::Handler;
use crate::bench::report::{BUILD, Report};
use crate::bench::scenarios::ScenarioOptions;
use crate::bench::workload::{CALL_BYTES, Entrance, Features, Singles, Workload, usual_batch_jobs};
use crate::bench::{plot, repetition};
use crate::shutdown;

/// Measure how fast this machine and database are
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  stokehold bench
  stokehold bench --jobs 400000 --slots 16 --handler noop-command --json
  stokehold bench --shape steady --rate 500 --duration 30s --enqueue api --plot steady.svg
  stokehold bench --scenario held-snapshot --duration 2m

It runs on a durable database of its own, thrown away at the end; with --database-url or
DATABASE_URL on that one, in kinds whose names begin with `bench.`, which are deleted at the end.")]
pub(crate) struct Args {
    /// Attempts at once on each node [default: 32]
    #[arg(long, value_name = "N")]
    slots: Option<usize>,
    /// Nodes, each a process of its own [default: 1]
    #[arg(long, value_name = "N", value_parser = units::parse_at_least_one)]
    nodes: Option<usize>,
    /// Jobs to run before anything is measured [default: 0]
    #[arg(long, value_name = "N")]
    warm_up: Option<usize>,
    /// Times to measure; the figures are the medians [default: 1]
    #[arg(long, value_name = "N", value_parser = units::parse_at_least_one)]
    repeat: Option<usize>,
    /// Draw throughput and latency over time into this file, as SVG
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Count statements too, with pg_stat_statements on the scratch server
    #[arg(long)]
    statements: bool,
    /// Measure although the database has live jobs or runners
    #[arg(long)]
    force: bool,
    /// Leave the jobs and all else in a database that was there
    #[arg(long)]
    keep: bool,
    #[command(flatten)]
    load: LoadArgs,
    #[command(flatten)]
    scenarios: ScenarioArgs,
    #[command(flatten)]
    database: DatabaseArgs,
}

/// Measures and prints the figures. However it ends, nothing of it is left.
pub(crate) async fn run(args: Args, output: &Output) -> anyhow::Result<()> {
    if args.scenarios.list {
        return scenarios::list(output);
    }
    // First: an interruption while the server is made must not leave it behind.
    let stop = shutdown::on_signal()?;
    if let Some(chosen) = args.scenarios.chosen()? {
        let options = args.scenario_options()?;
        note_build(output);
        return scenarios::run(&options, &chosen, &stop, output).await;
    }
    let workload = args.workload()?;
    let repeat = args.repeat.unwrap_or(1);
    let options = args.bed()?;
    note_build(output);
    let bed = Bed::open(options, output).await?;
    let report = stop.run_until_cancelled(measure(&bed, &workload, repeat)).await;
    if report.is_none() {
        output.note("Interrupted: taking everything away …");
    }
    bed.close().await?;
    let report = report.unwrap_or_else(|| Err(Fault::interrupted().into()))?;
    if let Some(file) = &args.plot {
        draw(&report, file)?;
    }
    if output.is_json() {
        output.document(&report)?;
    } else {
        output.fields(&report.fields())?;
    }
    Ok(())
}

fn note_build(output: &Output) {
    if BUILD == "debug" {
        output.note("This is a debug build: its figures mean little.");
    }
}

async fn measure(bed: &Bed, workload: &Workload, repeat: usize) -> anyhow::Result<Report> {
    let server = bed.database.server_facts().await?;
    let mut repetitions = Vec::new();
    for n in 1..=repeat {
        if repeat > 1 {
            bed.output.note(format!("Repetition {n} of {repeat}"));
        }
        repetitions.push(repetition::run(bed, workload).await?);
    }
    Ok(Report::of(workload, repetitions, server))
}

fn draw(report: &Report, file: &Path) -> anyhow::Result<()> {
    let Some(last) = report.repetitions.last() else { return Ok(()) };
    let title = format!(
        "{} of {} jobs of {}: {:.0} jobs/s",
        report.shape, last.jobs, report.handler, last.jobs_per_s
    );
    std::fs::write(file, plot::draw(&title, &last.timeline))
        .with_context(|| format!("the plot {} could not be written", file.display()))
}

impl Args {
    /// What scenarios are told; they decide by themselves about all else.
    fn scenario_options(&self) -> Result<ScenarioOptions, Fault> {
        let own = [
            ("--nodes", self.nodes.is_some()),
            ("--warm-up", self.warm_up.is_some()),
            ("--repeat", self.repeat.is_some()),
            ("--plot", self.plot.is_some()),
            ("--statements", self.statements),
        ];
        let own = own.into_iter().find(|(_, given)| *given).map(|(flag, _)| flag);
        if let Some(flag) = own.or(self.load.any()) {
            let fault = Fault::usage(format!("a scenario decides by itself what {flag} would say"));
            return Err(fault.hint(
                "Leave it out; --slots, --duration and --quick may stand beside a scenario.",
            ));
        }
        Ok(ScenarioOptions {
            bed: self.bed()?,
            quick: self.scenarios.quick,
            slots: self.slots()?,
            duration: self.load.duration,
        })
    }

    fn slots(&self) -> Result<usize, Fault> {
        let slots = self.slots.unwrap_or(32);
        NodeConfig { slots, ..NodeConfig::default() }
            .check()
            .map_err(|error| Fault::usage(format!("--slots: {error}")))?;
        Ok(slots)
    }

    fn bed(&self) -> Result<BedOptions, Fault> {
        let url = self.database.url();
        if self.statements && url.is_some() {
            return Err(Fault::usage(
                "--statements prepares a scratch server, and --database-url or \
                DATABASE_URL names another one",
            )
            .hint("Load pg_stat_statements there and create the extension: it is found then."));
        }
        if self.keep && url.is_none() {
            return Err(Fault::usage(
                "--keep has nothing to keep: a scratch server is thrown away",
            )
            .hint("Name a database with --database-url or DATABASE_URL."));
        }
        let folder = self.plot.as_deref().and_then(Path::parent);
        let is_missing = |folder: &Path| !folder.as_os_str().is_empty() && !folder.is_dir();
        if let Some(file) = &self.plot
            && folder.is_some_and(is_missing)
        {
            let message = format!("there is no folder for the plot {}", file.display());
            return Err(Fault::not_found(message));
        }
        Ok(BedOptions { url, force: self.force, keep: self.keep, statements: self.statements })
    }

    fn workload(&self) -> anyhow::Result<Workload> {
        let load = &self.load;
        let shape = load.shape()?;
        let handler = Handler::find(load.handler.as_deref().unwrap_or("noop"))?;
        let payload = load.payload(&handler)?;
        let entrance = load.enqueue.unwrap_or(Entrance::Sql);
        let few_calls = shape.holds_back() && entrance == Entrance::Sql;
        let batched = few_calls || entrance == Entrance::ApiBulk;
        let batch_jobs = match load.enqueue_batch {
            Some(more) if more > 1 && entrance == Entrance::Api => {
                return Err(Fault::usage(
                    "--enqueue api makes one job a request, which --enqueue-batch contradicts",
                )
                .hint("Say --enqueue api-bulk for many jobs a request.")
                .into());
            }
            Some(batch) if batch > MAX_JOBS => {
                return Err(Fault::usage(format!(
                    "--enqueue-batch {batch}: one call takes {MAX_JOBS} jobs at most"
                ))
                .into());
            }
            Some(batch) if batch > 1 && batch * payload.bytes.len() > CALL_BYTES => {
                let bytes = units::bytes((batch * payload.bytes.len()) as u64);
                return Err(Fault::usage(format!(
                    "--enqueue-batch {batch} would put {bytes} of payload into one call: {} are the most",
                    units::bytes(CALL_BYTES as u64)
                ))
                .into());
            }
            Some(batch) => batch,
            None if batched => usual_batch_jobs(payload.bytes.len()),
            None => 1,
        };
        let singles = match (shape.holds_back(), load.latency_jobs, load.spacing) {
            (true, jobs, spacing) => Singles {
                jobs: jobs.unwrap_or(500),
                spacing: spacing.unwrap_or(Duration::from_millis(10)),
            },
            (false, None | Some(0), None) => Singles { jobs: 0, spacing: Duration::ZERO },
            (false, ..) => {
                return Err(Fault::usage(format!(
                    "--latency-jobs and --spacing are for an idle fleet after a burn-down; --shape {} \
                     measures the latency of its own jobs",
                    shape.name()
                ))
                .into());
            }
        };
        Ok(Workload {
            shape,
            handler,
            payload,
            entrance,
            clients: load.clients.unwrap_or(if few_calls { 1 } else { 16 }),
            batch_jobs,
            slots: self.slots()?,
            nodes: self.nodes.unwrap_or(1),
            node_flags: Vec::new(),
            node_url: None,
            features: Features::default(),
            warm_up: self.warm_up.unwrap_or(0),
            singles,
        })
    }
}
