//! `stokehold pause` and `stokehold resume`.

use std::time::Duration;

use chrono::{DateTime, Utc};
use stokehold_api::wire::{PauseInfo, PauseRequest, ResumeRequest};

use super::fault::Fault;
use super::kind::kind_name;
use super::output::{Output, or_dash};
use super::server::Server;
use super::units;

/// Pause a queue, a kind, or everything; without any of them: list what is paused
///
/// Nothing of it is started any more, on any node. Jobs stay where they are, and what runs goes on.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  stokehold pause --queue mail --for 30m --reason 'the provider is down'
  stokehold pause --kind image.resize
  stokehold pause                             what is paused")]
pub(crate) struct PauseArgs {
    #[command(flatten)]
    scope: ScopeArgs,
    /// Until this time, such as 2027-01-31T18:00:00Z; without it until it is resumed
    #[arg(long, value_name = "TIME", value_parser = units::parse_time, conflicts_with = "time",
          requires = "scope")]
    until: Option<DateTime<Utc>>,
    /// For this long, such as 30m
    #[arg(long = "for", value_name = "TIME", value_parser = units::parse_duration, requires = "scope",
          id = "time")]
    time: Option<Duration>,
    /// Why, for people
    #[arg(long, value_name = "TEXT", requires = "scope")]
    reason: Option<String>,
    #[command(flatten)]
    server: Server,
}

/// Resume a queue, a kind, or everything
///
/// Ends just this pause: a kind whose queue is paused too stays paused.
#[derive(clap::Args, Debug)]
pub(crate) struct ResumeArgs {
    #[command(flatten)]
    scope: ScopeArgs,
    #[command(flatten)]
    server: Server,
}

#[derive(clap::Args, Debug)]
#[group(id = "scope", required = false, multiple = false)]
struct ScopeArgs {
    /// The kinds of this queue, those to come included
    #[arg(long, value_name = "QUEUE")]
    queue: Option<String>,
    /// This kind
    #[arg(long, short, value_name = "KIND", value_parser = kind_name)]
    kind: Option<String>,
    /// Everything
    #[arg(long)]
    all: bool,
}

impl ScopeArgs {
    fn is_given(&self) -> bool {
        self.queue.is_some() || self.kind.is_some() || self.all
    }
}

/// Runs `pause`.
pub(crate) async fn pause(args: PauseArgs, output: &Output) -> anyhow::Result<()> {
    let client = args.server.client()?;
    if !args.scope.is_given() {
        return list(&client.pauses().await?.items, output);
    }
    let wish = PauseRequest {
        queue: args.scope.queue,
        kind: args.scope.kind,
        all: args.scope.all,
        until: args.until,
        for_ms: args.time.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
        reason: args.reason,
    };
    list(&client.pause(&wish).await?.items, output)
}

/// Runs `resume`.
pub(crate) async fn resume(args: ResumeArgs, output: &Output) -> anyhow::Result<()> {
    if !args.scope.is_given() {
        let fault = Fault::usage("nothing says what to resume");
        return Err(fault
            .hint("Say --queue, --kind or --all; `stokehold pause` lists what is paused.")
            .into());
    }
    let ScopeArgs { queue, kind, all } = args.scope;
    let resumed = args.server.client()?.resume(&ResumeRequest { queue, kind, all }).await?;
    if output.is_json() {
        output.document(&resumed)?;
        return Ok(());
    }
    output.note(if resumed.was_paused { "resumed" } else { "it was not paused" });
    if !resumed.pauses.is_empty() {
        output.note("these pauses still hold:");
        list(&resumed.pauses, output)?;
    }
    Ok(())
}

fn list(pauses: &[PauseInfo], output: &Output) -> anyhow::Result<()> {
    if output.is_json() {
        output.document(&serde_json::json!({ "items": pauses }))?;
        return Ok(());
    }
    if pauses.is_empty() {
        output.note("nothing is paused");
        return Ok(());
    }
    let now = Utc::now();
    output.table(
        ["PAUSED", "SINCE", "UNTIL", "REASON"],
        pauses.iter().map(|pause| {
            let what = match (&pause.queue, &pause.kind) {
                (Some(queue), _) => format!("queue {queue}"),
                (None, Some(kind)) => format!("kind {kind}"),
                (None, None) => "everything".to_owned(),
            };
            let until = pause.until.map(|at| units::relative(at, now));
            [
                what,
                units::relative(pause.paused_at, now),
                until.unwrap_or_else(|| "resumed".to_owned()),
                or_dash(pause.reason.as_deref()),
            ]
        }),
    )?;
    Ok(())
}
