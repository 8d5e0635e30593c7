//! `stokehold runner list`: who runs jobs.

use chrono::Utc;

use super::output::Output;
use super::server::Server;
use super::units;

/// List the runners that live or ended within the last day
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    server: Server,
}

/// Runs the command.
pub(crate) async fn run(args: Args, output: &Output) -> anyhow::Result<()> {
    let runners = args.server.client()?.runners().await?;
    if output.is_json() {
        output.document(&runners)?;
        return Ok(());
    }
    if runners.items.is_empty() {
        output.note("no runner has lived within the last day: start one with `stokehold runner`");
        return Ok(());
    }
    let now = Utc::now();
    output.table(
        ["ID", "NAME", "STATE", "RUNNING", "SLOTS", "QUEUES", "VERSION", "LAST BEAT"],
        runners.items.iter().map(|runner| {
            let queues = runner.queues.as_ref().map(|queues| queues.join(", "));
            [
                runner.id.to_string(),
                runner.name.clone(),
                if runner.draining && runner.state == "live" {
                    "draining".to_owned()
                } else {
                    runner.state.clone()
                },
                runner.running.to_string(),
                runner.slots.to_string(),
                queues.unwrap_or_else(|| "all".to_owned()),
                runner.version.clone(),
                units::relative(runner.beat_at, now),
            ]
        }),
    )?;
    Ok(())
}
