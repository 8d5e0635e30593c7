//! What a job may say about itself, as flags.

use std::time::Duration;

use chrono::{DateTime, Utc};
use clap::{Args, ValueEnum};
use stokehold_api::wire::{NewJob, Unique};
use stokehold_domain::{JobState, UniqueMode};

use super::fault::Fault;
use super::kind::whole_ms;
use super::units;

/// Flags beside kind, payload and time.
#[derive(Args, Debug)]
#[command(next_help_heading = "About the job")]
pub(super) struct OptionArgs {
    /// A word to find it by; repeatable
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Two jobs of the kind with the same text are duplicates
    #[arg(long, value_name = "KEY", conflicts_with = "unique_by")]
    unique: Option<String>,
    /// Two jobs with the same value there in the payload are, such as order.id; repeatable
    #[arg(long, value_name = "PATH")]
    unique_by: Vec<String>,
    /// And for this long after it was enqueued, even if it has ended
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration)]
    unique_for: Option<Duration>,
    /// The states in which it has duplicates; all before its end by default
    #[arg(long, value_name = "STATE", value_delimiter = ',')]
    unique_states: Option<Vec<JobState>>,
    /// What becomes of a duplicate
    #[arg(long, value_name = "WHAT", default_value = "existing", hide_default_value = true)]
    on_duplicate: OnDuplicate,
    /// If it has not been started by then, it ends, such as 2027-01-31T18:00:00Z
    #[arg(long, value_name = "TIME", value_parser = units::parse_time, conflicts_with = "expires_in")]
    expires_at: Option<DateTime<Utc>>,
    /// If it has not been started after this time, it ends
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration)]
    expires_in: Option<Duration>,
    /// Jobs of the kind with the same key run as many at a time as the kind allows for one
    #[arg(long, value_name = "KEY")]
    concurrency_key: Option<String>,
    /// The release that every attempt runs; the active one by default
    #[arg(long, value_name = "N")]
    release: Option<i32>,
    /// Wall time of one attempt, where that is less than the release has
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration)]
    timeout: Option<Duration>,
}

/// What becomes of a duplicate.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum OnDuplicate {
    /// Nothing is made; the answer is the job that there is
    Existing,
    /// It is an error
    Reject,
    /// The job that there is, if it waits, has the new input and keeps its time
    Replace,
    /// As replace, and it waits until the new time
    Debounce,
}

impl OptionArgs {
    /// Says of the job what the flags say.
    pub(super) fn apply(&self, job: NewJob, now: DateTime<Utc>) -> Result<NewJob, Fault> {
        let is_unique = self.unique.is_some() || !self.unique_by.is_empty();
        if !is_unique && (self.unique_for.is_some() || self.unique_states.is_some()) {
            return Err(Fault::usage("say what makes the job unique: --unique or --unique-by"));
        }
        let unique = Unique {
            key: self.unique.clone(),
            fields: (!self.unique_by.is_empty()).then(|| self.unique_by.clone()),
            states: self.unique_states.clone(),
            for_ms: self.unique_for.map(whole_ms).transpose()?,
            mode: match self.on_duplicate {
                OnDuplicate::Existing => UniqueMode::Existing,
                OnDuplicate::Reject => UniqueMode::Reject,
                OnDuplicate::Replace => UniqueMode::Replace,
                OnDuplicate::Debounce => UniqueMode::Debounce,
            },
        };
        let expires_at = match self.expires_in {
            None => self.expires_at,
            Some(after) => Some(
                units::after(now, after)
                    .ok_or_else(|| Fault::usage("--expires-in reaches past the end of time"))?,
            ),
        };
        Ok(NewJob {
            unique: is_unique.then_some(unique),
            expires_at,
            tags: self.tags.clone(),
            concurrency_key: self.concurrency_key.clone(),
            release: self.release,
            timeout_ms: self.timeout.map(whole_ms).transpose()?,
            ..job
        })
    }
}
