//! The handle that both sides of a running attempt share: who runs the node holds it to stop the
//! guest and to read what it logged so far.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use stokehold_domain::{Level, LogLine};
use tokio::sync::Notify;

use crate::log_book::LogBook;
use crate::meter::FUEL_PER_BYTE;

/// Why a running attempt has to stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// Someone cancelled the job, for this reason.
    Cancelled(String),
    /// The node is going away.
    Draining,
    /// The node's lease passed, so another may be running the job already.
    LeaseLost,
}

/// How far the guest says it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Units done.
    pub done: u64,
    /// Units in all; 0 when unknown.
    pub total: u64,
    /// What it is doing.
    pub note: Option<String>,
}

/// Shared handle of one attempt. Cheap to clone; usable from any thread, before, during and after
/// the run. One control belongs to one attempt.
#[derive(Clone, Debug, Default)]
pub struct Control(pub(crate) Arc<Shared>);

#[derive(Debug, Default)]
pub(crate) struct Shared {
    ordered: AtomicBool,
    order: Mutex<Option<(StopReason, Instant)>>,
    wake: Notify,
    /// The guest asked `context.cancelled`, so it may want to end by itself.
    pub(crate) cooperative: AtomicBool,
    pub(crate) log: Mutex<LogBook>,
    pub(crate) progress: Mutex<Option<Progress>>,
    /// Fuel that output owes; taken from the store when the host call returns.
    pub(crate) owed_fuel: AtomicU64,
    /// The host call in progress wrote to the log.
    pub(crate) has_logged: AtomicBool,
}

impl Control {
    /// A handle for an attempt that has not begun.
    pub fn new() -> Self {
        Control::default()
    }

    /// Orders the attempt to stop. The guest is gone within a second, and no sooner than the grace
    /// time if it watches `context.cancelled`. The first order stands, but a lost lease overrides it.
    pub fn cancel(&self, reason: StopReason) {
        let mut order = lock(&self.0.order);
        if order.is_none() || reason == StopReason::LeaseLost {
            *order = Some((reason, Instant::now()));
        }
        drop(order);
        self.0.ordered.store(true, Ordering::Release);
        self.0.wake.notify_waiters();
    }

    /// The order to stop, if there was one.
    pub fn stop_reason(&self) -> Option<StopReason> {
        self.0.order().map(|(reason, _)| reason)
    }

    /// The lines logged since this was last called. What is returned is gone from the final report:
    /// taken lines and report together are the log. Past half the log limit it returns nothing more,
    /// so that the end of the log, which matters most, still finds room.
    pub fn take_new_lines(&self) -> Vec<LogLine> {
        lock(&self.0.log).take_new_lines()
    }

    /// The latest progress that the guest reported.
    pub fn progress(&self) -> Option<Progress> {
        lock(&self.0.progress).clone()
    }
}

impl Shared {
    pub(crate) fn order(&self) -> Option<(StopReason, Instant)> {
        if self.ordered.load(Ordering::Acquire) { lock(&self.order).clone() } else { None }
    }

    /// The order to stop, once it is to be carried out: at once, or after the grace time for a guest
    /// that watches for it. A lost lease gives no grace.
    pub(crate) fn due_order(&self, grace: Duration) -> Option<StopReason> {
        let (reason, at) = self.order()?;
        (at.elapsed() >= self.grace(&reason, grace)).then_some(reason)
    }

    fn grace(&self, reason: &StopReason, grace: Duration) -> Duration {
        let waits = *reason != StopReason::LeaseLost && self.cooperative.load(Ordering::Relaxed);
        if waits { grace } else { Duration::ZERO }
    }

    /// Ends when an order to stop is due and `slack` has passed beyond.
    pub(crate) async fn stop_due(&self, grace: Duration, slack: Duration) -> StopReason {
        loop {
            let mut woken = std::pin::pin!(self.wake.notified());
            // Registered before the look, so an order given in between is not missed.
            woken.as_mut().enable();
            let Some((reason, at)) = self.order() else {
                woken.await;
                continue;
            };
            let due = at + self.grace(&reason, grace) + slack;
            if Instant::now() >= due {
                return reason;
            }
            tokio::select! {
                () = woken => {}
                () = tokio::time::sleep_until(due.into()) => {}
            }
        }
    }

    pub(crate) fn emit(&self, level: Level, message: &str, fields: &[(String, String)]) {
        lock(&self.log).emit(level, message, fields);
    }

    /// Takes note of text for the log; its fuel is owed when the host call returns.
    pub(crate) fn owe_for_log(&self, bytes: usize) {
        self.owe_fuel(bytes as u64 * FUEL_PER_BYTE);
        self.has_logged.store(true, Ordering::Relaxed);
    }

    pub(crate) fn owe_fuel(&self, fuel: u64) {
        self.owed_fuel.fetch_add(fuel, Ordering::Relaxed);
    }
}

/// A panic while a lock was held leaves data that is still whole: every critical section here only
/// moves or replaces values.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_order_stands_but_a_lost_lease_overrides_it() {
        let control = Control::new();
        assert_eq!(control.stop_reason(), None);
        control.cancel(StopReason::Cancelled("by ann".into()));
        control.cancel(StopReason::Draining);
        assert_eq!(control.stop_reason(), Some(StopReason::Cancelled("by ann".into())));
        control.cancel(StopReason::LeaseLost);
        assert_eq!(control.stop_reason(), Some(StopReason::LeaseLost));
    }

    #[test]
    fn only_a_guest_that_watches_gets_the_grace_time_and_never_on_a_lost_lease() {
        let control = Control::new();
        control.cancel(StopReason::Draining);
        let grace = Duration::from_secs(3600);
        assert!(control.0.due_order(grace).is_some());
        control.0.cooperative.store(true, Ordering::Relaxed);
        assert!(control.0.due_order(grace).is_none());
        control.cancel(StopReason::LeaseLost);
        assert_eq!(control.0.due_order(grace), Some(StopReason::LeaseLost));
    }
}
