//! `stokehold job retry` and `stokehold job cancel`: some by their ids, or as many as a filter is true of.

use std::time::Duration;

use chrono::{DateTime, Utc};
use clap::Args as ClapArgs;
use serde::Serialize;
use stokehold_api::wire::{CancelMany, Cancelled, ManyDone, RetryMany, RetryRequest};
use stokehold_domain::{JobId, JobState};

use super::enqueue::{carried, run_at};
use super::fault::Fault;
use super::kind::kind_name;
use super::output::Output;
use super::payload::PayloadArgs;
use super::units;
use crate::client::Client;

/// How long to wait until a running job that was cancelled is gone. Its node is told at once, and hears of
/// it after a second if that is lost; its handler has a second then.
const STOPPED: Duration = Duration::from_secs(5);

/// Run ended jobs again, as new jobs
///
/// Some by their ids, or all that did not complete and that the filter is true of. A job is retried once;
/// after that it is the new job's turn. Prints the new jobs' ids, or how many a filter found.
#[derive(ClapArgs, Debug)]
#[command(
    override_usage = "stokehold job retry [OPTIONS] <ID|FILTER>...",
    after_help = "\
Examples:
  stokehold job retry 4711 --payload @fixed.json
  stokehold job retry --kind image.resize --outcome limit --dry-run
  stokehold job retry --kind image.resize --release 8 --yes"
)]
pub(super) struct RetryArgs {
    /// Ids of ended jobs
    #[arg(value_name = "ID", conflicts_with_all = ["kind", "state", "outcome", "ended_from", "ended_before", "all"])]
    ids: Vec<JobId>,
    /// Only jobs of this kind
    #[arg(long, short, value_parser = kind_name)]
    kind: Option<String>,
    /// Only jobs in this state, discarded or cancelled; repeatable, or separated by commas
    #[arg(long, short, value_name = "STATE", value_delimiter = ',')]
    state: Vec<JobState>,
    /// Only with this outcome, or one of its class: limit has limit.fuel
    #[arg(long, value_name = "CODE")]
    outcome: Option<String>,
    /// Only such as ended at this time or later
    #[arg(long, value_name = "TIME", value_parser = units::parse_time)]
    ended_from: Option<DateTime<Utc>>,
    /// Only such as ended before this time
    #[arg(long, value_name = "TIME", value_parser = units::parse_time)]
    ended_before: Option<DateTime<Utc>>,
    /// Every job that did not complete
    #[arg(long, conflicts_with_all = ["kind", "state", "outcome", "ended_from", "ended_before"])]
    all: bool,
    /// Another input than it had, for a job given by its id
    #[command(flatten)]
    payload: PayloadArgs,
    /// The release to run; by default the one that is active then
    #[arg(long, value_name = "N")]
    release: Option<i32>,
    /// Not before this time, such as 2027-01-31T18:00:00Z
    #[arg(long, value_name = "TIME", value_parser = units::parse_time, conflicts_with = "delay")]
    at: Option<DateTime<Utc>>,
    /// Not before this much time has passed, such as 5m
    #[arg(long = "in", value_name = "TIME", value_parser = units::parse_duration)]
    delay: Option<Duration>,
    /// Jobs given by their ids even if they are completed
    #[arg(long)]
    even_completed: bool,
    #[command(flatten)]
    care: Care,
}

/// Cancel jobs; those that run are stopped
///
/// Some by their ids, or all that have not ended and that the filter is true of.
#[derive(ClapArgs, Debug)]
#[command(
    override_usage = "stokehold job cancel [OPTIONS] <ID|FILTER>...",
    after_help = "\
Examples:
  stokehold job cancel 4711 --reason 'not wanted'
  stokehold job cancel --kind image.resize --state scheduled,retryable --dry-run
  stokehold job cancel --queue media --yes"
)]
pub(super) struct CancelArgs {
    /// Ids of jobs
    #[arg(value_name = "ID", conflicts_with_all = ["kind", "queue", "state", "enqueued_before", "all"])]
    ids: Vec<JobId>,
    /// Only jobs of this kind
    #[arg(long, short, value_parser = kind_name)]
    kind: Option<String>,
    /// Only jobs of the kinds in this queue
    #[arg(long, value_name = "QUEUE")]
    queue: Option<String>,
    /// Only jobs in this state; repeatable, or separated by commas
    #[arg(long, short, value_name = "STATE", value_delimiter = ',')]
    state: Vec<JobState>,
    /// Only such as were enqueued before this time
    #[arg(long, value_name = "TIME", value_parser = units::parse_time)]
    enqueued_before: Option<DateTime<Utc>>,
    /// Every job that has not ended
    #[arg(long, conflicts_with_all = ["kind", "queue", "state", "enqueued_before"])]
    all: bool,
    /// Why; kept with the job
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    care: Care,
}

/// Before many jobs are touched they are counted.
#[derive(ClapArgs, Debug)]
struct Care {
    /// With a filter: only say how many it finds
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// With a filter: without a question
    #[arg(long, short)]
    yes: bool,
}

/// The JSON document of a retry by ids.
#[derive(Serialize)]
struct RetriedJob {
    retry_of: JobId,
    id: JobId,
}

