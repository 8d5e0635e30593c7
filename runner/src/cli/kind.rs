//! `stokehold kind`: kinds, their policy, their releases.

use std::time::Duration;

use chrono::Utc;
use clap::{ArgGroup, Args as ClapArgs, Subcommand};
use serde::Serialize;
use stokehold_api::wire::{KindChange, KindInfo, ReleaseInfo};
use stokehold_domain::BackoffForm;

use super::fault::Fault;
use super::kind_limits::{self, LimitArgs};
use super::output::{Output, or_dash};
use super::server::Server;
use super::{push, units};
use crate::client::Client;

/// List, show and change kinds; switch between their releases
#[derive(ClapArgs, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    server: Server,
}

#[derive(Subcommand, Debug)]
enum What {
    /// List all kinds
    List,
    /// Show a kind: its policy and its releases
    Get {
        /// The kind's name
        #[arg(value_parser = kind_name)]
        kind: String,
    },
    /// Switch a kind to another of its releases, older or newer
    ///
    /// Attempts that run go on with theirs; the next attempt of every job runs the new one.
    #[command(after_help = "\
Examples:
  stokehold kind get image.resize             which releases there are
  stokehold kind activate image.resize 3      back to release 3")]
    Activate {
        /// The kind's name
        #[arg(value_parser = kind_name)]
        kind: String,
        /// The release's number
        release: i32,
    },
    /// Change a kind's policy, or make the kind
    ///
    /// What is not said stays as it is. Jobs that were enqueued keep their priority and attempts.
    #[command(
        override_usage = "stokehold kind set [OPTIONS] <KIND>",
        group(ArgGroup::new("change").required(true).multiple(true).args(CHANGES)),
        after_help = "\
Examples:
  stokehold kind set image.resize --queue media --max-attempts 5
  stokehold kind set report --backoff-base 10s --backoff-cap 1h
  stokehold kind set mirror --max-running 4 --rate 100/1m
  stokehold kind set account --max-running-per-key 1 --keeps-order true
  stokehold kind set webhook --backoff-delays 5s,1m,10m,1h --max-attempts 5"
    )]
    Set {
        /// The kind's name
        #[arg(value_parser = kind_name)]
        kind: String,
        #[command(flatten)]
        policy: PolicyArgs,
    },
}

/// Of these, one at least is to be said.
const CHANGES: [&str; 13] = [
    "queue",
    "priority",
    "max_attempts",
    "backoff_base",
    "backoff_cap",
    "backoff_form",
    "backoff_delays",
    "backoff_jitter",
    "max_running",
    "max_running_per_key",
    "keeps_order",
    "rate",
    "key_rate",
];

#[derive(ClapArgs, Debug)]
struct PolicyArgs {
    /// The queue that its jobs wait in
    #[arg(long, value_name = "QUEUE")]
    queue: Option<String>,
    /// The priority of jobs that do not say, -1000 to 1000; lower runs first
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    priority: Option<i32>,
    /// Tries in all, for jobs that do not say
    #[arg(long, value_name = "N")]
    max_attempts: Option<u32>,
    /// Delay after the first failure; doubles with each
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration)]
    backoff_base: Option<Duration>,
    /// No delay is longer
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration)]
    backoff_cap: Option<Duration>,
    /// How the delay grows: exponential, linear, fixed, or list, which wants --backoff-delays
    #[arg(long, value_name = "FORM")]
    backoff_form: Option<BackoffForm>,
    /// One delay for each try, the last for all further ones, such as 1s,10s,5m; makes the form list
    #[arg(long, value_name = "TIMES", value_delimiter = ',', value_parser = units::parse_duration)]
    backoff_delays: Option<Vec<Duration>>,
    /// How many hundredths of each delay are random, 0 to 100
    #[arg(long, value_name = "N")]
    backoff_jitter: Option<u32>,
    #[command(flatten)]
    limits: LimitArgs,
}

/// The JSON document of `get`.
#[derive(Serialize)]
struct KindWithReleases<'a> {
    #[serde(flatten)]
    kind: &'a KindInfo,
    releases: &'a [ReleaseInfo],
}

/// Runs the command.
pub(crate) async fn run(args: Args, output: &Output) -> anyhow::Result<()> {
    let client = args.server.client()?;
    match args.what {
        What::List => list(&client, output).await,
        What::Get { kind } => get(&client, &kind, output).await,
        What::Activate { kind, release } => activate(&client, &kind, release, output).await,
        What::Set { kind, policy } => set(&client, &kind, policy, output).await,
    }
}

