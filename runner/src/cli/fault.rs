//! Faults that the command line finds by itself, before or without a server.

use super::exit::Exit;

/// What is wrong, how the command ends because of it, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Fault {
    /// How the command ends.
    pub(crate) exit: Exit,
    /// A stable word for programs.
    pub(crate) code: &'static str,
    /// One sentence that names what and why.
    pub(crate) message: String,
    /// What to do about it.
    pub(crate) hint: Option<String>,
}

impl Fault {
    fn new(exit: Exit, code: &'static str, message: impl Into<String>) -> Self {
        Fault { exit, code, message: message.into(), hint: None }
    }

    /// Flags that are well formed and yet make no sense together or here.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Fault::new(Exit::Usage, "cli.usage", message)
    }

    /// What was named does not exist.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Fault::new(Exit::NotFound, "cli.not-found", message)
    }

    /// What was given is not acceptable.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Fault::new(Exit::Refused, "cli.invalid", message)
    }

    /// The job that was waited for, or run here, failed. Its outcome has been printed already.
    pub(crate) fn job_failed(message: impl Into<String>) -> Self {
        Fault::new(Exit::JobFailed, "job.failed", message)
    }

    /// A measurement is not what it has to be. Its figures have been printed already.
    pub(crate) fn missed(message: impl Into<String>) -> Self {
        Fault::new(Exit::Failure, "bench.missed", message)
    }

    /// The database is not as it has to be. What is wrong has been printed already.
    pub(crate) fn broken(message: impl Into<String>) -> Self {
        Fault::new(Exit::Failure, "verify.broken", message)
    }

    /// What was waited for did not come in time.
    pub(crate) fn not_in_time(message: impl Into<String>) -> Self {
        Fault::new(Exit::Failure, "cli.timeout", message)
    }

    /// The keyboard interrupted the command.
    pub(crate) fn interrupted() -> Self {
        Fault::new(Exit::Interrupted, "cli.interrupted", "interrupted")
    }

    /// Adds what to do about it.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}