/// Runs `job retry`.
pub(super) async fn retry(
    client: &Client,
    args: &RetryArgs,
    output: &Output,
) -> anyhow::Result<()> {
    let run_at = run_at(args.at, args.delay, Utc::now())?;
    if !args.ids.is_empty() {
        return retry_each(client, args, run_at, output).await;
    }
    if args.payload.read_other()?.is_some() || args.even_completed {
        let fault =
            Fault::usage("--payload, --media-type and --even-completed are for jobs given by ids");
        return Err(fault.into());
    }
    let wish = |dry_run| RetryMany {
        kind: args.kind.clone(),
        states: args.state.clone(),
        outcome: args.outcome.clone(),
        ended_from: args.ended_from,
        ended_before: args.ended_before,
        all: args.all,
        release: args.release,
        run_at,
        dry_run,
    };
    let call = async |dry_run| Ok(client.retry_many(&wish(dry_run)).await?);
    many("Retry", "retried", &args.care, call, output).await
}

async fn retry_each(
    client: &Client,
    args: &RetryArgs,
    run_at: Option<DateTime<Utc>>,
    output: &Output,
) -> anyhow::Result<()> {
    let (payload, payload_base64, media_type) = match args.payload.read_other()? {
        Some(payload) => carried(payload)?,
        None => (None, None, None),
    };
    let wish = RetryRequest {
        payload,
        payload_base64,
        media_type,
        release: args.release,
        run_at,
        even_completed: args.even_completed,
    };
    let mut retried = Vec::with_capacity(args.ids.len());
    for &id in &args.ids {
        let made = client.retry(id, &wish).await?;
        if !output.is_json() {
            // At once: a later id may be refused.
            output.line(made.id.to_string())?;
            output.note(format!("job {id} runs again as job {}", made.id));
        }
        retried.push(RetriedJob { retry_of: id, id: made.id });
    }
    if output.is_json() {
        output.document(&retried)?;
    }
    Ok(())
}

/// Runs `job cancel`.
pub(super) async fn cancel(
    client: &Client,
    args: &CancelArgs,
    output: &Output,
) -> anyhow::Result<()> {
    if !args.ids.is_empty() {
        let mut all = Vec::with_capacity(args.ids.len());
        for &id in &args.ids {
            all.push(cancel_one(client, id, args.reason.clone(), output).await?);
        }
        if output.is_json() {
            match all.as_slice() {
                [one] => output.document(one)?,
                _ => output.document(&all)?,
            }
        }
        return Ok(());
    }
    let wish = |dry_run| CancelMany {
        kind: args.kind.clone(),
        queue: args.queue.clone(),
        states: args.state.clone(),
        enqueued_before: args.enqueued_before,
        all: args.all,
        reason: args.reason.clone(),
        dry_run,
    };
    let call = async |dry_run| Ok(client.cancel_many(&wish(dry_run)).await?);
    many("Cancel", "cancelled", &args.care, call, output).await
}

async fn cancel_one(
    client: &Client,
    id: JobId,
    reason: Option<String>,
    output: &Output,
) -> anyhow::Result<Cancelled> {
    let mut cancelled = client.cancel(id, reason).await?;
    if cancelled.state == JobState::Running {
        output.note(format!("job {id} runs: its node is told to stop it"));
        cancelled.state = client.await_job(id, STOPPED).await?.state;
    }
    if !output.is_json() {
        output.note(match cancelled.state {
            JobState::Cancelled => format!("job {id} is cancelled"),
            state if state.is_final() => format!("job {id} ended by itself: it is {state}"),
            state => {
                format!("job {id} is {state}; it is cancelled as soon as its node hears of it")
            }
        });
    }
    Ok(cancelled)
}

/// Counts, asks, and goes on until there are no more.
async fn many(
    verb: &str,
    done: &str,
    care: &Care,
    call: impl AsyncFn(bool) -> anyhow::Result<ManyDone>,
    output: &Output,
) -> anyhow::Result<()> {
    let mut total = ManyDone::default();
    if !care.yes {
        let found = call(true).await?;
        let number = jobs(&found);
        if care.dry_run || found.jobs == 0 {
            return tell(&found, &format!("{number} would be {done}"), output);
        }
        if !output.confirm(&format!("{verb} {number}"), &format!("{number} would be {done}"))? {
            output.note(format!("nothing was {done}"));
            return Ok(());
        }
    }
    loop {
        let some = call(false).await?;
        total.jobs += some.jobs;
        total.stopping += some.stopping;
        // One that takes none would take none for ever.
        if !some.more || some.jobs == 0 {
            break;
        }
    }
    let stopping = match total.stopping {
        0 => String::new(),
        running => format!(
            ", {} of them as soon as their nodes have stopped them",
            units::grouped(running)
        ),
    };
    tell(&total, &format!("{} {done}{stopping}", jobs(&total)), output)
}

fn jobs(done: &ManyDone) -> String {
    let more = if done.more { " and more" } else { "" };
    match done.jobs {
        1 => format!("1 job{more}"),
        number => format!("{} jobs{more}", units::grouped(number)),
    }
}

fn tell(done: &ManyDone, text: &str, output: &Output) -> anyhow::Result<()> {
    if output.is_json() {
        return Ok(output.document(done)?);
    }
    output.note(text);
    Ok(())
}
