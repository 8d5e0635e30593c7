//! From whatever ended the guest to one outcome of the closed list, with a message a person can act
//! on. First what the host itself noted, then typed errors, then what is left.

use std::time::Duration;

use stokehold_domain::blob::{JSON, is_media_type};
use stokehold_domain::problem::clean;
use stokehold_domain::{
    Blob, EngineLimits, FailureCode, HandBack, Limits, Outcome, Problem, TrapName,
};
use wasmtime::component::ResourceTableError;
use wasmtime::{Error, PoolConcurrencyLimitError, Trap};
use wasmtime_wasi::I32Exit;

use crate::component::{self, Answer};
use crate::frames::frames;
use crate::limiter::Denied;
use crate::state::{State, Stop};
use crate::stdio::Stdout;
use crate::wasi::MAX_HANDLES;
use crate::{StopReason, exit};

/// How the guest came to an end.
pub(crate) enum Ended {
    /// A typed handler answered.
    Answered(Answer),
    /// A command returned.
    Returned,
    /// Entering or running it failed.
    Failed(Error),
    /// The host dropped it in the middle of a wait.
    Dropped(Stop),
}

/// Lines of standard error that go into a message.
const QUOTED_LINES: usize = 3;

pub(crate) fn classify(ended: Ended, state: &State, limits: &Limits, wall: Duration) -> Outcome {
    match ended {
        Ended::Answered(Ok(result)) => completed(result.map(component::to_blob), limits),
        Ended::Answered(Err(verdict)) => component::verdict(verdict),
        Ended::Returned => printed(state, limits),
        Ended::Dropped(stop) => stopped(&stop, state, limits, wall, Vec::new()),
        Ended::Failed(error) => failed(&error, state, limits, wall),
    }
}

fn failed(error: &Error, state: &State, limits: &Limits, wall: Duration) -> Outcome {
    if let Some(stop) = &state.stop {
        return stopped(stop, state, limits, wall, frames(error));
    }
    if let Some(I32Exit(status)) = error.downcast_ref() {
        return exited(*status, state, limits);
    }
    if error.is::<PoolConcurrencyLimitError>() {
        let problem = Problem::new(format!("the node had no room for another instance: {error}"));
        return Outcome::HandedBack(
            HandBack::PoolFull,
            problem.advice("it runs again elsewhere or later; lower the slots of the node"),
        );
    }
    let trap = error.downcast_ref::<Trap>().copied();
    let (code, problem) = match trap {
        Some(Trap::OutOfFuel) => out_of_fuel(limits),
        Some(Trap::StackOverflow) => stack_overflow(),
        _ => match state.ledger.denied().filter(|_| ends_for_want_of_memory(error, trap)) {
            Some(denied) => out_of_memory(denied),
            None => match trap {
                Some(Trap::UnreachableCodeReached) => panicked(state),
                Some(trap) => trapped(trap, state),
                None => broke_contract(error, limits),
            },
        },
    };
    Outcome::Failed(code, Problem { frames: frames(error), ..problem })
}

/// Whether a guest that was denied memory broke down over it, and not over something else later:
/// allocators abort, or hand out an address near the end of the address space, and an instance that
/// starts too large is refused by wasmtime in these words.
fn ends_for_want_of_memory(error: &Error, trap: Option<Trap>) -> bool {
    match trap {
        Some(Trap::UnreachableCodeReached | Trap::MemoryOutOfBounds) => true,
        Some(_) => false,
        None => format!("{error:#}").contains("exceeds"),
    }
}

fn stopped(
    stop: &Stop,
    state: &State,
    limits: &Limits,
    wall: Duration,
    frames: Vec<String>,
) -> Outcome {
    let (code, problem) = match stop {
        Stop::Order(StopReason::Cancelled(why)) => {
            return Outcome::Cancelled(Problem::new(why));
        }
        Stop::Order(StopReason::Draining) => {
            let problem = Problem::new("the node is stopping and handed the job back");
            return Outcome::HandedBack(HandBack::Draining, problem);
        }
        Stop::Order(StopReason::LeaseLost) => {
            let problem = Problem::new("the node lost its lease and stopped what it ran");
            return Outcome::HandedBack(HandBack::LeaseLost, problem);
        }
        Stop::Time => {
            let doing = if frames.is_empty() { "waiting in the host" } else { "computing" };
            let message = format!(
                "out of time: stopped after {} ms while {doing}; the limit is {} ms",
                wall.as_millis(),
                limits.timeout_ms
            );
            (FailureCode::Time, Problem::new(message).advice(
                "raise `timeout_ms` of the kind, split the job, or look for a loop or wait that \
                 never ends",
            ))
        }
        Stop::Calls => {
            let message = format!(
                "too many host calls: {} were made and the limit is {}",
                state.meter.limited_calls(),
                limits.host_calls
            );
            (
                FailureCode::Calls,
                Problem::new(message)
                    .advice("write and log in larger pieces, or raise `host_calls` of the kind"),
            )
        }
        Stop::Output => {
            let total = match &state.stdio.stdout {
                Stdout::Result(result) => result.total(),
                Stdout::Lines(_) => 0,
            };
            result_too_large(total, limits)
        }
    };
    Outcome::Failed(code, Problem { frames, ..problem })
}

