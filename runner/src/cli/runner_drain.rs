//! `stokehold runner drain`: has a node stop in order, from anywhere.

use std::time::{Duration, Instant};

use super::fault::Fault;
use super::output::Output;
use super::server::Server;
use super::units;

/// How often to look whether they have ended.
const LOOK: Duration = Duration::from_millis(500);

/// Have a runner stop: claim nothing new, finish or hand back what it has, end
///
/// It learns of it with its next beat, within two seconds, lets what runs go on for its --grace, hands the rest back
/// uncounted, and its process ends.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  stokehold runner list
  stokehold runner drain worker-3 --wait")]
pub(crate) struct Args {
    /// The runner's id or name; all of that name
    runner: String,
    /// Wait until it has ended
    #[arg(long, short)]
    wait: bool,
    /// No longer than this; ends with 1 then
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = units::parse_duration, requires = "wait")]
    timeout: Duration,
    #[command(flatten)]
    server: Server,
}

/// Runs the command.
pub(crate) async fn run(args: Args, output: &Output) -> anyhow::Result<()> {
    let client = args.server.client()?;
    let drained = client.drain(&args.runner).await?;
    if output.is_json() {
        output.document(&drained)?;
    }
    let begun = Instant::now();
    loop {
        let runners = client.runners().await?.items;
        let live: Vec<_> = runners
            .iter()
            .filter(|runner| drained.ids.contains(&runner.id) && runner.state == "live")
            .collect();
        if live.is_empty() {
            output.note(format!("{} has ended", args.runner));
            return Ok(());
        }
        let jobs: i64 = live.iter().map(|runner| runner.running).sum();
        if !args.wait {
            output.note(format!("{} is told to stop; it holds {jobs} jobs", args.runner));
            return Ok(());
        }
        if begun.elapsed() >= args.timeout {
            let message = format!("{} still holds {jobs} jobs", args.runner);
            return Err(Fault::not_in_time(message).into());
        }
        tokio::time::sleep(LOOK).await;
    }
}
