//! `stokehold schedule`: jobs at the times of a cron expression.

use std::time::Duration;

use chrono::{DateTime, Utc};
use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use serde_json::{Map, Value};
use stokehold_api::wire::{
    BackfillRequest, FireInfo, MisfirePolicy, OverlapPolicy, ScheduleInfo, ScheduleRequest,
};

use super::enqueue::{carried, pair};
use super::kind::kind_name;
use super::output::{Output, or_dash};
use super::payload::PayloadArgs;
use super::server::Server;
use super::units;
use crate::client::Client;

/// Make jobs at the times of a cron expression
#[derive(ClapArgs, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    server: Server,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Make a schedule, or change it: it is as said from then on
    #[command(
        override_usage = "stokehold schedule set <NAME> --kind <KIND> --cron <CRON> [OPTIONS]",
        after_help = "\
Examples:
  stokehold schedule set nightly --kind report --cron '30 2 * * *' --timezone Europe/Berlin
  stokehold schedule set poll --kind fetch --cron '*/10 * * * * *' --overlap skip"
    )]
    Set(Box<SetArgs>),
    /// List all schedules
    List,
    /// Show a schedule: its next fires and its last
    Show(Name),
    /// Let a schedule fire no more until it is resumed
    Pause(Name),
    /// Let a schedule fire again, from the next time on
    Resume(Name),
    /// Make a job of a schedule now
    Run(Name),
    /// Fire times that are past and have no job
    #[command(after_help = "\
Example:
  stokehold schedule backfill nightly --from 2027-01-01T00:00:00Z --to 2027-01-08T00:00:00Z --dry-run")]
    Backfill {
        #[command(flatten)]
        name: Name,
        /// From this time on
        #[arg(long, value_name = "TIME", value_parser = units::parse_time)]
        from: DateTime<Utc>,
        /// Before this time, which is past
        #[arg(long, value_name = "TIME", value_parser = units::parse_time)]
        to: DateTime<Utc>,
        /// Only say which
        #[arg(long)]
        dry_run: bool,
    },
    /// Delete a schedule; its jobs stay
    Delete(Name),
}

#[derive(ClapArgs, Debug)]
struct Name {
    /// The schedule's name
    #[arg(value_parser = schedule_name)]
    name: String,
}

