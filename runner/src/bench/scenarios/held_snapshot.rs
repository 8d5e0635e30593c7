//! What another session's old snapshot costs: while it is held no vacuum removes what the queue has
//! done with, and a queue that walks over it slows down from minute to minute.

use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::json;
use stokehold_queue::bench::HeldSnapshot;

use super::{Bar, Found, Limit, Needs, Scenario, Stand};
use crate::bench::outcome::Outcome;
use crate::bench::sustained;
use crate::bench::workload::Workload;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "held-snapshot",
    about: "full load while another session holds a snapshot, against without; 10 minutes in full",
    bars: &[
        Bar::ratio("with / without", Limit::Least(0.95)),
        Bar::ratio("last third / first third", Limit::Least(0.95)),
    ],
    needs: Needs::NOTHING,
    run,
};

fn run(stand: &Stand) -> BoxFuture<'_, anyhow::Result<Found>> {
    Box::pin(async move {
        let whole = stand.time(600, 6);
        let (mut with, mut without) = (Vec::new(), Vec::new());
        // In turn, so that a machine that slows down does so for both.
        for _ in 0..stand.size(3, 1) {
            without.push(load(stand, whole / 10, false).await?.jobs_per_s());
            with.push(load(stand, whole / 10, true).await?.jobs_per_s());
        }
        let long = load(stand, whole, true).await?;
        let mut found = Found::ratio(&with, &without);
        found.figures.push(long.flatness());
        found.details = json!({
            "with_jobs_per_s": with,
            "without_jobs_per_s": without,
            "long_jobs_per_s": long.jobs_per_s(),
            "long_s": long.span_s,
            "timeline": long.timeline,
        });
        Ok(found)
    })
}

async fn load(stand: &Stand, duration: Duration, held: bool) -> anyhow::Result<Outcome> {
    // What the run before left behind is not part of this one.
    stand.bed.database.settle_tables().await?;
    // Several sessions: one alone would not get the share of the processors that it needs to keep up.
    let workload = Workload { clients: 4, ..stand.burn_down(0) };
    let snapshot = if held { Some(HeldSnapshot::take(&stand.bed.database).await?) } else { None };
    let outcome =
        sustained::run(&stand.bed, &workload, duration.max(Duration::from_secs(2))).await?;
    if let Some(snapshot) = snapshot {
        snapshot.release().await?;
    }
    Ok(outcome)
}
