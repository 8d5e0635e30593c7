//! Thousands of handlers that wait for somebody else at once: what they hold, and whether short jobs
//! get through beside them.

use std::time::{Duration, Instant};

use anyhow::bail;
use futures::future::BoxFuture;
use serde_json::json;
use stokehold_domain::{Blob, JobState, KindId, Limits};

use super::{Bar, Found, Limit, Needs, Scenario, Stand};
use crate::bench::door::Door;
use crate::bench::fleet::Fleet;
use crate::bench::handler::Handler;
use crate::bench::load;
use crate::bench::repetition;
use crate::bench::workload::Singles;

/// Slots beside those of the handlers that wait.
const FREE_SLOTS: usize = 32;
/// How long it may take until all of them wait.
const START: Duration = Duration::from_secs(120);

pub(super) const SCENARIO: Scenario = Scenario {
    name: "blocked-handlers",
    about: "5,000 attempts at once that wait in a call of the host, on one node",
    bars: &[
        Bar::absolute("resident GiB", Limit::Most(3.0)),
        Bar::absolute("short start p99 ms", Limit::Most(100.0)),
    ],
    needs: Needs::NOTHING,
    run,
};

fn run(stand: &Stand) -> BoxFuture<'_, anyhow::Result<Found>> {
    Box::pin(async move {
        let (bed, blocked) = (&stand.bed, stand.size(5_000, 100));
        let mut workload = stand.burn_down(blocked);
        workload.slots = blocked + FREE_SLOTS;
        // Longer than everything here: they are stopped in the end.
        workload.payload = Blob::json("600000");
        let limits = Limits { timeout_ms: 900_000, ..Limits::DEFAULT };
        let waiting = bed.limited_kind(&Handler::sleep(), true, &limits).await?;
        let short = bed.kind(&Handler::noop(), true).await?;
        let door = Door::open(bed, &workload).await?;
        let (blocking, passing) = (
            door.caller(&waiting.name, &workload.payload)?,
            door.caller(&short.name, &Blob::json("1"))?,
        );
        let fleet = Fleet::start(bed, &workload.fleet()).await?;
        let empty_bytes = fleet.resident_bytes();
        load::enqueue(&blocking, &workload.shape, 1, workload.batch_jobs).await?;
        let begun = Instant::now();
        while running(stand, waiting.id).await? < i64::try_from(blocked)? {
            fleet.check()?;
            if begun.elapsed() > START {
                bail!("not all handlers run at once after {} s", START.as_secs());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let singles = Singles { jobs: stand.size(500, 30), spacing: Duration::from_millis(10) };
        let outcome = repetition::single_jobs(bed, &fleet, &passing, &short, singles).await?;
        let bytes = fleet.resident_bytes();
        let cpu_before = fleet.cpu();
        tokio::time::sleep(Duration::from_secs(1)).await;
        let cpu_us_per_s = (fleet.cpu() - cpu_before).as_micros() as f64;
        fleet.stop().await?;
        drop((blocking, passing));
        door.close().await?;
        let start = outcome.start.percentiles().unwrap_or_default();
        Ok(Found {
            figures: vec![bytes as f64 / f64::from(1 << 30), start.p99],
            details: json!({
                "blocked": blocked,
                "resident_bytes": bytes,
                "resident_bytes_before": empty_bytes,
                "short_start_ms": start,
                "short_done_ms": outcome.done.percentiles(),
                "node_cpu_us_per_s_meanwhile": cpu_us_per_s,
            }),
        })
    })
}

/// Claimed is not yet started, but a claimed job that finds no slot is handed back.
async fn running(stand: &Stand, kind: KindId) -> anyhow::Result<i64> {
    let counts = stand.bed.database.count_jobs(kind).await?;
    let running = counts.iter().find(|(state, _)| *state == JobState::Running);
    Ok(running.map_or(0, |(_, jobs)| *jobs))
}
