//! The flags that say what is to be run, made into a shape and a payload, or refused.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use stokehold_domain::{Blob, EngineLimits, blob};

use crate::bench::handler::Handler;
use crate::bench::workload::{Entrance, Shape};
use crate::cli::fault::Fault;
use crate::cli::{payload, units};

/// What is to be run. What is absent depends on the shape.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Load")]
pub(super) struct LoadArgs {
    /// When jobs come [default: burn-down]
    #[arg(long, value_enum)]
    pub(super) shape: Option<ShapeName>,
    /// Jobs to burn down [default: 20000]
    #[arg(long, value_name = "N", value_parser = units::parse_at_least_one)]
    pub(super) jobs: Option<usize>,
    /// Jobs a second of a steady load
    #[arg(long, value_name = "R", value_parser = rate)]
    pub(super) rate: Option<f64>,
    /// Jobs at once in a burst
    #[arg(long, value_name = "N", value_parser = units::parse_at_least_one)]
    pub(super) burst: Option<usize>,
    /// From one burst to the next
    #[arg(long, value_name = "DURATION", value_parser = some_time)]
    pub(super) every: Option<Duration>,
    /// How long a steady load or bursts go on
    #[arg(long, value_name = "DURATION", value_parser = some_time)]
    pub(super) duration: Option<Duration>,
    /// What each job runs: noop, noop-command, sleep, clock, or a module's file [default: noop]
    #[arg(long, value_name = "NAME|FILE")]
    pub(super) handler: Option<String>,
    /// How long each job of the handler `sleep` sleeps [default: 100ms]
    #[arg(long, value_name = "DURATION", value_parser = units::parse_duration)]
    pub(super) sleep: Option<Duration>,
    /// Bytes in each payload [default: 10]
    #[arg(long, value_name = "N", conflicts_with = "payload_file")]
    pub(super) payload_bytes: Option<usize>,
    /// A file with the payload of each job
    #[arg(long, value_name = "FILE")]
    pub(super) payload_file: Option<PathBuf>,
    /// What the payload is; by default told from the file's name, else application/json
    #[arg(long, value_name = "TYPE", value_parser = payload::media_type)]
    pub(super) media_type: Option<String>,
    /// How jobs come in [default: sql]
    #[arg(long, value_enum)]
    pub(super) enqueue: Option<Entrance>,
    /// Connections or tasks that enqueue [default: 1 to enqueue a burn-down by SQL, else 16]
    #[arg(long, value_name = "N", value_parser = units::parse_at_least_one)]
    pub(super) clients: Option<usize>,
    /// Jobs in one enqueueing call [default: 1000, or less of large payloads, for a burn-down
    /// and api-bulk, else 1]
    #[arg(long, value_name = "N", value_parser = units::parse_at_least_one)]
    pub(super) enqueue_batch: Option<usize>,
    /// Single jobs to measure the latency of an idle fleet with, after a burn-down [default: 500]
    #[arg(long, value_name = "N")]
    pub(super) latency_jobs: Option<usize>,
    /// Time between those [default: 10ms]
    #[arg(long, value_name = "DURATION", value_parser = units::parse_duration)]
    pub(super) spacing: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ShapeName {
    /// All before the first one may run
    BurnDown,
    /// One after another at an even rate
    Steady,
    /// Many at once, again and again
    Bursts,
}

impl LoadArgs {
    /// A flag that says what the load is, if one is given. How long it goes on a scenario may be told.
    pub(super) fn any(&self) -> Option<&'static str> {
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

    pub(super) fn shape(&self) -> Result<Shape, Fault> {
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
            return Err(Fault::usage(format!("{flag} does not belong to --shape {word}")).hint(
                "A burn-down takes --jobs; steady --rate and --duration; bursts --burst, \
                     --every and --duration.",
            ));
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

    pub(super) fn payload(&self, handler: &Handler) -> anyhow::Result<Blob> {
        if handler.sleeps() {
            let other = [self.payload_file.is_some(), self.media_type.is_some()];
            if self.payload_bytes.is_some() || other.contains(&true) {
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
