//! Schedules: rows that make jobs at the times of a cron expression.
//!
//! There is no leader. A tick tells every node that a schedule is due; each that comes locks one schedule after the
//! other, passing by those that another holds, reads the database's clock, and writes the jobs and a row for
//! each fire in one transaction. The key of those rows, (schedule, fire time), decides who has fired. If the
//! process dies here, nothing has happened and another node fires.

mod fire;

use chrono::{DateTime, Utc};
use serde_json::Value;
use stokehold_domain::{Blob, JobId, Timing, check_name};

use crate::database::bounded;
use crate::{Database, QueueError, RefusalCode};

pub use fire::{FailedSchedule, Fired, MAX_FIRES};

/// What a schedule says.
#[derive(Clone, Debug, PartialEq)]
pub struct NewSchedule {
    /// The kind of its jobs.
    pub kind: String,
    /// The expression.
    pub cron: String,
    /// The zone it is read in.
    pub timezone: String,
    /// What each job gets.
    pub payload: Blob,
    /// As the kind has it if absent.
    pub priority: Option<i16>,
    /// As the kind has it if absent.
    pub max_attempts: Option<i16>,
    /// Of each job, beside the schedule's name and the fire time.
    pub metadata: Option<Value>,
    /// What becomes of fires that come late.
    pub misfire: Misfire,
    /// Later than this nothing runs, in seconds; at most a week.
    pub misfire_window_s: i32,
    /// What becomes of a fire while the job of an earlier one has not ended.
    pub overlap: Overlap,
}

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$word_doc:meta])* $word:ident = $text:literal),+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub enum $name { $($(#[$word_doc])* $word),+ }

        impl $name {
            /// As it is stored and travels.
            pub fn as_str(self) -> &'static str {
                match self { $($name::$word => $text),+ }
            }

            fn read(text: &str) -> Self {
                match text { $($text => $name::$word,)+ _ => $name::default() }
            }
        }
    };
}

words! {
    /// What becomes of fires that come late, within the window.
    Misfire {
        /// None runs.
        Skip = "skip",
        /// The latest runs.
        #[default]
        Once = "once",
        /// Each runs.
        All = "all"
    }
}
words! {
    /// What becomes of a fire while the job of an earlier one has not ended.
    Overlap {
        /// It runs beside it.
        #[default]
        Allow = "allow",
        /// It is left out.
        Skip = "skip"
    }
}

/// A schedule as stored.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// Its name.
    pub name: String,
    /// What it says.
    pub said: NewSchedule,
    /// Since when it is paused.
    pub paused_at: Option<DateTime<Utc>>,
    /// The first time that has not been fired.
    pub next_fire_at: Option<DateTime<Utc>>,
    /// Why the last try to fire failed.
    pub problem: Option<String>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
}

/// What became of one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FireRecord {
    /// The time.
    pub fire_at: DateTime<Utc>,
    /// `cron`, `backfill` or `asked`.
    pub cause: String,
    /// The job that was made.
    pub job: Option<JobId>,
    /// Why none was: `missed` or `overlap`.
    pub skipped: Option<String>,
}

impl Database {
    /// Makes the schedule or changes it; `true` when it was new. It fires from the next time on.
    pub async fn put_schedule(
        &self,
        name: &str,
        said: &NewSchedule,
    ) -> Result<(Schedule, bool), QueueError> {
        let invalid = |why: String| QueueError::refused(RefusalCode::Invalid, why, "");
        check_name("schedule", name).map_err(|error| invalid(error.to_string()))?;
        let timing =
            Timing::read(&said.cron, &said.timezone).map_err(|error| invalid(error.to_string()))?;
        let now = self.now().await?;
        let row = bounded!(self, "store a schedule", |conn| {
            sqlx::query_file!(
                "src/sql/put_schedule.sql",
                name,
                said.kind,
                said.cron,
                said.timezone,
                said.payload.bytes,
                said.payload.media_type,
                said.priority,
                said.max_attempts,
                said.metadata,
                said.misfire.as_str(),
                said.misfire_window_s,
                said.overlap.as_str(),
                timing.next_after(now)
            )
            .fetch_optional(conn)
        })?;
        let Some(row) = row else {
            return Err(QueueError::refused(
                RefusalCode::UnknownKind,
                format!("there is no kind '{}'", said.kind),
                "Create it first, or push a handler for it.",
            ));
        };
        let schedule = self.schedule(name).await?.ok_or_else(|| unknown(name))?;
        Ok((schedule, row.is_new))
    }

    /// One schedule by its name.
    pub async fn schedule(&self, name: &str) -> Result<Option<Schedule>, QueueError> {
        Ok(self.find_schedules(Some(name)).await?.pop())
    }

