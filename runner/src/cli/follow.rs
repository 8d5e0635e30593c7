//! Waiting for jobs to end, and telling how they did.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use futures::StreamExt;
use serde::Serialize;
use stokehold_api::wire::{Content, Job};
use stokehold_domain::{JobId, JobState, blob};

use super::fault::Fault;
use super::output::Output;
use super::text::one_line;
use super::{job_view, units};
use crate::client::{Client, ClientError};

/// How long one poll waits at the server.
const POLL: Duration = Duration::from_secs(30);
/// How long a server that does not answer is waited for.
const OUTAGE: Duration = Duration::from_secs(60);
/// Jobs watched at once.
const WATCHED: usize = 16;

/// How many jobs ended which way.
#[derive(Debug, Default, Serialize)]
struct Tally {
    ids: Vec<JobId>,
    completed: u64,
    discarded: u64,
    cancelled: u64,
}

/// Waits for one job, prints its result or tells why there is none.
pub(super) async fn one(
    client: &Client,
    id: JobId,
    file: Option<&Path>,
    output: &Output,
) -> anyhow::Result<()> {
    // Should the wait be interrupted, this says which job it was.
    output.note(format!("job {id}: waiting for its end"));
    let job = end_of(client, id, output).await?;
    if let (Some(file), Some(result)) = (file, &job.result) {
        write_result(client, &job, result, file, output).await?;
    }
    if output.is_json() {
        output.document(&job)?;
    } else {
        output.note(job_view::ending(&job));
        if let (None, Some(result)) = (file, &job.result) {
            print_result(client, &job, result, output).await?;
        }
    }
    failure(&job).map_or(Ok(()), |fault| Err(fault.into()))
}

/// Waits for many jobs and tells how many ended which way.
pub(super) async fn many(client: &Client, ids: Vec<JobId>, output: &Output) -> anyhow::Result<()> {
    let number = units::grouped(ids.len() as u64);
    output.note(format!("{number} jobs: waiting for their end"));
    let mut tally = Tally::default();
    let mut ends = futures::stream::iter(ids.iter().map(|id| end_of(client, *id, output)))
        .buffer_unordered(WATCHED);
    while let Some(job) = ends.next().await {
        match job?.state {
            JobState::Completed => tally.completed += 1,
            JobState::Cancelled => tally.cancelled += 1,
            _ => tally.discarded += 1,
        }
    }
    drop(ends);
    tally.ids = ids;
    let summary = format!(
        "{} completed, {} discarded, {} cancelled",
        tally.completed, tally.discarded, tally.cancelled
    );
    if output.is_json() {
        output.document(&tally)?;
    } else {
        output.line(&summary)?;
    }
    if tally.discarded + tally.cancelled > 0 {
        return Err(Fault::job_failed(format!("not all jobs completed: {summary}")).into());
    }
    Ok(())
}

/// Prints or writes the result of a job that has one.
pub(super) async fn result(
    client: &Client,
    job: &Job,
    file: Option<&Path>,
    output: &Output,
) -> anyhow::Result<()> {
    match (&job.result, file) {
        (Some(result), Some(file)) => write_result(client, job, result, file, output).await,
        (Some(result), None) => print_result(client, job, result, output).await,
        (None, _) if !job.state.is_final() => {
            let fault = Fault::invalid(format!("job {} is {}: no result yet", job.id, job.state));
            Err(fault.hint("`stokehold job wait` waits for it.").into())
        }
        (None, _) => {
            Err(Fault::not_found(format!("job {} is {}: no result", job.id, job.state)).into())
        }
    }
}

/// Polls until the job has ended. A server that restarts meanwhile is waited for.
async fn end_of(client: &Client, id: JobId, output: &Output) -> Result<Job, ClientError> {
    let mut lost: Option<Instant> = None;
    loop {
        match client.await_job(id, POLL).await {
            Ok(job) if job.state.is_final() => return Ok(job),
            Ok(_) => lost = None,
            Err(error) if error.is_temporary() => {
                if lost.is_none() {
                    output
                        .note(format!("job {id}: {}; trying again", one_line(&error.to_string())));
                }
                if lost.get_or_insert_with(Instant::now).elapsed() > OUTAGE {
                    return Err(error);
                }
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            Err(error) => return Err(error),
        }
    }
}

fn failure(job: &Job) -> Option<Fault> {
    let id = job.id;
    match job.state {
        JobState::Completed => None,
        JobState::Cancelled => Some(Fault::job_failed(format!("job {id} was cancelled"))),
        _ => Some(
            Fault::job_failed(format!("job {id} failed for good"))
                .hint(format!("its log: stokehold job logs {id}")),
        ),
    }
}

async fn print_result(
    client: &Client,
    job: &Job,
    result: &Content,
    output: &Output,
) -> anyhow::Result<()> {
    let bytes = fetch(client, job, result).await?;
    print_bytes(&bytes, &result.media_type, output, || {
        format!("stokehold job result {} --output FILE", job.id)
    })
}

/// Prints bytes: text made fit for a terminal, other bytes only to a pipe or file.
pub(super) fn print_bytes(
    bytes: &[u8],
    media_type: &str,
    output: &Output,
    how_to_keep: impl FnOnce() -> String,
) -> anyhow::Result<()> {
    match std::str::from_utf8(bytes) {
        Ok(text) if !output.is_terminal() || is_text(media_type) => output.foreign_text(text)?,
        _ if !output.is_terminal() => output.raw(bytes)?,
        _ => output.note(format!(
            "the result is {} of {}, which is not for a terminal; keep it with: {}",
            units::bytes(bytes.len() as u64),
            one_line(media_type),
            how_to_keep()
        )),
    }
    Ok(())
}

async fn write_result(
    client: &Client,
    job: &Job,
    result: &Content,
    file: &Path,
    output: &Output,
) -> anyhow::Result<()> {
    let bytes = fetch(client, job, result).await?;
    write_file(file, &bytes, &result.media_type, output)
}

/// Writes bytes to a file and says so.
pub(super) fn write_file(
    file: &Path,
    bytes: &[u8],
    media_type: &str,
    output: &Output,
) -> anyhow::Result<()> {
    std::fs::write(file, bytes)
        .with_context(|| format!("the result could not be written to {}", file.display()))?;
    output.note(format!(
        "{} of {} written to {}",
        units::bytes(bytes.len() as u64),
        one_line(media_type),
        file.display()
    ));
    Ok(())
}

async fn fetch(client: &Client, job: &Job, result: &Content) -> Result<Vec<u8>, ClientError> {
    match result.bytes() {
        Some(bytes) => Ok(bytes),
        None => client.result(job.id).await.map(Vec::from),
    }
}

fn is_text(media_type: &str) -> bool {
    blob::is_json(media_type)
        || media_type.starts_with("text/")
        || ["application/xml", "application/yaml", "application/x-ndjson", "image/svg+xml"]
            .contains(&media_type)
}
