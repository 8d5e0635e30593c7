//! What a typed handler can ask of the host and tell it: the imports of the contract.

use std::sync::atomic::Ordering;
use std::time::Instant;

use stokehold_domain::Level;
use stokehold_domain::log::MAX_FIELDS;
use stokehold_domain::problem::clean;

use wasmtime::component::{HasSelf, Linker};

use crate::component::bindings::Standard;
use crate::component::bindings::stokehold::job::{context, log, progress, spawn, types};
use crate::component::from_problem;
use crate::control::lock;
use crate::meter::FUEL_PER_BYTE;
use crate::state::State;
use crate::{Progress, StopReason};

/// The longest note beside a progress report, in bytes.
const MAX_NOTE_BYTES: usize = 1 << 10;

/// Offers the contract's imports to components.
pub(crate) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    Standard::add_to_linker::<State, HasSelf<State>>(linker, |state| state)
}

impl types::Host for State {}

impl context::Host for State {
    fn deadline(&mut self) -> wasmtime::Result<u64> {
        self.meter.count_call();
        Ok(self.deadline_unix_ms)
    }

    fn remaining(&mut self) -> wasmtime::Result<u64> {
        self.meter.count_call();
        let left = self.deadline.saturating_duration_since(Instant::now());
        Ok(u64::try_from(left.as_millis()).unwrap_or(u64::MAX))
    }

    fn cancelled(&mut self) -> wasmtime::Result<Option<String>> {
        self.meter.count_call();
        self.control.cooperative.store(true, Ordering::Relaxed);
        Ok(self.control.order().map(|(reason, _)| match reason {
            StopReason::Cancelled(why) => why,
            StopReason::Draining => "the node is stopping".to_owned(),
            StopReason::LeaseLost => "the node lost its lease".to_owned(),
        }))
    }

    fn queue(&mut self) -> wasmtime::Result<String> {
        self.meter.count_call();
        Ok(self.attempt.queue.clone())
    }

    fn enqueued_at(&mut self) -> wasmtime::Result<u64> {
        self.meter.count_call();
        Ok(self.attempt.enqueued_at_ms)
    }

    fn scheduled_at(&mut self) -> wasmtime::Result<u64> {
        self.meter.count_call();
        Ok(self.attempt.scheduled_at_ms)
    }

    fn metadata(&mut self) -> wasmtime::Result<Vec<(String, String)>> {
        self.meter.count_call();
        Ok(self.attempt.metadata.clone())
    }

    fn idempotency_key(&mut self) -> wasmtime::Result<String> {
        self.meter.count_call();
        Ok(self.attempt.idempotency_key())
    }

    fn parent(&mut self) -> wasmtime::Result<Option<u64>> {
        self.meter.count_call();
        Ok(None)
    }

    fn traceparent(&mut self) -> wasmtime::Result<Option<String>> {
        self.meter.count_call();
        Ok(None)
    }

    fn last_problem(&mut self) -> wasmtime::Result<Option<types::Problem>> {
        self.meter.count_call();
        Ok(self.attempt.last_problem.as_ref().map(from_problem))
    }

    fn dependencies(
        &mut self,
        _offset: u32,
        _limit: u32,
    ) -> wasmtime::Result<Vec<context::FinishedJob>> {
        self.meter.count_call();
        Ok(Vec::new())
    }
}

impl log::Host for State {
    fn emit(
        &mut self,
        level: log::Level,
        message: String,
        fields: Vec<(String, String)>,
    ) -> wasmtime::Result<()> {
        self.meter.count_call();
        let text: usize = fields.iter().map(|(name, value)| name.len() + value.len()).sum();
        self.control.owe_for_log(message.len() + text);
        let level = match level {
            log::Level::Trace => Level::Trace,
            log::Level::Debug => Level::Debug,
            log::Level::Info => Level::Info,
            log::Level::Warn => Level::Warn,
            log::Level::Error => Level::Error,
        };
        self.control.emit(level, &message, &fields[..fields.len().min(MAX_FIELDS)]);
        Ok(())
    }
}

impl progress::Host for State {
    fn report(&mut self, done: u64, total: u64, note: Option<String>) -> wasmtime::Result<()> {
        self.meter.count_call();
        let note_bytes = note.as_ref().map_or(0, String::len) as u64;
        self.control.owe_fuel(note_bytes * FUEL_PER_BYTE);
        let note = note.map(|note| clean(&note, MAX_NOTE_BYTES));
        *lock(&self.control.progress) = Some(Progress { done, total, note });
        Ok(())
    }
}

/// No handler may enqueue jobs yet: each request is refused as a kind that is not allowed, which a
/// handler must expect anyway.
impl spawn::Host for State {
    async fn enqueue(
        &mut self,
        request: spawn::Request,
        _commit: spawn::Commit,
    ) -> wasmtime::Result<Result<Option<u64>, spawn::Refusal>> {
        self.meter.count_call();
        Ok(Err(spawn::Refusal::KindNotAllowed(request.kind)))
    }

    async fn enqueue_batch(
        &mut self,
        children: Vec<spawn::Request>,
        then: Option<spawn::Request>,
        _commit: spawn::Commit,
    ) -> wasmtime::Result<Result<(), spawn::Refusal>> {
        self.meter.count_call();
        let first = children.into_iter().chain(then).next();
        let kind = first.map(|request| request.kind).unwrap_or_default();
        Ok(Err(spawn::Refusal::KindNotAllowed(kind)))
    }
}
