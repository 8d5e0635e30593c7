//! Exit codes: one word for each way a command can end.

use std::process::ExitCode;

use stokehold_queue::{QueueError, RefusalCode};

use super::fault::Fault;
use crate::client::ClientError;

/// How a command ended. The numbers are a promise, documented in `stokehold --help`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It did what was asked.
    Success = 0,
    /// It failed, for a reason that has no number of its own.
    Failure = 1,
    /// The command line was wrong.
    Usage = 2,
    /// What was named does not exist.
    NotFound = 3,
    /// What was asked is invalid, not permitted, or not possible in the present state.
    Refused = 4,
    /// No server or database answered.
    Unreachable = 5,
    /// The command did its part; the job that it waited for failed.
    JobFailed = 6,
    /// Interrupted by the keyboard.
    Interrupted = 130,
}

/// The table of `stokehold --help`.
pub(crate) const HELP: &str = "\
Exit codes:
  0    success
  1    failure
  2    the command line is wrong
  3    not found
  4    refused: invalid, not permitted, or not possible in the present state
  5    no server or database answered
  6    the awaited job failed
  130  interrupted";

impl Exit {
    /// The code that an error stands for.
    pub(crate) fn of(error: &anyhow::Error) -> Exit {
        for cause in error.chain() {
            if let Some(fault) = cause.downcast_ref::<Fault>() {
                return fault.exit;
            }
            if let Some(error) = cause.downcast_ref::<ClientError>() {
                return Exit::of_client(error);
            }
            if let Some(error) = cause.downcast_ref::<QueueError>() {
                return Exit::of_queue(error);
            }
        }
        Exit::Failure
    }

    fn of_client(error: &ClientError) -> Exit {
        match error {
            ClientError::Unreachable { .. } | ClientError::TimedOut { .. } => Exit::Unreachable,
            ClientError::Problem(problem) => match problem.status {
                404 | 410 => Exit::NotFound,
                // Behind a proxy these say that no server answered; 429 and 503 that it would not.
                502..=504 => Exit::Unreachable,
                400..500 => Exit::Refused,
                _ => Exit::Failure,
            },
            ClientError::Nonsense { .. } => Exit::Failure,
        }
    }

    fn of_queue(error: &QueueError) -> Exit {
        match error {
            QueueError::Refused {
                code: RefusalCode::NotFound | RefusalCode::UnknownKind, ..
            } => Exit::NotFound,
            QueueError::Refused { .. } | QueueError::Schema(_) => Exit::Refused,
            error if error.is_temporary() => Exit::Unreachable,
            _ => Exit::Failure,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stokehold_api::wire::Problem;

    fn problem(status: u16) -> anyhow::Error {
        ClientError::Problem(Box::new(Problem {
            type_uri: String::new(),
            title: String::new(),
            status,
            detail: String::new(),
            instance: String::new(),
            code: String::new(),
            hint: None,
            errors: Vec::new(),
        }))
        .into()
    }

    #[test]
    fn each_answer_of_the_server_has_its_exit_code() {
        for (status, exit) in [
            (404, Exit::NotFound),
            (410, Exit::NotFound),
            (400, Exit::Refused),
            (401, Exit::Refused),
            (409, Exit::Refused),
            (413, Exit::Refused),
            (422, Exit::Refused),
            (429, Exit::Refused),
            (500, Exit::Failure),
            (503, Exit::Unreachable),
        ] {
            assert_eq!(Exit::of(&problem(status)), exit, "{status}");
        }
    }

    #[test]
    fn context_around_an_error_does_not_hide_its_exit_code() {
        let error = problem(404).context("push the handler");
        assert_eq!(Exit::of(&error), Exit::NotFound);
        let error = anyhow::Error::new(Fault::not_found("no file")).context("outer");
        assert_eq!(Exit::of(&error), Exit::NotFound);
        assert_eq!(Exit::of(&anyhow::anyhow!("anything else")), Exit::Failure);
    }

    #[test]
    fn refusals_of_the_database_are_told_from_its_absence() {
        let refused = |code| QueueError::Refused { code, message: String::new(), hint: None };
        for (error, exit) in [
            (refused(RefusalCode::UnknownKind), Exit::NotFound),
            (refused(RefusalCode::Invalid), Exit::Refused),
            (QueueError::Schema(String::new()), Exit::Refused),
            (QueueError::Timeout { what: "x", limit: Default::default() }, Exit::Unreachable),
        ] {
            assert_eq!(Exit::of(&error.into()), exit);
        }
    }

    #[test]
    fn the_help_names_every_code() {
        for exit in [
            Exit::Success,
            Exit::Failure,
            Exit::Usage,
            Exit::NotFound,
            Exit::Refused,
            Exit::Unreachable,
            Exit::JobFailed,
            Exit::Interrupted,
        ] {
            let number = format!("  {:<5}", exit as u8);
            assert!(HELP.lines().any(|line| line.starts_with(&number)), "{exit:?}");
        }
    }
}
