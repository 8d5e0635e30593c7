//! The one monotonic clock: it counts while the machine is suspended, which `Instant` does not.
//!
//! Used to measure and to stop *earlier* than the database would; decisions are the database's.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// A moment on this machine, comparable only with others of the same boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(Duration);

impl Moment {
    pub(crate) fn now() -> Self {
        let time = clock_gettime(ClockId::CLOCK_BOOTTIME)
            .expect("Linux has had CLOCK_BOOTTIME since 2.6.39");
        Moment(Duration::from(time))
    }

    /// Time passed since; zero for a moment to come.
    pub(crate) fn elapsed(self) -> Duration {
        Moment::now().0.saturating_sub(self.0)
    }
}
