//! `stokehold enqueue`: make jobs, and perhaps wait for their end.

use std::path::PathBuf;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use stokehold_api::wire::{Duplicate, EnqueueAnswer, EnqueuedBatch, JobBatch, NewJob};
use stokehold_domain::{Blob, JobId, blob};

use super::fault::Fault;
use super::job_options::OptionArgs;
use super::kind::kind_name;
use super::output::Output;
use super::payload::PayloadArgs;
use super::server::Server;
use super::{follow, units};
use crate::client::Client;

/// The most jobs that one command makes.
const MAX_COUNT: u64 = 1_000_000;
/// The most jobs in one request, as the API has it.
const BATCH_JOBS: usize = 10_000;
/// About how large one request may become, in bytes.
const BATCH_BYTES: usize = 8 << 20;

/// Enqueue a job, or many, and perhaps wait for the end
///
/// Prints the id of each job on a line of its own. With --wait it prints the result instead, once
/// there is one, and ends with 6 when the job failed for good.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  stokehold enqueue image.resize --payload @photo.jpg --wait --output small.jpg
  stokehold enqueue report --payload '{\"month\": \"2027-01\"}' --in 5m --meta customer=42
  echo '{}' | stokehold enqueue report --payload - --wait
  stokehold enqueue invoice --payload @order.json --unique-by order.id
  stokehold enqueue hello --count 10000")]
pub(crate) struct Args {
    /// The kind of job
    #[arg(value_name = "KIND", value_parser = kind_name)]
    kind: String,
    #[command(flatten)]
    payload: PayloadArgs,
    /// A pair that goes along with the job, for its handler and for people; repeatable
    #[arg(long = "meta", short, value_name = "NAME=VALUE", value_parser = pair)]
    metadata: Vec<(String, String)>,
    /// Not before this time, such as 2027-01-31T18:00:00Z
    #[arg(long, value_name = "TIME", value_parser = units::parse_time, conflicts_with = "delay")]
    at: Option<DateTime<Utc>>,
    /// Not before this much time has passed, such as 5m
    #[arg(long = "in", value_name = "TIME", value_parser = units::parse_duration)]
    delay: Option<Duration>,
    /// -1000 to 1000, lower runs first; the kind's by default
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    priority: Option<i32>,
    /// Tries in all; the kind's by default
    #[arg(long, value_name = "N")]
    max_attempts: Option<i32>,
    #[command(flatten)]
    options: OptionArgs,
    /// The same command again with the same key, within 7 days, makes nothing
    #[arg(long, value_name = "KEY", conflicts_with = "count")]
    idempotency_key: Option<String>,
    /// Make this many of the same job
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u64).range(1..=MAX_COUNT))]
    count: u64,
    /// Wait for the end
    #[arg(long, short)]
    wait: bool,
    /// Write the result to this file instead of stdout; implies --wait
    #[arg(long, short, value_name = "FILE", conflicts_with = "count")]
    output: Option<PathBuf>,
    #[command(flatten)]
    server: Server,
}

/// Runs the command.
pub(crate) async fn run(args: Args, output: &Output) -> anyhow::Result<()> {
    let client = args.server.client()?;
    let job = args.job(Utc::now())?;
    let waits = args.wait || args.output.is_some();
    if args.count == 1 {
        let made = client.enqueue(&job, args.idempotency_key.as_deref()).await?;
        if waits {
            return follow::one(&client, made.id, args.output.as_deref(), output).await;
        }
        if output.is_json() {
            output.document(&made)?;
        } else {
            output.line(made.id.to_string())?;
            match made.answer {
                EnqueueAnswer::Inserted => {}
                EnqueueAnswer::Existing => output.note("it was there: it has the unique key"),
                EnqueueAnswer::Replaced => {
                    output.note("it was there, has the unique key, and has this input now");
                }
            }
            output.note(format!("see it with: stokehold job get {}", made.id));
        }
        return Ok(());
    }
    let EnqueuedBatch { ids, duplicates } = enqueue_many(&client, &job, args.count, output).await?;
    if !duplicates.is_empty() {
        let number = units::grouped(duplicates.len() as u64);
        output.note(format!("{number} of them are duplicates of jobs that were there"));
    }
    if waits {
        return follow::many(&client, ids, output).await;
    }
    if output.is_json() {
        output.document(&EnqueuedBatch { ids, duplicates })?;
    } else {
        output.line(ids.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))?;
    }
    Ok(())
}

