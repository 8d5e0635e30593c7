//! `stokehold bench`: how fast this machine and its PostgreSQL run sandboxed jobs. What is measured
//! and how stands in [`crate::bench`]; here the flags are made into a workload, or refused.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::ValueEnum;
use stokehold_domain::{Blob, EngineLimits, blob};
use stokehold_node::NodeConfig;
use tokio_util::sync::CancellationToken;

use super::database::DatabaseArgs;
use super::fault::Fault;
use super::output::Output;
use super::text::counted;
use super::{payload, units};
use crate::bench::bed::{Bed, BedOptions};
use crate::bench::handler::Handler;
use crate::bench::report::{BUILD, Report};
use crate::bench::scenarios::{self, Scenario, ScenarioOptions};
use crate::bench::workload::{BATCH_JOBS, Entrance, Shape, Singles, Workload};
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
    #[command(flatten)]
    load: LoadArgs,
    #[command(flatten)]
    scenarios: ScenarioArgs,
    /// Attempts at once on each node
    #[arg(long, value_name = "N", env = "STOKEHOLD_SLOTS")]
    slots: Option<usize>,
    /// Nodes, each a process of its own
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    nodes: Option<usize>,
    /// Jobs to run before anything is measured
    #[arg(long, value_name = "N")]
    warm_up: Option<usize>,
    /// Times to measure; the figures are the medians
    #[arg(long, value_name = "N", value_parser = at_least_one)]
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
    #[command(flatten)]
    database: DatabaseArgs,
}

/// What is to be run. What is absent depends on the shape.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Load")]
struct LoadArgs {
    /// When jobs come [default: burn-down]
    #[arg(long, value_enum)]
    shape: Option<ShapeName>,
    /// Jobs to burn down [default: 20000]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    jobs: Option<usize>,
    /// Jobs a second of a steady load
    #[arg(long, value_name = "R", value_parser = rate)]
    rate: Option<f64>,
    /// Jobs at once in a burst
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    burst: Option<usize>,
    /// From one burst to the next
    #[arg(long, value_name = "DURATION", value_parser = some_time)]
    every: Option<Duration>,
    /// How long a steady load or bursts go on
    #[arg(long, value_name = "DURATION", value_parser = some_time)]
    duration: Option<Duration>,
    /// What each job runs: noop, noop-command, sleep, or a module's file [default: noop]
    #[arg(long, value_name = "NAME|FILE")]
    handler: Option<String>,
    /// How long each job of the handler `sleep` sleeps [default: 100ms]
    #[arg(long, value_name = "DURATION", value_parser = units::parse_duration)]
    sleep: Option<Duration>,
    /// Bytes in each payload [default: 10]
    #[arg(long, value_name = "N", conflicts_with = "payload_file")]
    payload_bytes: Option<usize>,
    /// A file with the payload of each job
    #[arg(long, value_name = "FILE")]
    payload_file: Option<PathBuf>,
    /// What the payload is; by default told from the file's name, else application/json
    #[arg(long, value_name = "TYPE", value_parser = payload::media_type)]
    media_type: Option<String>,
    /// How jobs come in [default: sql]
    #[arg(long, value_enum)]
    enqueue: Option<Entrance>,
    /// Connections or tasks that enqueue [default: 1 to enqueue a burn-down by SQL, else 16]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    clients: Option<usize>,
    /// Jobs in one enqueueing call [default: 1000 for a burn-down and api-bulk, else 1]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    enqueue_batch: Option<usize>,
    /// Single jobs to measure the latency of an idle fleet with, after a burn-down [default: 500]
    #[arg(long, value_name = "N")]
    latency_jobs: Option<usize>,
    /// Time between those [default: 10ms]
    #[arg(long, value_name = "DURATION", value_parser = units::parse_duration)]
    spacing: Option<Duration>,
}