async fn list(client: &Client, output: &Output) -> anyhow::Result<()> {
    let kinds = client.kinds().await?;
    if output.is_json() {
        output.document(&kinds)?;
        return Ok(());
    }
    if kinds.items.is_empty() {
        output.note("no kinds yet: `stokehold push FILE --kind NAME` makes one");
        return Ok(());
    }
    let now = Utc::now();
    output.table(
        ["KIND", "QUEUE", "RELEASE", "PRIORITY", "ATTEMPTS", "BACKOFF", "MADE"],
        kinds.items.iter().map(|kind| {
            [
                kind.name.clone(),
                kind.queue.clone(),
                release(kind),
                kind.priority.to_string(),
                kind.max_attempts.to_string(),
                backoff(kind),
                units::relative(kind.created_at, now),
            ]
        }),
    )?;
    Ok(())
}

async fn get(client: &Client, name: &str, output: &Output) -> anyhow::Result<()> {
    let kind = client.kind(name).await?;
    let releases = client.releases(name).await?.items;
    if output.is_json() {
        output.document(&KindWithReleases { kind: &kind, releases: &releases })?;
        return Ok(());
    }
    show(&kind, output)?;
    if releases.is_empty() {
        output.note(format!("no release yet: stokehold push FILE --kind {name}"));
        return Ok(());
    }
    let now = Utc::now();
    output.line("")?;
    output.table(
        ["RELEASE", "", "MODULE", "LIMITS", "MADE"],
        releases.iter().map(|release| {
            [
                release.number.to_string(),
                if release.active { "active".to_owned() } else { String::new() },
                release.digest.short(),
                push::limits(&release.limits),
                units::relative(release.created_at, now),
            ]
        }),
    )?;
    Ok(())
}

async fn activate(
    client: &Client,
    name: &str,
    release: i32,
    output: &Output,
) -> anyhow::Result<()> {
    let kind = client.activate(name, release).await?;
    if output.is_json() {
        output.document(&kind)?;
    } else {
        output.note(format!("{name}: release {release} is active"));
    }
    Ok(())
}

async fn set(
    client: &Client,
    name: &str,
    policy: PolicyArgs,
    output: &Output,
) -> anyhow::Result<()> {
    let change = KindChange {
        queue: policy.queue,
        priority: policy.priority,
        max_attempts: policy.max_attempts,
        backoff_base_ms: policy.backoff_base.map(whole_ms).transpose()?,
        backoff_cap_ms: policy.backoff_cap.map(whole_ms).transpose()?,
        backoff_form: match policy.backoff_delays {
            Some(_) => policy.backoff_form.or(Some(BackoffForm::List)),
            None => policy.backoff_form,
        },
        backoff_delays_ms: policy
            .backoff_delays
            .map(|delays| delays.into_iter().map(whole_ms).collect::<Result<_, _>>())
            .transpose()?,
        backoff_jitter_percent: policy.backoff_jitter,
        ..KindChange::default()
    };
    let change = policy.limits.apply(change);
    let kind = client.put_kind(name, &change).await?;
    if output.is_json() {
        output.document(&kind)?;
        return Ok(());
    }
    show(&kind, output)
}

fn show(kind: &KindInfo, output: &Output) -> anyhow::Result<()> {
    output.fields(&[
        ("kind", kind.name.clone()),
        ("queue", kind.queue.clone()),
        ("release", release(kind)),
        ("priority", kind.priority.to_string()),
        ("attempts", kind.max_attempts.to_string()),
        ("backoff", backoff(kind)),
        ("limits", kind_limits::shown(kind)),
        ("made", units::relative(kind.created_at, Utc::now())),
    ])?;
    Ok(())
}

/// What runs of it now.
fn release(kind: &KindInfo) -> String {
    let number = or_dash(kind.active_release);
    if kind.paused { format!("{number} (paused)") } else { number }
}

fn backoff(kind: &KindInfo) -> String {
    let shown = |ms| units::duration(Duration::from_millis(ms));
    match kind.backoff_form {
        BackoffForm::Exponential => {
            format!("{} to {}", shown(kind.backoff_base_ms), shown(kind.backoff_cap_ms))
        }
        BackoffForm::Linear => {
            format!("{} more each, to {}", shown(kind.backoff_base_ms), shown(kind.backoff_cap_ms))
        }
        BackoffForm::Fixed => format!("{} each", shown(kind.backoff_base_ms)),
        BackoffForm::List => {
            kind.backoff_delays_ms.iter().map(|ms| shown(*ms)).collect::<Vec<_>>().join(", ")
        }
    }
}

pub(super) fn whole_ms(duration: Duration) -> Result<u64, Fault> {
    let too_long = |_| Fault::usage("that delay is longer than can be stored");
    u64::try_from(duration.as_millis()).map_err(too_long)
}

/// Refuses what cannot be a kind's name before it becomes part of an address.
pub(super) fn kind_name(text: &str) -> Result<String, String> {
    match stokehold_domain::check_name("kind", text) {
        Ok(()) => Ok(text.to_owned()),
        Err(error) => Err(error.to_string()),
    }
}