fn exited(status: i32, state: &State, limits: &Limits) -> Outcome {
    if status == 0 {
        return printed(state, limits);
    }
    let outcome = exit::verdict(status, &state.stdio.stderr.last(QUOTED_LINES));
    match (outcome, state.ledger.denied()) {
        // A language that reports its own out-of-memory leaves with a status; the limit is why.
        (Outcome::Failed(FailureCode::Exit, _), Some(denied)) => {
            let (code, problem) = out_of_memory(denied);
            Outcome::Failed(code, problem)
        }
        (outcome, _) => outcome,
    }
}

/// The result of a command: what it printed. Its media type is JSON if it parses as that, text if it
/// is UTF-8, bytes otherwise; nothing printed is no result.
fn printed(state: &State, limits: &Limits) -> Outcome {
    let Stdout::Result(result) = &state.stdio.stdout else { return Outcome::Completed(None) };
    if result.is_over() {
        let (code, problem) = result_too_large(result.total(), limits);
        return Outcome::Failed(code, problem);
    }
    let bytes = result.take_bytes();
    if bytes.is_empty() {
        return Outcome::Completed(None);
    }
    let media_type = if serde_json::from_slice::<serde::de::IgnoredAny>(&bytes).is_ok() {
        JSON
    } else if std::str::from_utf8(&bytes).is_ok() {
        "text/plain; charset=utf-8"
    } else {
        "application/octet-stream"
    };
    Outcome::Completed(Some(Blob { media_type: media_type.to_owned(), bytes }))
}

fn completed(result: Option<Blob>, limits: &Limits) -> Outcome {
    let Some(blob) = &result else { return Outcome::Completed(None) };
    if blob.bytes.len() as u64 > limits.result_bytes {
        let (code, problem) = result_too_large(blob.bytes.len() as u64, limits);
        return Outcome::Failed(code, problem);
    }
    if !is_media_type(&blob.media_type) {
        let shown = clean(&blob.media_type, 100);
        let problem = Problem::new(format!("the result has a malformed media type: {shown:?}"));
        return Outcome::Failed(
            FailureCode::ContractValue,
            problem.advice("return a type such as `application/json`"),
        );
    }
    Outcome::Completed(result)
}

fn result_too_large(bytes: u64, limits: &Limits) -> (FailureCode, Problem) {
    let message =
        format!("result too large: {bytes} bytes, and the limit is {} bytes", limits.result_bytes);
    (FailureCode::Output, Problem::new(message).advice(
        "return less, store the data elsewhere and return where, or raise `result_bytes` of the kind",
    ))
}

fn out_of_fuel(limits: &Limits) -> (FailureCode, Problem) {
    let message = format!("out of fuel: used {0} of {0} fuel", limits.fuel);
    (
        FailureCode::Fuel,
        Problem::new(message).advice(
            "do less in one job, raise `fuel` of the kind, or look for a loop that never ends",
        ),
    )
}

fn stack_overflow() -> (FailureCode, Problem) {
    let message = format!(
        "stack overflow: calls went deeper than the stack of {} KiB",
        EngineLimits::STACK_BYTES >> 10
    );
    (
        FailureCode::Stack,
        Problem::new(message).advice(
            "look for recursion without end in the frames, or keep large values on the heap",
        ),
    )
}

fn out_of_memory(denied: Denied) -> (FailureCode, Problem) {
    let message = match denied {
        Denied::Memory { asked_for_bytes, in_use_bytes, most_bytes } => format!(
            "out of memory: asked for {} MiB with {} MiB in use; the limit is {} MiB",
            mib(asked_for_bytes),
            mib(in_use_bytes),
            mib(most_bytes)
        ),
        Denied::Table { asked_for, most } => {
            format!("out of memory: asked for {asked_for} table elements; the limit is {most}")
        }
    };
    (
        FailureCode::Memory,
        Problem::new(message).advice("work on less at once, or raise `memory_bytes` of the kind"),
    )
}

