//! One attempt from start to end: a fresh store, the guest, and what is to be said about it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use stokehold_domain::{Attempt, EngineLimits, Limits, Receipt};
use wasmtime::{Engine, Store, StoreContextMut, UpdateDeadline};

use crate::classify::{Ended, classify};
use crate::control::{Shared, lock};
use crate::guest_log::GuestLogFile;
use crate::handler::Entry;
use crate::log_book::Author;
use crate::state::{State, Stop};
use crate::ticker::TICK;
use crate::wasi::MAX_HANDLES;
use crate::{Abi, Handler, Report, command, component, meter};

/// A guest that computes is stopped by the epoch, which leaves its frames; one that waits is dropped
/// by a timer, so much later that the epoch comes first even on a busy machine.
const SLACK: Duration = Duration::from_millis(20 * TICK.as_millis() as u64);
/// Bytes that may cross into the host in one call beyond payload and result.
const HOST_COPY_BYTES: u64 = 16 << 20;

/// What attempts share.
pub(crate) struct Surroundings {
    pub(crate) engine: Engine,
    pub(crate) guest_log: Option<Arc<GuestLogFile>>,
    pub(crate) cancel_grace: Duration,
}

/// Runs the handler once. When this returns, or is dropped, the instance is gone.
pub(crate) async fn execute(
    around: &Surroundings,
    handler: &Handler,
    attempt: Attempt,
    limits: &Limits,
    control: &Arc<Shared>,
) -> Report {
    let started = Instant::now();
    let author = Author { job_id: attempt.job_id, token: attempt.token, attempt: attempt.attempt };
    lock(&control.log).open(author, started, limits.log_bytes, around.guest_log.clone());

    let is_command = handler.abi() == Abi::Command;
    let state = State::new(attempt, limits, Arc::clone(control), started, is_command);
    let deadline = state.deadline;
    let mut store = Store::new(&around.engine, state);
    let ended = match arm(&mut store, limits, around.cancel_grace) {
        Ok(()) => {
            tokio::select! {
                biased;
                ended = enter(&mut store, handler) => ended,
                reason = control.stop_due(around.cancel_grace, SLACK) => {
                    Ended::Dropped(Stop::Order(reason))
                }
                () = tokio::time::sleep_until((deadline + SLACK).into()) => {
                    Ended::Dropped(Stop::Time)
                }
            }
        }
        Err(error) => Ended::Failed(error),
    };
    let wall = started.elapsed();

    let state = store.data();
    state.stdio.finish();
    let outcome = classify(ended, state, limits, wall);
    let receipt = Receipt {
        fuel: limits.fuel.saturating_sub(store.get_fuel().unwrap_or(0)),
        wall_us: u64::try_from(wall.as_micros()).unwrap_or(u64::MAX),
        peak_memory_bytes: state.ledger.peak_bytes(),
        host_calls: state.meter.calls(),
    };
    // The slot is free only when the store is gone.
    drop(store);
    Report { outcome, receipt, log: lock(&control.log).close() }
}

async fn enter(store: &mut Store<State>, handler: &Handler) -> Ended {
    let ended = match &handler.0.entry {
        Entry::Component(pre) => component::enter(store, pre).await.map(Ended::Answered),
        Entry::Command { pre, start } => {
            command::enter(store, pre, start).await.map(|()| Ended::Returned)
        }
        Entry::CommandComponent(pre) => {
            command::enter_component(store, pre).await.map(|()| Ended::Returned)
        }
    };
    ended.unwrap_or_else(Ended::Failed)
}

/// Sets every limit. A store without fuel or epoch deadline traps at once, so none can be forgotten.
fn arm(store: &mut Store<State>, limits: &Limits, grace: Duration) -> wasmtime::Result<()> {
    store.limiter(|state| &mut state.ledger);
    store.set_fuel(limits.fuel)?;
    store.set_epoch_deadline(1);
    store.epoch_deadline_callback(move |cx| Ok(on_epoch(cx, grace)));
    store.call_hook(meter::settle);
    let copy = HOST_COPY_BYTES + limits.result_bytes + EngineLimits::PAYLOAD_BYTES as u64;
    store.set_hostcall_fuel(usize::try_from(copy).unwrap_or(usize::MAX));
    store.set_max_component_handles(MAX_HANDLES);
    Ok(())
}

/// Every few milliseconds of computing: is it to stop, and if not, do others want the thread?
fn on_epoch(mut cx: StoreContextMut<'_, State>, grace: Duration) -> UpdateDeadline {
    let state = cx.data_mut();
    if let Some(reason) = state.control.due_order(grace) {
        state.stop = Some(Stop::Order(reason));
    } else if Instant::now() >= state.deadline {
        state.stop = Some(Stop::Time);
    } else {
        // A plain yield wakes itself and lands at the head of tokio's queue: with it a spinning guest
        // let a neighbour wake 3 times a second, with this one 62 times (one thread, 5 ms ticks).
        return UpdateDeadline::YieldCustom(1, Box::pin(tokio::task::yield_now()));
    }
    UpdateDeadline::Interrupt
}
