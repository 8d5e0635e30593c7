//! Pauses: nothing of a queue, a kind or anything at all is claimed until a time or until it is resumed.
//!
//! What a pause means for a kind stands in the kind's own row, which every claim reads: so it holds from its
//! commit on, for every node. Jobs never move for it, and what runs goes on.

use std::time::Duration;

use chrono::{DateTime, Utc};
use stokehold_domain::check_name;

use crate::database::bounded;
use crate::{Database, QueueError, RefusalCode};

/// No time that a pause is given is longer.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// What is paused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Everything.
    All,
    /// The kinds of a queue, those to come included.
    Queue(String),
    /// One kind.
    Kind(String),
}

/// When a pause ends by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PauseEnd {
    /// Not at all.
    #[default]
    Never,
    /// At this time.
    At(DateTime<Utc>),
    /// After this time, by the database's clock; at most a hundred years.
    After(Duration),
}

/// A pause that holds.
#[derive(Clone, Debug)]
pub struct Pause {
    /// What is paused.
    pub scope: Scope,
    /// When it ends by itself; `None` when it is to be resumed.
    pub until: Option<DateTime<Utc>>,
    /// Why, as whoever paused it put it.
    pub reason: Option<String>,
    /// Since when.
    pub paused_at: DateTime<Utc>,
}

impl Scope {
    fn columns(&self) -> (&'static str, &str) {
        match self {
            Scope::All => ("all", ""),
            Scope::Queue(name) => ("queue", name),
            Scope::Kind(name) => ("kind", name),
        }
    }

    fn of(scope: &str, name: String) -> Scope {
        match scope {
            "queue" => Scope::Queue(name),
            "kind" => Scope::Kind(name),
            _ => Scope::All,
        }
    }

    fn check(&self) -> Result<(), QueueError> {
        match self {
            Scope::All => Ok(()),
            Scope::Queue(name) => check_name("queue", name),
            Scope::Kind(name) => check_name("kind", name),
        }
        .map_err(|error| QueueError::refused(RefusalCode::Invalid, error.to_string(), ""))
    }
}

impl Database {
    /// Pauses until the end, or until it is resumed; said again, the last call counts.
    ///
    /// # Errors
    /// [`QueueError::Refused`] for a kind that is not there and for a time that is past.
    pub async fn pause(
        &self,
        scope: &Scope,
        end: PauseEnd,
        reason: Option<&str>,
    ) -> Result<(), QueueError> {
        scope.check()?;
        let (scope, name) = scope.columns();
        let (at, after_s) = match end {
            PauseEnd::Never => (None, None),
            PauseEnd::At(at) => (Some(at), None),
            PauseEnd::After(time) => (None, Some(time.min(LONGEST).as_secs_f64())),
        };
        let reason = reason.map(|reason| reason.replace('\0', "\u{fffd}"));
        bounded!(self, "pause", |conn| {
            sqlx::query!(
            "select stokehold.pause($1, $2,
               coalesce($3, clock_timestamp() + make_interval(secs => $4), 'infinity'), left($5, 2000))",
            scope,
            name,
            at,
            after_s,
            reason
        )
        .fetch_one(conn)
        })?;
        Ok(())
    }

    /// Ends a pause of just this scope; `false` if there was none.
    pub async fn resume(&self, scope: &Scope) -> Result<bool, QueueError> {
        scope.check()?;
        let (scope, name) = scope.columns();
        bounded!(self, "resume", |conn| sqlx::query_scalar!(
            r#"select stokehold.resume($1, $2) as "was_paused!""#,
            scope,
            name
        )
        .fetch_one(conn))
    }

    /// The pauses that hold, at most 10,000: all, then kinds, then queues, by name.
    pub async fn pauses(&self) -> Result<Vec<Pause>, QueueError> {
        let rows = bounded!(self, "read pauses", |conn| {
            sqlx::query!(
            r#"select scope, name, nullif(until, 'infinity') as until, reason, paused_at
               from stokehold.pauses where until > clock_timestamp() order by scope, name limit 10000"#
        )
        .fetch_all(conn)
        })?;
        let pause = rows.into_iter().map(|row| Pause {
            scope: Scope::of(&row.scope, row.name),
            until: row.until,
            reason: row.reason,
            paused_at: row.paused_at,
        });
        Ok(pause.collect())
    }
}
