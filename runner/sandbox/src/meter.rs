//! Counting what the guest asks of the host. Fuel counts instructions only, so a guest that does
//! nothing but call imports, or print, would be nearly free; each call and each byte of output has a
//! price in fuel here. The prices are part of the contract with those who budget in fuel.

use std::sync::atomic::Ordering;

use wasmtime::{CallHook, StoreContextMut, Trap};

use crate::state::{State, Stop};

/// Fuel that a call of a host function costs, beside the guest's own instructions.
pub const FUEL_PER_HOST_CALL: u64 = 500;
/// Fuel that a byte of output costs: log text, stdout, stderr, fields and notes.
pub const FUEL_PER_BYTE: u64 = 1;

/// Host calls of one attempt.
#[derive(Debug)]
pub(crate) struct Meter {
    calls: u64,
    log_calls: u64,
    most_calls: u64,
    owed_fuel: u64,
}

impl Meter {
    pub(crate) fn new(most_calls: u64) -> Self {
        Meter { calls: 0, log_calls: 0, most_calls, owed_fuel: 0 }
    }

    /// Notes one call. Every import passes here exactly once, on its way to its own state.
    pub(crate) fn count_call(&mut self) {
        self.calls += 1;
        self.owed_fuel += FUEL_PER_HOST_CALL;
    }

    /// All calls.
    pub(crate) fn calls(&self) -> u64 {
        self.calls
    }

    /// Calls that count against the limit. Those that logged do not: logging costs fuel and never
    /// decides how an attempt ends.
    pub(crate) fn limited_calls(&self) -> u64 {
        self.calls.saturating_sub(self.log_calls)
    }
}

/// Settles what the guest owes whenever a host function returns. The engine's own helpers
/// (`memory.grow`, the epoch check) come here too but owe nothing, so fuel stays a function of the
/// input and not of the clock.
pub(crate) fn settle(mut cx: StoreContextMut<'_, State>, hook: CallHook) -> wasmtime::Result<()> {
    if !matches!(hook, CallHook::ReturningFromHost) {
        return Ok(());
    }
    let state = cx.data_mut();
    if state.meter.owed_fuel == 0 {
        return Ok(());
    }
    let owed = std::mem::take(&mut state.meter.owed_fuel)
        + state.control.owed_fuel.swap(0, Ordering::Relaxed);
    if state.control.has_logged.swap(false, Ordering::Relaxed) {
        state.meter.log_calls += 1;
    }
    if state.meter.limited_calls() > state.meter.most_calls {
        state.stop = Some(Stop::Calls);
        return Err(wasmtime::Error::msg("too many host calls"));
    }
    if state.stdio.result_is_over() {
        state.stop = Some(Stop::Output);
        return Err(wasmtime::Error::msg("result too large"));
    }
    let left = cx.get_fuel()?.saturating_sub(owed);
    cx.set_fuel(left)?;
    if left == 0 { Err(Trap::OutOfFuel.into()) } else { Ok(()) }
}
