//! `stokehold run`: a handler, here and now, in the production sandbox.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use serde::Serialize;
use stokehold_api::wire::{Content, JobProblem, Limits as LimitsInfo, Receipt as ReceiptInfo};
use stokehold_domain::{Attempt, Blob, EngineLimits, Limits, LogLine, Outcome, Receipt};
use stokehold_sandbox::{Control, Refusal, Report, Sandbox, SandboxConfig};

use super::enqueue::pair;
use super::fault::Fault;
use super::kind::kind_name;
use super::limits::LimitArgs;
use super::output::Output;
use super::payload::{PayloadArgs, read_file};
use super::{follow, job_view};

/// How often new log lines are looked for.
const LOG_INTERVAL: Duration = Duration::from_millis(50);

/// Run a handler here, in the production sandbox, without any server or database
///
/// The same engine, the same limits and the same outcomes as on a runner node. The result goes to
/// stdout; log lines, receipt and the nearest limit go to stderr. Ends with 6 when it failed.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  stokehold run resize.wasm --payload @photo.jpg --output small.jpg
  stokehold run report.wasm --payload '{\"month\": \"2027-01\"}' --limit fuel=1G
  stokehold run report.wasm --json | jq .receipt")]
pub(crate) struct Args {
    /// The compiled handler, a .wasm file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    payload: PayloadArgs,
    /// The kind that the handler is told
    #[arg(long, short, default_value = "local", value_parser = kind_name)]
    kind: String,
    /// A pair that the handler is told; repeatable
    #[arg(long = "meta", short, value_name = "NAME=VALUE", value_parser = pair)]
    metadata: Vec<(String, String)>,
    /// Write the result to this file instead of stdout
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    limits: LimitArgs,
}

/// The JSON document.
#[derive(Serialize)]
struct Ran<'a> {
    outcome: &'a str,
    result: Option<Content>,
    problem: Option<JobProblem>,
    receipt: ReceiptInfo,
    limits: LimitsInfo,
    nearest_limit: Option<Nearest>,
    log: &'a [LogLine],
}

/// The limit of which the most was used.
#[derive(Debug, PartialEq, Serialize)]
struct Nearest {
    name: &'static str,
    used_percent: f64,
}

/// Runs the command.
pub(crate) async fn run(args: Args, output: &Output) -> anyhow::Result<()> {
    let limits = args.limits.change().apply(Limits::DEFAULT);
    limits.check().map_err(|error| Fault::invalid(error.to_string()))?;
    let payload = args.payload.read()?;
    let bytes = read_file(&args.file, "module", EngineLimits::MODULE_BYTES as u64)?;
    let mut attempt = Attempt::local(args.kind, payload, now_ms());
    attempt.metadata = args.metadata;

    let sandbox = Sandbox::start(SandboxConfig { slots: 1, ..SandboxConfig::default() })?;
    let admission = sandbox.admit(&bytes).map_err(refused)?;
    let handler = sandbox.load(admission.digest, &bytes).await.map_err(refused)?;
    let mut log = Vec::new();
    let report = {
        let control = Control::new();
        let running = sandbox.run(&handler, attempt, &limits, control.clone());
        let mut running = std::pin::pin!(running);
        loop {
            tokio::select! {
                report = &mut running => break report,
                () = tokio::time::sleep(LOG_INTERVAL) => {
                    keep(&mut log, control.take_new_lines(), output);
                }
            }
        }
    };
    let Report { outcome, receipt, log: rest } = report;
    keep(&mut log, rest, output);
    tell(&outcome, &receipt, &limits, &log, args.output.as_deref(), output)
}

fn tell(
    outcome: &Outcome,
    receipt: &Receipt,
    limits: &Limits,
    log: &[LogLine],
    file: Option<&std::path::Path>,
    output: &Output,
) -> anyhow::Result<()> {
    let result = match outcome {
        Outcome::Completed(result) => result.as_ref(),
        _ => None,
    };
    let nearest = nearest(receipt, limits, result);
    if let (Some(result), Some(file)) = (result, file) {
        follow::write_file(file, &result.bytes, &result.media_type, output)?;
    }
    if output.is_json() {
        output.document(&Ran {
            outcome: outcome.code(),
            result: result.map(|result| Content::of(result, usize::MAX)),
            problem: outcome.problem().map(JobProblem::from),
            receipt: (*receipt).into(),
            limits: (*limits).into(),
            nearest_limit: nearest,
            log,
        })?;
    } else {
        let mut told = format!("{}: {}", outcome.code(), job_view::receipt(&(*receipt).into()));
        if let Some(nearest) = nearest {
            told.push_str(&format!(
                "; nearest limit {}, {:.1} % used",
                nearest.name, nearest.used_percent
            ));
        }
        output.note(told);
        if let (Some(result), None) = (result, file) {
            follow::print_bytes(&result.bytes, &result.media_type, output, || {
                "stokehold run … --output FILE".to_owned()
            })?;
        }
    }
    match outcome {
        Outcome::Completed(_) => Ok(()),
        failed => {
            let problem = failed.problem().map(JobProblem::from);
            let told = problem.as_ref().map(job_view::problem).unwrap_or_default();
            Err(Fault::job_failed(format!("{}: {told}", failed.code())).into())
        }
    }
}

fn keep(log: &mut Vec<LogLine>, lines: Vec<LogLine>, output: &Output) {
    for line in lines {
        if !output.is_json() {
            output.note(job_view::line_of(line.offset_us, line.level, &line.message, &line.fields));
        }
        log.push(line);
    }
}

/// Which limit the attempt came nearest to.
fn nearest(receipt: &Receipt, limits: &Limits, result: Option<&Blob>) -> Option<Nearest> {
    let result_bytes = result.map_or(0, |result| result.bytes.len() as u64);
    [
        ("fuel", receipt.fuel, limits.fuel),
        ("timeout", receipt.wall_us / 1_000, limits.timeout_ms),
        ("memory", receipt.peak_memory_bytes, limits.memory_bytes),
        ("result", result_bytes, limits.result_bytes),
        ("calls", receipt.host_calls, limits.host_calls),
    ]
    .into_iter()
    .map(|(name, used, most)| Nearest { name, used_percent: 100.0 * used as f64 / most as f64 })
    .max_by(|a, b| a.used_percent.total_cmp(&b.used_percent))
    .filter(|nearest| nearest.used_percent > 0.0)
}

fn refused(refusal: Refusal) -> Fault {
    Fault { code: refusal.code(), ..Fault::invalid(refusal.to_string()) }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_limit_is_the_one_of_which_most_was_used() {
        let limits = Limits { fuel: 1_000, memory_bytes: 100, ..Limits::DEFAULT };
        let receipt = Receipt { fuel: 100, peak_memory_bytes: 50, ..Receipt::default() };
        let found = nearest(&receipt, &limits, None).unwrap();
        assert_eq!((found.name, found.used_percent), ("memory", 50.0));
        let large = Blob::json(vec![0; limits.result_bytes as usize]);
        assert_eq!(nearest(&receipt, &limits, Some(&large)).unwrap().name, "result");
        assert_eq!(nearest(&Receipt::default(), &limits, None), None);
    }
}