#[derive(ClapArgs, Debug)]
struct SetArgs {
    #[command(flatten)]
    name: Name,
    /// The kind of its jobs
    #[arg(long, short, value_name = "KIND", value_parser = kind_name)]
    kind: String,
    /// Minute, hour, day of month, month, day of week, seconds before them if there are six; or @daily
    #[arg(long, value_name = "CRON")]
    cron: String,
    /// The time zone in which it is read
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    timezone: String,
    #[command(flatten)]
    payload: PayloadArgs,
    /// -1000 to 1000, lower runs first; without it as the kind says
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    priority: Option<i32>,
    /// Tries in all; without it as the kind says
    #[arg(long, value_name = "N")]
    max_attempts: Option<i32>,
    /// Metadata of each job, beside `schedule` and `fire_at`; may be repeated
    #[arg(long = "meta", short, value_name = "NAME=VALUE", value_parser = pair)]
    metadata: Vec<(String, String)>,
    /// Of fires that come over a minute late
    #[arg(long, value_name = "POLICY", default_value = "once")]
    misfire: Misfire,
    /// Later than this nothing runs; at most 7d
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = units::parse_duration)]
    misfire_window: Duration,
    /// While the job of an earlier fire has not ended
    #[arg(long, value_name = "POLICY", default_value = "allow")]
    overlap: Overlap,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Misfire {
    /// None runs
    Skip,
    /// The latest runs
    Once,
    /// Each runs
    All,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Overlap {
    /// It runs beside it
    Allow,
    /// It is left out
    Skip,
}

/// Runs the command.
pub(crate) async fn run(args: Args, output: &Output) -> anyhow::Result<()> {
    let client = args.server.client()?;
    match args.what {
        What::Set(wanted) => set(&client, *wanted, output).await,
        What::List => list(&client.schedules().await?.items, output),
        What::Show(Name { name }) => show(&client.schedule(&name).await?, output),
        What::Pause(Name { name }) => {
            let schedule = client.turn_schedule(&name, "pause").await?;
            say(&schedule, format!("{name} is paused"), output)
        }
        What::Resume(Name { name }) => {
            let schedule = client.turn_schedule(&name, "resume").await?;
            say(&schedule, format!("{name} fires again"), output)
        }
        What::Run(Name { name }) => {
            let fire = client.run_schedule(&name).await?;
            if output.is_json() {
                output.document(&fire)?;
            } else {
                output.line(or_dash(fire.job_id))?;
            }
            Ok(())
        }
        What::Backfill { name: Name { name }, from, to, dry_run } => {
            let wish = BackfillRequest { from, to, dry_run };
            let made = client.backfill(&name, &wish).await?;
            if output.is_json() {
                output.document(&made)?;
                return Ok(());
            }
            fires(&made.items, output)?;
            let said = if dry_run { "would be made" } else { "were made" };
            output.note(format!("{} jobs {said}", made.items.len()));
            Ok(())
        }
        What::Delete(Name { name }) => {
            client.delete_schedule(&name).await?;
            output.note(format!("{name} is deleted; its jobs stay"));
            Ok(())
        }
    }
}

async fn set(client: &Client, args: SetArgs, output: &Output) -> anyhow::Result<()> {
    let (payload, payload_base64, media_type) = carried(args.payload.read()?)?;
    let pairs = args.metadata.into_iter().map(|(name, value)| (name, value.into()));
    let metadata: Map<String, Value> = pairs.collect();
    let wish = ScheduleRequest {
        kind: args.kind,
        cron: args.cron,
        timezone: Some(args.timezone),
        payload,
        payload_base64,
        media_type,
        priority: args.priority,
        max_attempts: args.max_attempts,
        metadata: (!metadata.is_empty()).then_some(metadata),
        misfire: match args.misfire {
            Misfire::Skip => MisfirePolicy::Skip,
            Misfire::Once => MisfirePolicy::Once,
            Misfire::All => MisfirePolicy::All,
        },
        misfire_window_s: Some(i32::try_from(args.misfire_window.as_secs()).unwrap_or(i32::MAX)),
        overlap: match args.overlap {
            Overlap::Allow => OverlapPolicy::Allow,
            Overlap::Skip => OverlapPolicy::Skip,
        },
    };
    let schedule = client.put_schedule(&args.name.name, &wish).await?;
    if output.is_json() {
        output.document(&schedule)?;
        return Ok(());
    }
    ahead(&schedule, output)
}

fn say(schedule: &ScheduleInfo, what: String, output: &Output) -> anyhow::Result<()> {
    if output.is_json() {
        output.document(schedule)?;
        return Ok(());
    }
    output.note(what);
    Ok(())
}

fn list(schedules: &[ScheduleInfo], output: &Output) -> anyhow::Result<()> {
    if output.is_json() {
        output.document(&serde_json::json!({ "items": schedules }))?;
        return Ok(());
    }
    if schedules.is_empty() {
        output.note(
            "no schedules yet: `stokehold schedule set NAME --kind KIND --cron CRON` makes one",
        );
        return Ok(());
    }
    let now = Utc::now();
    output.table(
        ["SCHEDULE", "KIND", "CRON", "ZONE", "NEXT", "PROBLEM"],
        schedules.iter().map(|schedule| {
            let next = match schedule.paused_at {
                Some(_) => "paused".to_owned(),
                None => or_dash(schedule.next_fires.first().map(|at| units::relative(*at, now))),
            };
            [
                schedule.name.clone(),
                schedule.kind.clone(),
                schedule.cron.clone(),
                schedule.timezone.clone(),
                next,
                or_dash(schedule.problem.as_deref()),
            ]
        }),
    )?;
    Ok(())
}

fn show(schedule: &ScheduleInfo, output: &Output) -> anyhow::Result<()> {
    if output.is_json() {
        output.document(schedule)?;
        return Ok(());
    }
    let word = |policy: &dyn std::fmt::Debug| format!("{policy:?}").to_lowercase();
    output.fields(&[
        ("schedule", schedule.name.clone()),
        ("kind", schedule.kind.clone()),
        ("cron", format!("{} ({})", schedule.cron, schedule.timezone)),
        ("misfire", format!("{}, {} s", word(&schedule.misfire), schedule.misfire_window_s)),
        ("overlap", word(&schedule.overlap)),
        ("paused", or_dash(schedule.paused_at)),
        ("problem", or_dash(schedule.problem.as_deref())),
    ])?;
    output.line("")?;
    ahead(schedule, output)?;
    if !schedule.last_fires.is_empty() {
        output.line("")?;
        fires(&schedule.last_fires, output)?;
    }
    Ok(())
}

fn ahead(schedule: &ScheduleInfo, output: &Output) -> anyhow::Result<()> {
    if schedule.paused_at.is_some() {
        output.note("it is paused: `stokehold schedule resume` lets it fire");
        return Ok(());
    }
    output.table(
        ["NEXT", "UTC"],
        schedule
            .next_local
            .iter()
            .zip(&schedule.next_fires)
            .map(|(local, at)| [local.clone(), at.format("%Y-%m-%dT%H:%M:%SZ").to_string()]),
    )?;
    Ok(())
}

fn fires(fires: &[FireInfo], output: &Output) -> anyhow::Result<()> {
    output.table(
        ["FIRED", "CAUSE", "JOB", "SKIPPED"],
        fires.iter().map(|fire| {
            [
                fire.fire_at.format("%Y-%m-%dT%H:%M:%SZ").to_string(),
                fire.cause.clone(),
                or_dash(fire.job_id.as_deref()),
                or_dash(fire.skipped.as_deref()),
            ]
        }),
    )?;
    Ok(())
}

fn schedule_name(text: &str) -> Result<String, String> {
    match stokehold_domain::check_name("schedule", text) {
        Ok(()) => Ok(text.to_owned()),
        Err(error) => Err(error.to_string()),
    }
}
