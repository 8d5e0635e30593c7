//! What an instance carries while it runs: one per attempt, dropped with it.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use stokehold_domain::{Attempt, Blob, Limits};

use crate::StopReason;
use crate::component::{from_blob, types};
use crate::control::Shared;
use crate::limiter::Ledger;
use crate::meter::Meter;
use crate::stdio::{Lines, ResultBytes, Stdio, Stdout};
use crate::wasi::Wasi;

/// The data of one store.
pub(crate) struct State {
    pub(crate) attempt: Attempt,
    pub(crate) control: Arc<Shared>,
    pub(crate) ledger: Ledger,
    pub(crate) meter: Meter,
    pub(crate) stdio: Stdio,
    pub(crate) wasi: Wasi,
    pub(crate) deadline: Instant,
    pub(crate) deadline_unix_ms: u64,
    /// Why the host ended the guest, noted before the error travels up through it.
    pub(crate) stop: Option<Stop>,
}

/// Why the host ended a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Its wall time was up.
    Time,
    /// It was ordered to.
    Order(StopReason),
    /// It called the host too often.
    Calls,
    /// It printed more than a result may hold.
    Output,
}

impl State {
    pub(crate) fn new(
        attempt: Attempt,
        limits: &Limits,
        control: Arc<Shared>,
        started: Instant,
        is_command: bool,
    ) -> Self {
        let timeout = limits.timeout();
        let stdout = if is_command {
            Stdout::Result(ResultBytes::new(Arc::clone(&control), limits.result_bytes))
        } else {
            Stdout::Lines(Lines::new(Arc::clone(&control)))
        };
        State {
            stdio: Stdio { stderr: Lines::new(Arc::clone(&control)), stdout },
            attempt,
            control,
            ledger: Ledger::new(limits.memory_bytes),
            meter: Meter::new(limits.host_calls),
            wasi: Wasi::Unused,
            deadline: started + timeout,
            deadline_unix_ms: unix_ms(timeout),
            stop: None,
        }
    }

    /// The job as the guest receives it. The payload moves: it may be large, and it is wanted once.
    pub(crate) fn take_job(&mut self) -> types::Job {
        types::Job {
            id: u64::try_from(self.attempt.job_id.0).unwrap_or_default(),
            kind: self.attempt.kind.clone(),
            attempt: u32::from(self.attempt.attempt),
            max_attempts: u32::from(self.attempt.max_attempts),
            payload: from_blob(self.take_payload()),
        }
    }

    pub(crate) fn take_payload(&mut self) -> Blob {
        let payload = &mut self.attempt.payload;
        Blob { media_type: payload.media_type.clone(), bytes: std::mem::take(&mut payload.bytes) }
    }
}

/// The wall clock that long from now, for the guest's information only.
fn unix_ms(from_now: Duration) -> u64 {
    let at =
        SystemTime::now().checked_add(from_now).and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    at.map_or(0, |at| u64::try_from(at.as_millis()).unwrap_or(u64::MAX))
}
