//! Every way an attempt can end: a closed list, each with a stable code.

use std::fmt;
use std::time::Duration;

use crate::{Blob, Problem};

/// How one attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The handler returned; its result, if any.
    Completed(Option<Blob>),
    /// The handler said how it should go on.
    Verdict(Verdict),
    /// The handler broke, met a limit or broke the contract. Counts as an attempt.
    Failed(FailureCode, Problem),
    /// Somebody cancelled the job while it ran, for this reason.
    Cancelled(Problem),
    /// It was claimed when it was not to be started any more.
    Expired(Problem),
    /// The node could not run it, through no fault of the handler. Counts nothing.
    HandedBack(HandBack, Problem),
}

/// What a handler can answer other than success.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Again after the kind's backoff.
    Retry(Problem),
    /// Again no sooner than this.
    RetryAfter(Duration, Problem),
    /// Never again: the input is wrong.
    Permanent(Problem),
    /// Not ready yet; this attempt does not count.
    Snooze(Duration, String),
    /// No longer wanted.
    Cancel(String),
}

/// Why an attempt failed without a verdict of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureCode {
    /// The handler panicked or aborted.
    Panic,
    /// The handler trapped.
    Trap(TrapName),
    /// Its fuel ran out.
    Fuel,
    /// Its wall time ran out.
    Time,
    /// It asked for more memory than it may have.
    Memory,
    /// Its stack overflowed.
    Stack,
    /// Its result was too large.
    Output,
    /// It called the host too often.
    Calls,
    /// A command left with a status that means failure.
    Exit,
    /// The module lacks the export that its kind needs.
    ContractExport,
    /// The module wants an import that is not offered.
    ContractImport,
    /// A value that crossed the contract was malformed.
    ContractValue,
}

/// Traps other than those that have a class of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TrapName {
    /// Read or wrote outside its memory.
    MemoryOutOfBounds,
    /// Used a table slot that does not exist.
    TableOutOfBounds,
    /// Called through an empty table slot.
    IndirectCallToNull,
    /// Called a function by the wrong type.
    BadSignature,
    /// Integer overflow in a division or conversion.
    IntegerOverflow,
    /// Divided an integer by zero.
    IntegerDivisionByZero,
    /// Converted a number that is not a finite integer.
    BadConversionToInteger,
    /// Any other.
    Other,
}

/// Why an attempt was given back uncounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HandBack {
    /// The node had no room in its pool.
    PoolFull,
    /// The node is stopping.
    Draining,
    /// The node lost its lease.
    LeaseLost,
    /// A fault in the host.
    HostFault,
    /// The module could not be loaded on this node.
    ArtifactMissing,
}

impl FailureCode {
    /// Whether another try of the same input with the same limits can end differently.
    pub fn is_worth_retrying(self) -> bool {
        match self {
            FailureCode::Panic
            | FailureCode::Trap(_)
            | FailureCode::Time
            | FailureCode::Memory
            | FailureCode::Exit => true,
            FailureCode::Fuel
            | FailureCode::Stack
            | FailureCode::Output
            | FailureCode::Calls
            | FailureCode::ContractExport
            | FailureCode::ContractImport
            | FailureCode::ContractValue => false,
        }
    }

    /// The stable code, as stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            FailureCode::Panic => "handler.panic",
            FailureCode::Trap(name) => name.as_str(),
            FailureCode::Fuel => "limit.fuel",
            FailureCode::Time => "limit.time",
            FailureCode::Memory => "limit.memory",
            FailureCode::Stack => "limit.stack",
            FailureCode::Output => "limit.output",
            FailureCode::Calls => "limit.calls",
            FailureCode::Exit => "handler.exit",
            FailureCode::ContractExport => "contract.export",
            FailureCode::ContractImport => "contract.import",
            FailureCode::ContractValue => "contract.value",
        }
    }
}

impl TrapName {
    /// The stable code, as stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            TrapName::MemoryOutOfBounds => "guest.trap.memory-out-of-bounds",
            TrapName::TableOutOfBounds => "guest.trap.table-out-of-bounds",
            TrapName::IndirectCallToNull => "guest.trap.indirect-call-to-null",
            TrapName::BadSignature => "guest.trap.bad-signature",
            TrapName::IntegerOverflow => "guest.trap.integer-overflow",
            TrapName::IntegerDivisionByZero => "guest.trap.integer-division-by-zero",
            TrapName::BadConversionToInteger => "guest.trap.bad-conversion-to-integer",
            TrapName::Other => "guest.trap.other",
        }
    }
}

impl HandBack {
    /// The stable code, as stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            HandBack::PoolFull => "node.pool-full",
            HandBack::Draining => "node.draining",
            HandBack::LeaseLost => "node.lost",
            HandBack::HostFault => "host.fault",
            HandBack::ArtifactMissing => "artifact.missing",
        }
    }
}

impl Outcome {
    /// The stable code, as stored and shown.
    pub fn code(&self) -> &'static str {
        match self {
            Outcome::Completed(_) => "ok",
            Outcome::Verdict(Verdict::Retry(_)) => "handler.retry",
            Outcome::Verdict(Verdict::RetryAfter(..)) => "handler.retry-after",
            Outcome::Verdict(Verdict::Permanent(_)) => "handler.permanent",
            Outcome::Verdict(Verdict::Snooze(..)) => "handler.snooze",
            Outcome::Verdict(Verdict::Cancel(_)) => "handler.cancel",
            Outcome::Failed(code, _) => code.as_str(),
            Outcome::Cancelled(_) => "cancelled",
            Outcome::Expired(_) => "expired",
            Outcome::HandedBack(reason, _) => reason.as_str(),
        }
    }

    /// What to store and show of an attempt that was not a success.
    pub fn problem(&self) -> Option<Problem> {
        match self {
            Outcome::Completed(_) => None,
            Outcome::Verdict(Verdict::Retry(problem) | Verdict::Permanent(problem))
            | Outcome::Verdict(Verdict::RetryAfter(_, problem))
            | Outcome::Failed(_, problem)
            | Outcome::Cancelled(problem)
            | Outcome::Expired(problem)
            | Outcome::HandedBack(_, problem) => Some(problem.clone()),
            Outcome::Verdict(Verdict::Snooze(_, reason) | Verdict::Cancel(reason)) => {
                Some(Problem::new(reason))
            }
        }
    }
}

impl fmt::Display for FailureCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