/// Named measurements instead of a load.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Scenarios")]
struct ScenarioArgs {
    /// List the scenarios
    #[arg(long, conflicts_with_all = ["scenario", "all"])]
    list: bool,
    /// Run a named measurement and compare it with its bar; may be given again
    #[arg(long, value_name = "NAME", conflicts_with = "all")]
    scenario: Vec<String>,
    /// Run all of them
    #[arg(long)]
    all: bool,
    /// Run them in small, to see that they work; absolute bars are not judged then
    #[arg(long)]
    quick: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ShapeName {
    /// All before the first one may run
    BurnDown,
    /// One after another at an even rate
    Steady,
    /// Many at once, again and again
    Bursts,
}

/// Measures and prints the figures. However it ends, nothing of it is left.
pub(crate) async fn run(args: Args, output: &Output) -> anyhow::Result<()> {
    if args.scenarios.list {
        return list(output);
    }
    // First: an interruption while the server is made must not leave it behind.
    let stop = shutdown::on_signal()?;
    if let Some(chosen) = args.chosen()? {
        return run_scenarios(&args, &chosen, &stop, output).await;
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

fn list(output: &Output) -> anyhow::Result<()> {
    if output.is_json() {
        let names = |s: &Scenario| serde_json::json!({ "name": s.name, "about": s.about });
        output.document(&scenarios::ALL.iter().map(names).collect::<Vec<_>>())?;
        return Ok(());
    }
    let rows = scenarios::ALL.iter().map(|scenario| {
        let bars: Vec<String> =
            scenario.bars.iter().map(|bar| format!("{} {}", bar.figure, bar.words())).collect();
        [scenario.name.to_owned(), scenario.about.to_owned(), bars.join("; ")]
    });
    output.table(["name", "what", "bar"], rows)?;
    Ok(())
}

/// Runs scenarios one after another, each on a bed of its own.
async fn run_scenarios(
    args: &Args,
    chosen: &[&Scenario],
    stop: &CancellationToken,
    output: &Output,
) -> anyhow::Result<()> {
    let options = ScenarioOptions {
        bed: args.bed()?,
        quick: args.scenarios.quick,
        slots: args.slots()?,
        duration: args.load.duration,
    };
    note_build(output);
    let widths = widths(chosen);
    let mut verdicts = Vec::new();
    for (n, scenario) in chosen.iter().enumerate() {
        output.note(format!("{} ({} of {})", scenario.name, n + 1, chosen.len()));
        let measured = scenario.measure(&options, stop, output).await;
        let measured = measured.with_context(|| format!("scenario {}", scenario.name))?;
        let Some(measured) = measured else { return Err(Fault::interrupted().into()) };
        if !output.is_json() {
            // At once: the whole may take an hour.
            for verdict in &measured {
                output.line(verdict.line(widths))?;
            }
        }
        verdicts.extend(measured);
    }
    if output.is_json() {
        output.document(&serde_json::json!({
            "build": BUILD, "quick": options.quick, "scenarios": verdicts,
        }))?;
    }
    let missed = verdicts.iter().filter(|verdict| verdict.met == Some(false)).count();
    if missed > 0 {
        let bars = counted(missed, "bar");
        return Err(Fault::missed(format!("{bars} of {} missed", verdicts.len())).into());
    }
    Ok(())
}

/// As wide as the longest name and the longest figure.
fn widths(chosen: &[&Scenario]) -> (usize, usize) {
    let figures = chosen.iter().flat_map(|scenario| scenario.bars).map(|bar| bar.figure.len());
    let names = chosen.iter().map(|scenario| scenario.name.len());
    (names.max().unwrap_or(0), figures.max().unwrap_or(0))
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

fn draw(report: &Report, file: &PathBuf) -> anyhow::Result<()> {
    let Some(last) = report.repetitions.last() else { return Ok(()) };
    let title = format!(
        "{} of {} jobs of {}: {:.0} jobs/s",
        report.shape, last.jobs, report.handler, last.jobs_per_s
    );
    std::fs::write(file, plot::draw(&title, &last.timeline))
        .with_context(|| format!("the plot {} could not be written", file.display()))
}

impl Args {
    /// The scenarios that are asked for, if any are.
    fn chosen(&self) -> Result<Option<Vec<&'static Scenario>>, Fault> {
        let ScenarioArgs { scenario, all, quick, .. } = &self.scenarios;
        if scenario.is_empty() && !all {
            if *quick {
                let fault = Fault::usage("--quick runs scenarios in small, and none is named");
                return Err(fault.hint("Add --all, or --scenario with a name of --list."));
            }
            return Ok(None);
        }
        let own_load = self.load.any().or(match () {
            () if self.nodes.is_some() => Some("--nodes"),
            () if self.warm_up.is_some() => Some("--warm-up"),
            () if self.repeat.is_some() => Some("--repeat"),
            () if self.plot.is_some() => Some("--plot"),
            () if self.statements => Some("--statements"),
            () => None,
        });
        if let Some(flag) = own_load {
            return Err(Fault::usage(format!(
                "a scenario decides by itself what {flag} would say"
            ))
            .hint("Leave it out; --slots, --duration and --quick may stand beside a scenario."));
        }
        if *all {
            Ok(Some(scenarios::ALL.iter().collect()))
        } else {
            scenarios::find(scenario).map(Some)
        }
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
        if let Some(file) = &self.plot
            && file
                .parent()
                .is_some_and(|folder| !folder.as_os_str().is_empty() && !folder.is_dir())
        {
            let message = format!("there is no folder for the plot {}", file.display());
            return Err(Fault::not_found(message));
        }
        Ok(BedOptions { url, force: self.force, statements: self.statements })
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
            Some(batch) if batch > stokehold_queue::enqueue::MAX_JOBS => {
                let most = stokehold_queue::enqueue::MAX_JOBS;
                return Err(Fault::usage(format!(
                    "--enqueue-batch {batch}: one call takes {most} jobs at most"
                ))
                .into());
            }
            Some(batch) => batch,
            None if batched => BATCH_JOBS,
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
            warm_up: self.warm_up.unwrap_or(0),
            singles,
        })
    }
}

impl LoadArgs {
    /// A flag that says what the load is, if one is given. How long it goes on a scenario may be told.
    fn any(&self) -> Option<&'static str> {
        let given = [
            ("--shape", self.shape.is_some()),
            ("--jobs", self.jobs.is_some()),
            ("--rate", self.rate.is_some()),
            ("--burst", self.burst.is_some()),
            ("--every", self.every.is_some()),
            ("--handler", self.handler.is_some()),
            ("--sleep", self.sleep.is_some()),
            ("--payload-bytes", self.payload_bytes.is_some()),
            ("--payload-file", self.payload_file.is_some()),
            ("--media-type", self.media_type.is_some()),
            ("--enqueue", self.enqueue.is_some()),
            ("--clients", self.clients.is_some()),
            ("--enqueue-batch", self.enqueue_batch.is_some()),
            ("--latency-jobs", self.latency_jobs.is_some()),
            ("--spacing", self.spacing.is_some()),
        ];
        given.into_iter().find(|(_, given)| *given).map(|(flag, _)| flag)
    }

