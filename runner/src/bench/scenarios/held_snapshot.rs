//! What another session's old snapshot costs: while it is held no vacuum removes what the queue has
//! done with, and a queue that walks over it slows down from minute to minute.

use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::json;
use stokehold_queue::bench::HeldSnapshot;

use super::{Bar, Found, Limit, Needs, Scenario, Stand};
use crate::bench::sustained::{self, Sustained};
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
        let (mut with, mut without, mut foreign) = (Vec::new(), Vec::new(), Vec::new());
        // In turn, so that a machine that slows down does so for both.
        for _ in 0..stand.size(2, 1) {
            for (held, rates) in [(false, &mut without), (true, &mut with)] {
                let run = load(stand, whole / 40, held).await?;
                rates.push(run.outcome.jobs_per_s());
                foreign.push(run.foreign_cpu_share);
            }
        }
        let long = load(stand, whole, true).await?;
        let mut found = Found::ratio(&with, &without);
        found.figures.push(long.outcome.flatness());
        found.details["foreign_cpu_shares"] = json!(foreign);
        found.details["long"] = json!({
            "jobs_per_s": long.outcome.jobs_per_s(),
            "span_s": long.outcome.span_s,
            "foreign_cpu_share": long.foreign_cpu_share,
            "timeline": long.outcome.timeline,
        });
        Ok(found)
    })
}

async fn load(stand: &Stand, duration: Duration, held: bool) -> anyhow::Result<Sustained> {
    // What the run before left behind is not part of this one.
    stand.bed.database.settle_tables().await?;
    // Several sessions: one alone would not get the share of the processors that it needs to keep up.
    let workload = Workload { clients: 4, ..stand.burn_down(0) };
    let snapshot = if held { Some(HeldSnapshot::take(&stand.bed.database).await?) } else { None };
    let run = sustained::run(&stand.bed, &workload, duration.max(Duration::from_secs(2))).await?;
    if let Some(snapshot) = snapshot {
        snapshot.release().await?;
    }
    Ok(run)
}
