//! How an error is told: one clear sentence, why, what to do; or one problem document.

use std::io::{self, Write};

use console::Style;
use serde_json::{Value, json};
use stokehold_api::wire::Problem;
use stokehold_queue::QueueError;

use super::exit::Exit;
use super::fault::Fault;
use super::text::{block, escape_json};
use crate::client::ClientError;

/// An error, taken apart for telling.
#[derive(Debug, Default)]
struct Complaint {
    message: String,
    causes: Vec<String>,
    hint: Option<String>,
    code: String,
    request: String,
    places: Vec<String>,
}

/// Tells the error on stderr.
pub(crate) fn tell(error: &anyhow::Error, as_json: bool) {
    let text = if as_json {
        format!("{}\n", escape_json(&document(error).to_string()))
    } else {
        Complaint::of(error).for_people(console::colors_enabled_stderr())
    };
    // Nobody may be left to read it.
    drop(io::stderr().lock().write_all(text.as_bytes()));
}

/// The error as a problem document. One that the server sent stays as it is.
fn document(error: &anyhow::Error) -> Value {
    let exit = Exit::of(error) as u8;
    let mut document = match find::<ClientError>(error) {
        Some(ClientError::Problem(problem)) => json!(problem),
        _ => {
            let told = Complaint::of(error);
            let mut detail = told.message;
            for cause in told.causes {
                detail = format!("{detail}: {cause}");
            }
            let mut document = json!({
                "type": format!("urn:stokehold:error:{}", told.code),
                "title": "the command failed",
                "code": told.code,
                "detail": detail,
            });
            if let Some(hint) = told.hint {
                document["hint"] = hint.into();
            }
            document
        }
    };
    document["exit"] = exit.into();
    document
}

impl Complaint {
    /// Takes the error apart.
    fn of(error: &anyhow::Error) -> Self {
        let mut told = Complaint {
            message: error.to_string(),
            causes: error.chain().skip(1).map(ToString::to_string).collect(),
            code: "cli.failure".to_owned(),
            ..Complaint::default()
        };
        if let Some(fault) = find::<Fault>(error) {
            told.code = fault.code.to_owned();
            told.hint = fault.hint.clone();
        } else if let Some(error) = find::<ClientError>(error) {
            told.add_client(error);
        } else if let Some(error) = find::<QueueError>(error) {
            told.add_queue(error);
        }
        told
    }

    fn add_client(&mut self, error: &ClientError) {
        match error {
            ClientError::Problem(problem) => self.add_problem(problem),
            ClientError::Unreachable { .. } => {
                self.code = "cli.unreachable".to_owned();
                // The library wraps what the system said in sentences of its own.
                self.causes.drain(..self.causes.len().saturating_sub(1));
                self.hint = Some(
                    "Start one with `stokehold dev`, or say where it is with --url or STOKEHOLD_URL."
                        .to_owned(),
                );
            }
            ClientError::TimedOut { .. } => {
                self.code = "cli.timeout".to_owned();
                self.hint = Some(
                    "Whether the request took effect is unknown: look before you repeat it."
                        .to_owned(),
                );
            }
            ClientError::Nonsense { .. } => {
                self.code = "cli.nonsense".to_owned();
                self.hint = Some(
                    "Is the address that of a Stokehold server of the same version?".to_owned(),
                );
            }
        }
    }

    fn add_problem(&mut self, problem: &Problem) {
        self.code.clone_from(&problem.code);
        self.request.clone_from(&problem.instance);
        self.hint.clone_from(&problem.hint);
        if problem.status == 401 {
            // The server speaks of headers, and here there are flags.
            self.hint = Some(
                "Give a key of this server with --key or STOKEHOLD_KEY; `stokehold key create` \
                 makes one."
                    .to_owned(),
            );
        }
        self.places = problem
            .errors
            .iter()
            // The sentence itself may say all there is.
            .filter(|error| !problem.detail.contains(&error.detail))
            .map(|error| {
                let place = [&error.pointer, &error.parameter];
                match place.into_iter().flatten().next() {
                    Some(place) => format!("{place}: {}", error.detail),
                    None => error.detail.clone(),
                }
            })
            .collect();
    }

    fn add_queue(&mut self, error: &QueueError) {
        self.code = "cli.database".to_owned();
        self.hint = match error {
            QueueError::Refused { hint, .. } => hint.clone(),
            QueueError::Schema(_) => None,
            QueueError::Unreachable { .. } | QueueError::Timeout { .. } => {
                Some("Is the server running, and is --database-url or DATABASE_URL right?".into())
            }
            QueueError::TryAgain { .. } => Some("Try again.".into()),
            QueueError::Database { .. } => {
                Some("Has the schema been made? `stokehold migrate` makes it.".into())
            }
        };
    }

    fn for_people(&self, colour: bool) -> String {
        let style = Style::new().force_styling(colour);
        let (red, dim) = (style.clone().red().bold(), style.dim());
        let message = block(&self.message).replace('\n', "\n  ");
        let mut text = format!("{} {message}\n", red.apply_to("error:"));
        for place in &self.places {
            text.push_str(&format!("  at {}\n", block(place)));
        }
        // A cause that the sentence already contains tells nothing new.
        for cause in self.causes.iter().filter(|cause| !self.message.contains(cause.as_str())) {
            text.push_str(&format!("  why: {}\n", block(cause)));
        }
        if let Some(hint) = &self.hint {
            text.push_str(&format!("  {}\n", block(hint)));
        }
        if !self.request.is_empty() {
            let trace = format!("({}, request {})", self.code, self.request);
            text.push_str(&format!("  {}\n", dim.apply_to(block(&trace))));
        }
        text
    }
}

fn find<T: std::error::Error + Send + Sync + 'static>(error: &anyhow::Error) -> Option<&T> {
    error.chain().find_map(|cause| cause.downcast_ref::<T>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use stokehold_api::wire::FieldError;

    fn unknown_kind() -> anyhow::Error {
        ClientError::Problem(Box::new(Problem {
            type_uri: "urn:stokehold:error:kind.unknown".into(),
            title: "unknown kind".into(),
            status: 404,
            detail: "there is no kind 'image.resiz\x1b[2J'".into(),
            instance: "r-1".into(),
            code: "kind.unknown".into(),
            hint: Some("Push a handler for it first.".into()),
            errors: vec![FieldError {
                pointer: Some("/kind".into()),
                detail: "unknown".into(),
                ..FieldError::default()
            }],
        }))
        .into()
    }

    #[test]
    fn people_are_told_what_where_and_what_to_do_and_the_terminal_obeys_nothing() {
        let text = Complaint::of(&unknown_kind()).for_people(false);
        insta::assert_snapshot!(text, @r"
        error: there is no kind 'image.resiz�[2J'
          at /kind: unknown
          Push a handler for it first.
          (kind.unknown, request r-1)
        ");
    }

    #[test]
    fn programs_get_the_problem_of_the_server_with_the_exit_code() {
        let document = document(&unknown_kind());
        assert_eq!(document["code"], "kind.unknown");
        assert_eq!(document["exit"], 3);
        assert_eq!(document["errors"][0]["pointer"], "/kind");
    }

    #[test]
    fn programs_get_a_problem_for_what_no_server_said_too() {
        let error = anyhow::Error::new(Fault::not_found("there is no file x").hint("Look again."));
        let document = document(&error.context("push the handler"));
        assert_eq!(document["detail"], "push the handler: there is no file x");
        assert_eq!((&document["exit"], &document["hint"]), (&3.into(), &"Look again.".into()));
    }
}
