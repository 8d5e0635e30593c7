//! How a run talks to the driver: lines of JSON on stdout, one line on stdin.
//!
//! `ready` (all is enqueued, or an idle worker waits), then the driver reads the CPU times and
//! answers with a line, then the clock runs, then `finished` with what was measured.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::{Value, json};

fn say(value: &Value) {
    println!("{value}");
}

/// Tells that all is prepared, and waits for the driver's word.
pub(crate) async fn ready(enqueue_s: f64) -> anyhow::Result<()> {
    say(&json!({ "event": "ready", "enqueue_s": enqueue_s }));
    tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).context("waiting for the driver")?;
        anyhow::ensure!(!line.is_empty(), "the driver has gone");
        Ok(())
    })
    .await?
}

/// The end of a throughput run.
pub(crate) fn finished(begun: Instant, tally: &Tally) {
    let first = tally.first.get().map(|first| (*first - begun).as_secs_f64());
    say(&json!({
        "event": "finished",
        "seconds": begun.elapsed().as_secs_f64(),
        "first_start_s": first,
        "handled": tally.handled(),
        "cents": tally.cents.load(Ordering::Relaxed),
    }));
}

/// The end of a latency run.
pub(crate) fn latencies(times: &[Duration]) {
    let ms: Vec<f64> = times.iter().map(|time| time.as_secs_f64() * 1e3).collect();
    say(&json!({ "event": "finished", "latency_ms": ms }));
}

/// What the handlers of a run have done.
#[derive(Default)]
pub(crate) struct Tally {
    handled: AtomicU64,
    cents: AtomicU64,
    first: OnceLock<Instant>,
}

impl Tally {
    pub(crate) fn started(&self) {
        if self.first.get().is_none() {
            let _ = self.first.set(Instant::now());
        }
    }

    pub(crate) fn count(&self, cents: u64) {
        self.cents.fetch_add(cents, Ordering::Relaxed);
        self.handled.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn handled(&self) -> u64 {
        self.handled.load(Ordering::Relaxed)
    }

    /// Waits for so many handlers, without asking the database.
    pub(crate) async fn wait_for(&self, jobs: usize) {
        while self.handled() < jobs as u64 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}
