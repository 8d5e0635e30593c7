//! `stokehold job`: list, show and wait for jobs; read results and logs.

use std::path::PathBuf;

use chrono::{DateTime, Utc};
use clap::{Args as ClapArgs, Subcommand};
use serde::Serialize;
use stokehold_api::wire::{Attempt, Job, JobPage, JobSummary, LogLine};
use stokehold_domain::{JobId, JobState};

use super::enqueue::pair;
use super::kind::kind_name;
use super::output::{Output, or_dash};
use super::server::Server;
use super::{follow, job_bulk, job_edit, job_view, units};
use crate::client::{Client, JobQuery};

/// Jobs on one page when all are asked for; the most that the API gives.
const PAGE: usize = 500;
/// The most log lines that the API gives.
const MAX_LINES: u32 = 10_000;

/// List, show, change, cancel and retry jobs; read their results and logs
#[derive(ClapArgs, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    server: Server,
}

#[derive(Subcommand, Debug)]
enum What {
    /// List jobs, newest first
    #[command(after_help = "\
Examples:
  stokehold job list --state discarded --kind image.resize
  stokehold job list --all --json | jq '.items | length'")]
    List(ListArgs),
    /// Show a job: state, attempts, payload, result, and what went wrong
    Get {
        /// The job's id
        id: JobId,
    },
    /// Print a job's result, or keep it in a file
    Result {
        /// The job's id
        id: JobId,
        /// Write it to this file
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Wait for a job's end and print its result; ends with 6 when it failed
    Wait {
        /// The job's id
        id: JobId,
        /// Write the result to this file instead of stdout
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Print what a job's handler logged
    Logs {
        /// The job's id
        id: JobId,
        /// Only the last N lines
        #[arg(long, short = 'n', value_name = "N", default_value_t = MAX_LINES,
              hide_default_value = true,
              value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_LINES)))]
        tail: u32,
    },
    Edit(job_edit::EditArgs),
    Retry(job_bulk::RetryArgs),
    Cancel(job_bulk::CancelArgs),
}

#[derive(ClapArgs, Debug)]
struct ListArgs {
    /// Only jobs of this kind
    #[arg(long, short, value_parser = kind_name)]
    kind: Option<String>,
    /// Only jobs in this state; repeatable, or separated by commas
    #[arg(long, short, value_name = "STATE", value_delimiter = ',')]
    state: Vec<JobState>,
    /// Only jobs with this tag
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
    /// Only jobs with this metadata; repeatable. Looked for in the newest 100,000 that the rest leaves
    #[arg(long = "meta", short, value_name = "NAME=VALUE", value_parser = pair)]
    metadata: Vec<(String, String)>,
    /// How many
    #[arg(long, short, value_name = "N", default_value_t = 50,
          value_parser = clap::value_parser!(u32).range(1..=PAGE as i64))]
    limit: u32,
    /// Every one there is, page after page
    #[arg(long, conflicts_with = "limit")]
    all: bool,
}

/// The JSON document of `get`.
#[derive(Serialize)]
struct JobWithAttempts<'a> {
    #[serde(flatten)]
    job: &'a Job,
    attempts: &'a [Attempt],
}

/// Runs the command.
pub(crate) async fn run(args: Args, output: &Output) -> anyhow::Result<()> {
    let client = args.server.client()?;
    match args.what {
        What::List(wish) => list(&client, &wish, output).await,
        What::Get { id } => get(&client, id, output).await,
        What::Result { id, output: file } => {
            let job = client.job(id).await?;
            follow::result(&client, &job, file.as_deref(), output).await
        }
        What::Wait { id, output: file } => follow::one(&client, id, file.as_deref(), output).await,
        What::Logs { id, tail } => logs(&client, id, tail, output).await,
        What::Edit(wish) => job_edit::edit(&client, &wish, output).await,
        What::Retry(wish) => job_bulk::retry(&client, &wish, output).await,
        What::Cancel(wish) => job_bulk::cancel(&client, &wish, output).await,
    }
}

async fn list(client: &Client, wish: &ListArgs, output: &Output) -> anyhow::Result<()> {
    let mut query = JobQuery::new(wish.kind.clone(), &wish.state);
    query.tag = wish.tag.clone();
    let pairs = wish.metadata.iter();
    query.metadata = pairs.map(|(name, value)| (format!("meta.{name}"), value.clone())).collect();
    query.limit = if wish.all { PAGE } else { wish.limit as usize };
    let mut whole = JobPage { items: Vec::new(), next: None };
    let mut shown = false;
    loop {
        let page = client.jobs(&query).await?;
        if output.is_json() {
            whole.items.extend(page.items);
        } else if !page.items.is_empty() {
            // Page by page: there may be millions.
            print_page(&page.items, !shown, output)?;
            shown = true;
        }
        whole.next = page.next;
        match whole.next.clone() {
            Some(next) if wish.all => query.cursor = Some(next),
            _ => break,
        }
    }
    if output.is_json() {
        output.document(&whole)?;
    } else if !shown {
        output.note("no such jobs");
    } else if whole.next.is_some() {
        output.note("there are more: --limit N shows up to 500, --all shows every one");
    }
    Ok(())
}