    fn shape(&self) -> Result<Shape, Fault> {
        let name = self.shape.unwrap_or(ShapeName::BurnDown);
        let word = name.to_possible_value().map_or_else(String::new, |v| v.get_name().to_owned());
        let given = [
            ("--jobs", self.jobs.is_some(), name == ShapeName::BurnDown),
            ("--rate", self.rate.is_some(), name == ShapeName::Steady),
            ("--burst", self.burst.is_some(), name == ShapeName::Bursts),
            ("--every", self.every.is_some(), name == ShapeName::Bursts),
            ("--duration", self.duration.is_some(), name != ShapeName::BurnDown),
        ];
        if let Some((flag, ..)) = given.iter().find(|(_, given, fits)| *given && !*fits) {
            return Err(Fault::usage(format!("{flag} does not belong to --shape {word}"))
                .hint("A burn-down takes --jobs; steady --rate and --duration; bursts --burst, --every and --duration."));
        }
        let missing = |flag: &str| Fault::usage(format!("--shape {word} needs {flag}"));
        let shape = match name {
            ShapeName::BurnDown => Shape::BurnDown { jobs: self.jobs.unwrap_or(20_000) },
            ShapeName::Steady => Shape::Steady {
                jobs_per_s: self.rate.ok_or_else(|| missing("--rate"))?,
                duration: self.duration.ok_or_else(|| missing("--duration"))?,
            },
            ShapeName::Bursts => Shape::Bursts {
                burst: self.burst.ok_or_else(|| missing("--burst"))?,
                every: self.every.ok_or_else(|| missing("--every"))?,
                duration: self.duration.ok_or_else(|| missing("--duration"))?,
            },
        };
        if shape.jobs() == 0 {
            return Err(Fault::usage(
                "at that rate no job comes in that time: raise --rate or --duration",
            ));
        }
        Ok(shape)
    }

