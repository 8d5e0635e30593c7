//! How a serving process is told to stop: the first SIGINT or SIGTERM asks, the second one leaves.

use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Cancelled by the first signal. The second ends the process at once, with the code of a process
/// that a signal ended.
pub(crate) fn on_signal() -> io::Result<CancellationToken> {
    let stop = CancellationToken::new();
    let (mut interrupt, mut terminate) =
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let told = stop.clone();
    tokio::spawn(async move {
        loop {
            let number = tokio::select! {
                _ = interrupt.recv() => 2,
                _ = terminate.recv() => 15,
            };
            if told.is_cancelled() {
                tracing::warn!("told to stop again: leaving at once");
                std::process::exit(128 + number);
            }
            told.cancel();
        }
    });
    Ok(stop)
}