/// With one decimal where it says something.
fn mib(bytes: u64) -> String {
    const MIB: u64 = 1 << 20;
    if bytes.is_multiple_of(MIB) || bytes > 1024 * MIB {
        (bytes / MIB).to_string()
    } else {
        format!("{:.1}", bytes as f64 / MIB as f64)
    }
}

fn panicked(state: &State) -> (FailureCode, Problem) {
    if let Some(text) = state.stdio.stderr.panic_text() {
        let problem = Problem::new(format!("handler panicked: {text}"));
        return (FailureCode::Panic, problem.advice("the frames and the log show the way to it"));
    }
    let said = state.stdio.stderr.last(QUOTED_LINES).join("\n");
    let message = if said.is_empty() {
        "handler aborted without a message (`unreachable` was executed)".to_owned()
    } else {
        format!("handler aborted; it last said on standard error: {said}")
    };
    (FailureCode::Panic, Problem::new(message).advice(
        "look at the innermost frame; a build with names, and panics that print to standard error, \
         says more",
    ))
}

fn trapped(trap: Trap, state: &State) -> (FailureCode, Problem) {
    let (name, what, advice) = match trap {
        Trap::MemoryOutOfBounds | Trap::HeapMisaligned => (
            TrapName::MemoryOutOfBounds,
            format!("read or wrote outside its memory of {} MiB", mib(state.ledger.in_use_bytes())),
            "a stray pointer or index: look at the innermost frame",
        ),
        Trap::TableOutOfBounds => (
            TrapName::TableOutOfBounds,
            "used a table slot that does not exist".to_owned(),
            "a stray function pointer: look at the innermost frame",
        ),
        Trap::IndirectCallToNull => (
            TrapName::IndirectCallToNull,
            "called a null function pointer".to_owned(),
            "look at the innermost frame",
        ),
        Trap::BadSignature => (
            TrapName::BadSignature,
            "called a function pointer by the wrong type".to_owned(),
            "a cast between function types, or corrupted memory: look at the innermost frame",
        ),
        Trap::IntegerOverflow => (
            TrapName::IntegerOverflow,
            "an integer division or conversion overflowed".to_owned(),
            "check the range before dividing or converting",
        ),
        Trap::IntegerDivisionByZero => (
            TrapName::IntegerDivisionByZero,
            "divided an integer by zero".to_owned(),
            "check the divisor; the frames show where",
        ),
        Trap::BadConversionToInteger => (
            TrapName::BadConversionToInteger,
            "converted a number that is not a finite integer".to_owned(),
            "check for NaN and infinity before converting",
        ),
        Trap::StringOutOfBounds
        | Trap::ListOutOfBounds
        | Trap::InvalidChar
        | Trap::InvalidDiscriminant
        | Trap::UnalignedPointer
        | Trap::CannotEnterComponent
        | Trap::CannotLeaveComponent => {
            let message = format!("a value that crossed the contract was malformed: {trap}");
            let advice = "the bindings of the handler are broken: update its toolchain or SDK";
            return (FailureCode::ContractValue, Problem::new(message).advice(advice));
        }
        other => (TrapName::Other, format!("trapped: {other}"), "look at the innermost frame"),
    };
    (FailureCode::Trap(name), Problem::new(format!("handler trapped: {what}")).advice(advice))
}

fn broke_contract(error: &Error, limits: &Limits) -> (FailureCode, Problem) {
    let text = clean(&format!("{:#}", error.root_cause()), 2_000);
    let is_full = matches!(error.downcast_ref(), Some(ResourceTableError::Full));
    if is_full || text.contains("handle limit exceeded") {
        let message = format!("too many open handles: the limit is {MAX_HANDLES}");
        let advice = "close streams and pollables that are no longer needed";
        return (FailureCode::Calls, Problem::new(message).advice(advice));
    }
    // The only way to tell: the type of this error is private to wasmtime.
    if text.contains("fuel allocated for hostcalls") {
        let message = format!(
            "passed too much data to the host at once; a result may have {} bytes",
            limits.result_bytes
        );
        let advice = "return less, or write and log in smaller pieces";
        return (FailureCode::Output, Problem::new(message).advice(advice));
    }
    let problem = Problem::new(format!("the handler broke its contract with the host: {text}"));
    (FailureCode::ContractValue, problem.advice(
        "the bindings of the handler are broken or of another version: update its toolchain or SDK",
    ))
}
