//! The clock that interrupts guests: one thread that advances the engine's epoch.
//!
//! Without it nothing ever stops a loop, so it is a plain thread that no guest and no runtime can
//! hold up, its age can be read, and a sandbox proves at start that it works. It ends when the engine
//! is gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use wasmtime::{Engine, EngineWeak};

use crate::StartError;

/// Time between two ticks: how long a guest may hold its thread before the others have a turn.
pub(crate) const TICK: Duration = Duration::from_millis(5);

pub(crate) struct Ticker {
    origin: Instant,
    last_us: Arc<AtomicU64>,
}

impl Ticker {
    pub(crate) fn start(engine: &Engine) -> Result<Self, StartError> {
        let origin = Instant::now();
        let last_us = Arc::new(AtomicU64::new(0));
        let (engine, last) = (engine.weak(), Arc::clone(&last_us));
        thread::Builder::new()
            .name("epoch-ticker".to_owned())
            .spawn(move || tick(&engine, origin, &last))
            .map_err(StartError::Threads)?;
        Ok(Ticker { origin, last_us })
    }

    /// Time since the last tick. More than a second means that guests are not being stopped.
    pub(crate) fn age(&self) -> Duration {
        let last = Duration::from_micros(self.last_us.load(Ordering::Relaxed));
        self.origin.elapsed().saturating_sub(last)
    }
}

fn tick(engine: &EngineWeak, origin: Instant, last_us: &AtomicU64) {
    while let Some(engine) = engine.upgrade() {
        engine.increment_epoch();
        drop(engine);
        let now = u64::try_from(origin.elapsed().as_micros()).unwrap_or(u64::MAX);
        last_us.store(now, Ordering::Relaxed);
        thread::sleep(TICK);
    }
}