    fn payload(&self, handler: &Handler) -> anyhow::Result<Blob> {
        if handler.sleeps() {
            if self.payload_bytes.is_some() || self.payload_file.is_some() {
                return Err(Fault::usage(
                    "the payload of the handler `sleep` says how long to sleep",
                )
                .hint("Say it with --sleep.")
                .into());
            }
            let sleep = self.sleep.unwrap_or(Duration::from_millis(100));
            return Ok(Blob::json(sleep.as_millis().to_string()));
        }
        if self.sleep.is_some() {
            return Err(
                Fault::usage("--sleep is for the handler `sleep`: add --handler sleep").into()
            );
        }
        let most = EngineLimits::PAYLOAD_BYTES;
        if let Some(file) = &self.payload_file {
            let bytes = payload::read_file(file, "payload", most as u64)?;
            let told = || payload::media_type_of(file).unwrap_or(blob::JSON).to_owned();
            let media_type = self.media_type.clone().unwrap_or_else(told);
            if blob::is_json(&media_type) {
                payload::check_json(&bytes, &format!("the file {}", file.display()))?;
            }
            return Ok(Blob { media_type, bytes });
        }
        let size = self.payload_bytes.unwrap_or(10);
        let media_type = self.media_type.clone().unwrap_or_else(|| blob::JSON.to_owned());
        let is_json = blob::is_json(&media_type);
        if size > most || is_json && size < 2 {
            let least = if is_json { 2 } else { 0 };
            let message = format!(
                "--payload-bytes {size}: a payload of {media_type} has {least} to {most} bytes here"
            );
            return Err(Fault::usage(message).into());
        }
        let bytes =
            if is_json { format!("\"{}\"", "x".repeat(size - 2)) } else { "x".repeat(size) };
        Ok(Blob { media_type, bytes: bytes.into_bytes() })
    }
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match units::parse_count(text)?.try_into() {
        Ok(0) => Err("it has to be 1 or more".to_owned()),
        Ok(number) => Ok(number),
        Err(_) => Err("that is too many".to_owned()),
    }
}

fn rate(text: &str) -> Result<f64, String> {
    let rate: f64 =
        text.parse().map_err(|_| format!("{text:?} is not a number of jobs a second"))?;
    // Up to a million a second, which nothing here reaches.
    if rate > 0.0 && rate <= 1e6 {
        Ok(rate)
    } else {
        Err("more than 0 and at most 1000000".to_owned())
    }
}

fn some_time(text: &str) -> Result<Duration, String> {
    let duration = units::parse_duration(text)?;
    if duration.is_zero() { Err("it has to be longer than zero".to_owned()) } else { Ok(duration) }
}