    /// All schedules by name, at most 10,000.
    pub async fn schedules(&self) -> Result<Vec<Schedule>, QueueError> {
        self.find_schedules(None).await
    }

    async fn find_schedules(&self, name: Option<&str>) -> Result<Vec<Schedule>, QueueError> {
        let rows = bounded!(self, "read schedules", |conn| {
            sqlx::query!(
            r#"select s.name as "name!: String", k.name as "kind!: String", cron, timezone, payload, media_type,
                 s.priority, s.max_attempts, metadata, misfire, misfire_window_s, overlap, paused_at,
                 next_fire_at, problem, s.created_at
               from stokehold.schedules s join stokehold.kinds k on k.id = s.kind_id
               where $1::text is null or s.name = $1 order by s.name limit 10000"#,
            name
        )
        .fetch_all(conn)
        })?;
        Ok(rows
            .into_iter()
            .map(|row| Schedule {
                name: row.name,
                said: NewSchedule {
                    kind: row.kind,
                    cron: row.cron,
                    timezone: row.timezone,
                    payload: Blob { media_type: row.media_type, bytes: row.payload },
                    priority: row.priority,
                    max_attempts: row.max_attempts,
                    metadata: row.metadata,
                    misfire: Misfire::read(&row.misfire),
                    misfire_window_s: row.misfire_window_s,
                    overlap: Overlap::read(&row.overlap),
                },
                paused_at: row.paused_at,
                next_fire_at: row.next_fire_at,
                problem: row.problem,
                created_at: row.created_at,
            })
            .collect())
    }

    /// The last fires of a schedule, latest first.
    pub async fn fires(&self, name: &str, most: i64) -> Result<Vec<FireRecord>, QueueError> {
        let rows = bounded!(self, "read fires", |conn| sqlx::query!(
            "select fire_at, cause, job_id, skipped from stokehold.schedule_fires
             where schedule_id = (select id from stokehold.schedules where name = $1::text)
             order by fire_at desc limit $2",
            name,
            most
        )
        .fetch_all(conn))?;
        let record = rows.into_iter().map(|row| FireRecord {
            fire_at: row.fire_at,
            cause: row.cause,
            job: row.job_id.map(JobId),
            skipped: row.skipped,
        });
        Ok(record.collect())
    }

    /// Deletes a schedule and what is known of its fires; its jobs stay. `false` if there was none.
    pub async fn delete_schedule(&self, name: &str) -> Result<bool, QueueError> {
        let gone = bounded!(self, "delete a schedule", |conn| sqlx::query!(
            "delete from stokehold.schedules where name = $1::text",
            name
        )
        .execute(conn))?;
        Ok(gone.rows_affected() == 1)
    }

    /// Lets it fire no more until it is resumed.
    ///
    /// # Errors
    /// [`QueueError::Refused`] when there is none of the name.
    pub async fn pause_schedule(&self, name: &str) -> Result<(), QueueError> {
        let paused = bounded!(self, "pause a schedule", |conn| {
            sqlx::query!(
            "update stokehold.schedules set paused_at = coalesce(paused_at, clock_timestamp()), due_at = null
             where name = $1::text",
            name
        )
        .execute(conn)
        })?;
        if paused.rows_affected() == 0 { Err(unknown(name)) } else { Ok(()) }
    }

    /// Lets it fire again, from the next time on: what came while it was paused is not made up for.
    ///
    /// # Errors
    /// [`QueueError::Refused`] when there is none of the name.
    pub async fn resume_schedule(&self, name: &str) -> Result<(), QueueError> {
        let schedule = self.schedule(name).await?.ok_or_else(|| unknown(name))?;
        let timing = Timing::read(&schedule.said.cron, &schedule.said.timezone)
            .map_err(|error| QueueError::refused(RefusalCode::Invalid, error.to_string(), ""))?;
        let next = timing.next_after(self.now().await?);
        bounded!(self, "resume a schedule", |conn| {
            sqlx::query!(
            "update stokehold.schedules set paused_at = null, next_fire_at = $4, due_at = $4, problem = null
             where name = $1::text and cron = $2 and timezone = $3 and paused_at is not null",
            name,
            schedule.said.cron,
            schedule.said.timezone,
            next
        )
        .execute(conn)
        })?;
        Ok(())
    }

    /// The database's clock.
    async fn now(&self) -> Result<DateTime<Utc>, QueueError> {
        bounded!(self, "read the clock", |conn| sqlx::query_scalar!(
            r#"select clock_timestamp() as "now!""#
        )
        .fetch_one(conn))
    }
}

fn unknown(name: &str) -> QueueError {
    QueueError::refused(
        RefusalCode::NotFound,
        format!("there is no schedule '{name}'"),
        "List the schedules to see which there are.",
    )
}