fn print_page(jobs: &[JobSummary], is_first: bool, output: &Output) -> anyhow::Result<()> {
    let now = Utc::now();
    output.part_of_table(
        ["ID", "KIND", "STATE", "ATTEMPT", "OUTCOME", "ENQUEUED", "WHEN"],
        is_first,
        jobs.iter().map(|job| {
            [
                job.id.to_string(),
                job.kind.clone(),
                job.state.to_string(),
                format!("{}/{}", job.attempt, job.max_attempts),
                or_dash(job.outcome.as_deref()),
                units::relative(job.enqueued_at, now),
                when(job, now),
            ]
        }),
    )?;
    Ok(())
}

/// What matters of a job's times: how long it took, has been running or has still to wait.
fn when(job: &JobSummary, now: DateTime<Utc>) -> String {
    let span = |from: DateTime<Utc>, to: DateTime<Utc>| {
        units::duration((to - from).to_std().unwrap_or_default())
    };
    match (job.state, job.started_at, job.finished_at) {
        (JobState::Running, Some(started), _) => format!("for {}", span(started, now)),
        (_, Some(started), Some(finished)) => format!("took {}", span(started, finished)),
        (_, None, Some(finished)) => units::relative(finished, now),
        (JobState::Scheduled | JobState::Retryable, ..) => {
            format!("due {}", units::relative(job.run_at, now))
        }
        _ => "-".to_owned(),
    }
}

async fn get(client: &Client, id: JobId, output: &Output) -> anyhow::Result<()> {
    let job = client.job(id).await?;
    let attempts = client.attempts(id).await?.items;
    if output.is_json() {
        output.document(&JobWithAttempts { job: &job, attempts: &attempts })?;
        return Ok(());
    }
    let now = Utc::now();
    output.fields(&job_view::fields(&job, now))?;
    // A job that ended with its first attempt has told everything above.
    if attempts.len() > 1 || !attempts.is_empty() && !job.state.is_final() {
        output.line("")?;
        print_attempts(&attempts, now, output)?;
    }
    Ok(())
}

fn print_attempts(attempts: &[Attempt], now: DateTime<Utc>, output: &Output) -> anyhow::Result<()> {
    output.table(
        ["ATTEMPT", "RELEASE", "RUNNER", "BEGAN", "OUTCOME", "USED", "PROBLEM"],
        attempts.iter().map(|attempt| {
            let problem = attempt.problem.as_ref();
            let first_line = problem.and_then(|problem| problem.message.lines().next());
            [
                attempt.attempt.to_string(),
                or_dash(attempt.release),
                or_dash(attempt.runner),
                or_dash(attempt.started_at.map(|at| units::relative(at, now))),
                attempt.outcome.clone().unwrap_or_else(|| "running".to_owned()),
                or_dash(attempt.receipt.as_ref().map(job_view::receipt)),
                or_dash(first_line),
            ]
        }),
    )?;
    Ok(())
}

async fn logs(client: &Client, id: JobId, tail: u32, output: &Output) -> anyhow::Result<()> {
    let lines = client.logs(id, tail).await?;
    if output.is_json() {
        output.document(&lines)?;
        return Ok(());
    }
    if lines.items.is_empty() {
        // An unknown id is not an empty log.
        let job = client.job(id).await?;
        output.note(format!("job {id} is {} and has logged nothing", job.state));
        return Ok(());
    }
    for (n, line) in lines.items.iter().enumerate() {
        let previous = n.checked_sub(1).map(|n| &lines.items[n]);
        if previous.is_none_or(|previous| is_another_attempt(previous, line)) {
            let began = line.started_at.map(|at| format!(", began {}", at.format("%F %T UTC")));
            output.line(format!("attempt {}{}", line.attempt, began.unwrap_or_default()))?;
        }
        output.line(job_view::log_line(line))?;
    }
    Ok(())
}

fn is_another_attempt(previous: &LogLine, line: &LogLine) -> bool {
    (previous.attempt, previous.started_at) != (line.attempt, line.started_at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_tells_what_matters_of_each_jobs_times() {
        let time = |text: &str| units::parse_time(text).unwrap();
        let now = time("2027-01-01T00:10:00Z");
        let base = JobSummary {
            id: JobId(1),
            kind: "k".into(),
            state: JobState::Available,
            priority: 0,
            attempt: 0,
            max_attempts: 20,
            lost: 0,
            run_at: time("2027-01-01T00:15:00Z"),
            enqueued_at: time("2027-01-01T00:00:00Z"),
            started_at: None,
            finished_at: None,
            outcome: None,
        };
        assert_eq!(when(&base, now), "-");
        let scheduled = JobSummary { state: JobState::Scheduled, ..base.clone() };
        assert_eq!(when(&scheduled, now), "due in 5m");
        let began = Some(time("2027-01-01T00:09:30Z"));
        let running = JobSummary { state: JobState::Running, started_at: began, ..base.clone() };
        assert_eq!(when(&running, now), "for 30s");
        let done = JobSummary { state: JobState::Completed, finished_at: Some(now), ..running };
        assert_eq!(when(&done, now), "took 30s");
        let cancelled = JobSummary { state: JobState::Cancelled, finished_at: began, ..base };
        assert_eq!(when(&cancelled, now), "30s ago");
    }
}
