//! Entering a component that follows the typed contract.

use std::time::Duration;

use stokehold_domain::{Blob, Outcome, Problem, Verdict};
use wasmtime::Store;

use crate::state::State;

/// Generated from the contract in `sdk/wit`, the single source of truth.
pub(crate) mod bindings {
    wasmtime::component::bindgen!({
        path: "../../sdk/wit",
        world: "standard",
        imports: {
            // Storing child jobs will wait for the database; the rest answers from memory.
            "stokehold:job/spawn": async | trappable,
            default: trappable,
        },
        exports: { default: async },
    });
}

pub(crate) use bindings::stokehold::job::types;

/// What the handler answered.
pub(crate) type Answer = Result<Option<types::Blob>, types::Verdict>;

/// Instantiates and calls the handler. Start functions run here too, under the same limits.
pub(crate) async fn enter(
    store: &mut Store<State>,
    pre: &bindings::StandardPre<State>,
) -> wasmtime::Result<Answer> {
    let job = store.data_mut().take_job();
    let instance = pre.instantiate_async(&mut *store).await?;
    instance.stokehold_job_handler().call_handle(&mut *store, &job).await
}

/// The answer as an outcome, its texts bounded and cleaned; the result itself is judged by the
/// caller, who knows the limits.
pub(crate) fn verdict(verdict: types::Verdict) -> Outcome {
    Outcome::Verdict(match verdict {
        types::Verdict::Retry(problem) => Verdict::Retry(to_problem(problem)),
        types::Verdict::RetryAfter((delay_ms, problem)) => {
            Verdict::RetryAfter(Duration::from_millis(delay_ms), to_problem(problem))
        }
        types::Verdict::Permanent(problem) => Verdict::Permanent(to_problem(problem)),
        types::Verdict::Snooze((delay_ms, reason)) => {
            Verdict::Snooze(Duration::from_millis(delay_ms), cleaned(&reason))
        }
        types::Verdict::Cancel(reason) => Verdict::Cancel(cleaned(&reason)),
    })
}

fn cleaned(text: &str) -> String {
    Problem::new(text).message
}

fn to_problem(problem: types::Problem) -> Problem {
    Problem {
        message: problem.message,
        code: problem.code,
        detail: problem.detail.map(to_blob),
        ..Problem::default()
    }
    .bounded()
}

pub(crate) fn to_blob(blob: types::Blob) -> Blob {
    Blob { media_type: blob.media_type, bytes: blob.bytes }
}

pub(crate) fn from_blob(blob: Blob) -> types::Blob {
    types::Blob { media_type: blob.media_type, bytes: blob.bytes }
}

pub(crate) fn from_problem(problem: &Problem) -> types::Problem {
    types::Problem {
        message: problem.message.clone(),
        code: problem.code.clone(),
        detail: problem.detail.clone().map(from_blob),
    }
}
