//! `stokehold job edit`: change a job that waits.

use std::time::Duration;

use chrono::{DateTime, Utc};
use clap::Args as ClapArgs;
use serde_json::{Map, Value};
use stokehold_api::wire::JobChange;
use stokehold_domain::JobId;

use super::enqueue::{carried, pair, run_at};
use super::fault::Fault;
use super::job_view;
use super::output::Output;
use super::payload::PayloadArgs;
use super::units;
use crate::client::Client;

/// Change a job that waits: when it runs, how urgently, with what
///
/// What is not said stays as it is. A job that runs or has ended is not changed.
#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  stokehold job edit 4711 --in 2h
  stokehold job edit 4711 --now --priority -10
  stokehold job edit 4711 --payload @fixed.json --release 8")]
pub(super) struct EditArgs {
    /// The job's id
    id: JobId,
    /// Not before this time, such as 2027-01-31T18:00:00Z
    #[arg(long, value_name = "TIME", value_parser = units::parse_time, conflicts_with_all = ["delay", "now"])]
    at: Option<DateTime<Utc>>,
    /// Not before this much time has passed, such as 5m
    #[arg(long = "in", value_name = "TIME", value_parser = units::parse_duration, id = "delay",
          conflicts_with = "now")]
    delay: Option<Duration>,
    /// As soon as there is room
    #[arg(long)]
    now: bool,
    /// -1000 to 1000, lower runs first
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    priority: Option<i32>,
    /// Tries in all, more than it has had
    #[arg(long, value_name = "N")]
    max_attempts: Option<i32>,
    #[command(flatten)]
    payload: PayloadArgs,
    /// A pair of the metadata, which replace those that there are; repeatable
    #[arg(long = "meta", short, value_name = "NAME=VALUE", value_parser = pair)]
    metadata: Vec<(String, String)>,
    /// The release that every further attempt is to run
    #[arg(long, value_name = "N")]
    release: Option<i32>,
}

/// Runs the command.
pub(super) async fn edit(client: &Client, args: &EditArgs, output: &Output) -> anyhow::Result<()> {
    let (payload, payload_base64, media_type) = match args.payload.read_other()? {
        Some(payload) => carried(payload)?,
        None => (None, None, None),
    };
    let now = Utc::now();
    let pairs =
        args.metadata.iter().map(|(name, value)| (name.clone(), Value::from(value.clone())));
    let metadata: Map<String, Value> = pairs.collect();
    let change = JobChange {
        // However wrong this machine's clock is, the year 1970 is past.
        run_at: if args.now {
            Some(DateTime::UNIX_EPOCH)
        } else {
            run_at(args.at, args.delay, now)?
        },
        priority: args.priority,
        max_attempts: args.max_attempts,
        payload,
        payload_base64,
        media_type,
        metadata: (!metadata.is_empty()).then_some(metadata),
        release: args.release,
    };
    if serde_json::to_value(&change)?.as_object().is_none_or(Map::is_empty) {
        return Err(Fault::usage("nothing says what to change").into());
    }
    let job = client.change(args.id, &change).await?;
    if output.is_json() {
        return Ok(output.document(&job)?);
    }
    output.fields(&job_view::fields(&job, now))?;
    Ok(())
}
