//! What can go wrong between us and the database, sorted by what the caller can do about it.

use std::sync::Arc;
use std::time::Duration;

/// A call to the queue that did not succeed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum QueueError {
    /// The request itself is wrong; the same request will be refused again.
    #[error("{message}")]
    Refused {
        /// The class, for programs.
        code: RefusalCode,
        /// What was wrong, naming it.
        message: String,
        /// What to do about it.
        hint: Option<String>,
    },
    /// The database cannot be reached, is starting or stopping, or has no connection left.
    #[error("{what}: the database cannot be reached")]
    Unreachable {
        /// What was attempted.
        what: &'static str,
        /// Why.
        #[source]
        source: Arc<sqlx::Error>,
    },
    /// No answer within the deadline. Whether a write took effect is unknown.
    #[error("{what}: no answer from the database within {} ms", limit.as_millis())]
    Timeout {
        /// What was attempted.
        what: &'static str,
        /// How long was waited.
        limit: Duration,
    },
    /// A deadlock, serialization failure, statement timeout or the like: nothing took effect, the
    /// same call may succeed.
    #[error("{what}: the database asks to try again")]
    TryAgain {
        /// What was attempted.
        what: &'static str,
        /// Why.
        #[source]
        source: Arc<sqlx::Error>,
    },
    /// The schema is not the one that this binary was built for.
    #[error("{0}")]
    Schema(String),
    /// Anything else: a fault of ours or of the database.
    #[error("{what}: the database refused the statement")]
    Database {
        /// What was attempted.
        what: &'static str,
        /// Why.
        #[source]
        source: Arc<sqlx::Error>,
    },
}

/// Classes of refused requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalCode {
    /// A job names a kind that does not exist.
    UnknownKind,
    /// A payload or other value is over its limit.
    TooLarge,
    /// A value that is not allowed.
    Invalid,
    /// The thing named does not exist.
    NotFound,
    /// The state it is in does not allow it.
    Conflict,
}

impl QueueError {
    /// True when the same call may succeed later without anybody changing the request.
    pub fn is_temporary(&self) -> bool {
        matches!(
            self,
            QueueError::Unreachable { .. }
                | QueueError::Timeout { .. }
                | QueueError::TryAgain { .. }
        )
    }

    /// Which of the jobs of an enqueueing call was refused, from 0: the function counts them from 1 and
    /// begins its message with the number.
    pub fn refused_job(&self) -> Option<usize> {
        let QueueError::Refused { message, .. } = self else { return None };
        let (number, _) = message.strip_prefix("job ")?.split_once(": ")?;
        number.parse::<usize>().ok()?.checked_sub(1)
    }

    /// The request is refused, with what to do.
    pub(crate) fn refused(code: RefusalCode, message: impl Into<String>, hint: &str) -> Self {
        let hint = (!hint.is_empty()).then(|| hint.to_owned());
        QueueError::Refused { code, message: message.into(), hint }
    }

    /// Sorts an error of the driver.
    pub(crate) fn from_driver(what: &'static str, source: sqlx::Error) -> Self {
        match &source {
            sqlx::Error::Database(error) => match error.code().as_deref().unwrap_or_default() {
                "SH404" => Self::from_contract(RefusalCode::UnknownKind, error.as_ref()),
                "SH409" => Self::from_contract(RefusalCode::Conflict, error.as_ref()),
                "SH413" => Self::from_contract(RefusalCode::TooLarge, error.as_ref()),
                "SH422" => Self::from_contract(RefusalCode::Invalid, error.as_ref()),
                // Serialization failure, deadlock, lock not available, statement timeout; a row that
                // another one needs was made or deleted in between.
                "40001" | "40P01" | "55P03" | "57014" | "23503" => {
                    QueueError::TryAgain { what, source: source.into() }
                }
                // A check without a name is that of a partition: its day was made in between.
                "23514" if error.constraint().is_none() => {
                    QueueError::TryAgain { what, source: source.into() }
                }
                // Bytes, or an escape in JSON, that text cannot hold.
                "22021" | "22P05" => Self::refused(
                    RefusalCode::Invalid,
                    format!(
                        "{what}: a text holds the character U+0000, which PostgreSQL cannot store"
                    ),
                    "Leave it out, or send the text as bytes.",
                ),
                // Connection exceptions, insufficient resources, operator intervention (a restart),
                // and a server that turned into a standby.
                code if code.starts_with("08")
                    || code.starts_with("53")
                    || code.starts_with("57P")
                    || code == "25006" =>
                {
                    QueueError::Unreachable { what, source: source.into() }
                }
                _ => QueueError::Database { what, source: source.into() },
            },
            sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed => QueueError::Unreachable { what, source: source.into() },
            _ => QueueError::Database { what, source: source.into() },
        }
    }

    fn from_contract(code: RefusalCode, error: &dyn sqlx::error::DatabaseError) -> Self {
        let hint = error
            .try_downcast_ref::<sqlx::postgres::PgDatabaseError>()
            .and_then(|error| error.hint())
            .unwrap_or_default();
        Self::refused(code, error.message(), hint)
    }
}