async fn enqueue_many(
    client: &Client,
    job: &NewJob,
    count: u64,
    output: &Output,
) -> anyhow::Result<EnqueuedBatch> {
    let job_bytes = serde_json::to_vec(job)?.len();
    let most = (BATCH_BYTES / job_bytes).clamp(1, BATCH_JOBS) as u64;
    let (mut ids, mut duplicates) = (Vec::<JobId>::new(), Vec::new());
    let mut left = count;
    while left > 0 {
        let jobs = vec![job.clone(); left.min(most) as usize];
        left -= jobs.len() as u64;
        match client.enqueue_batch(&JobBatch { jobs }).await {
            Ok(made) => {
                let before = ids.len();
                duplicates.extend(
                    made.duplicates
                        .into_iter()
                        .map(|other| Duplicate { index: before + other.index, ..other }),
                );
                ids.extend(made.ids);
            }
            Err(error) => {
                if !ids.is_empty() {
                    let made = units::grouped(ids.len() as u64);
                    output.note(format!("{made} jobs were made before this happened"));
                }
                return Err(error.into());
            }
        }
    }
    Ok(EnqueuedBatch { ids, duplicates })
}

impl Args {
    fn job(&self, now: DateTime<Utc>) -> anyhow::Result<NewJob> {
        let run_at = run_at(self.at, self.delay, now)?;
        let metadata: Map<String, Value> = self
            .metadata
            .iter()
            .map(|(name, value)| (name.clone(), value.clone().into()))
            .collect();
        let (payload, payload_base64, media_type) = carried(self.payload.read()?)?;
        let job = NewJob {
            kind: self.kind.clone(),
            payload,
            payload_base64,
            media_type,
            run_at,
            priority: self.priority,
            max_attempts: self.max_attempts,
            metadata: (!metadata.is_empty()).then_some(metadata),
            ..NewJob::default()
        };
        Ok(self.options.apply(job, now)?)
    }
}

/// When a job is to run: at a time, or after a delay.
pub(super) fn run_at(
    at: Option<DateTime<Utc>>,
    delay: Option<Duration>,
    now: DateTime<Utc>,
) -> Result<Option<DateTime<Utc>>, Fault> {
    let Some(delay) = delay else { return Ok(at) };
    match units::after(now, delay) {
        Some(at) => Ok(Some(at)),
        None => Err(Fault::usage("--in reaches past the end of time")),
    }
}

/// A payload as the API takes it: JSON as it stands, anything else in base64.
pub(super) type Carried = (Option<Box<RawValue>>, Option<String>, Option<String>);

pub(super) fn carried(payload: Blob) -> serde_json::Result<Carried> {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    if payload.media_type == blob::JSON {
        Ok((Some(serde_json::from_slice(&payload.bytes)?), None, None))
    } else {
        Ok((None, Some(STANDARD.encode(&payload.bytes)), Some(payload.media_type)))
    }
}

/// Reads `NAME=VALUE`.
pub(super) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!("{text:?} is not a pair: write NAME=VALUE")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_travels_as_it_was_written_and_other_bytes_in_base64() {
        let (json, base64, media_type) = carried(Blob::json(*b"{\"n\": 1.0}")).unwrap();
        assert_eq!(json.unwrap().get(), "{\"n\": 1.0}");
        assert_eq!((base64, media_type), (None, None));
        let image = Blob { media_type: "image/png".into(), bytes: vec![0xff, 0] };
        let (json, base64, media_type) = carried(image).unwrap();
        assert!(json.is_none());
        assert_eq!((base64.as_deref(), media_type.as_deref()), (Some("/wA="), Some("image/png")));
    }

    #[test]
    fn a_pair_needs_a_name_and_may_have_an_empty_value() {
        assert_eq!(pair("a=b=c"), Ok(("a".into(), "b=c".into())));
        assert_eq!(pair("a="), Ok(("a".into(), String::new())));
        assert!(pair("=b").is_err() && pair("a").is_err());
    }
}
