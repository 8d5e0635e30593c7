//! Many jobs that were put off until the same moment: how long after it the last of them has ended.

use std::time::{Duration, Instant};

use chrono::Utc;
use futures::future::BoxFuture;
use serde_json::json;
use stokehold_queue::NewJob;

use super::{Bar, Found, Limit, Needs, Scenario, Stand};
use crate::bench::fleet::Fleet;
use crate::bench::wait;
use crate::bench::workload::BATCH_JOBS;

/// Time for enqueueing them, as a multiple of what the same jobs took that were due at once.
const AHEAD: u32 = 3;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "scheduled-due",
    about: "100,000 jobs scheduled for one moment: from then until all are done, against due at once",
    bars: &[
        Bar::absolute("s until done", Limit::Most(10.0)),
        Bar::ratio("burn-down s / s until done", Limit::Least(0.33)),
    ],
    needs: Needs::NOTHING,
    run,
};

fn run(stand: &Stand) -> BoxFuture<'_, anyhow::Result<Found>> {
    Box::pin(async move {
        let (jobs, database) = (stand.size(100_000, 4_000), &stand.bed.database);
        let workload = stand.burn_down(jobs);
        let plain = stand.run(&workload).await?;
        let enqueueing = Duration::from_secs_f64(jobs as f64 / plain.enqueue_jobs_per_s);

        let kind = stand.bed.kind(&workload.handler, true).await?;
        let after = database.newest_job().await?;
        let fleet = Fleet::start(&stand.bed, &workload.fleet()).await?;
        let due = Utc::now() + enqueueing * AHEAD + Duration::from_secs(2);
        let begun = Instant::now();
        let job = NewJob { run_at: Some(due), ..NewJob::new(&kind.name, workload.payload.clone()) };
        for from in (0..jobs).step_by(BATCH_JOBS) {
            database.enqueue(&vec![job.clone(); BATCH_JOBS.min(jobs - from)]).await?;
        }
        anyhow::ensure!(
            Utc::now() < due,
            "enqueueing took {:?}: the jobs were late",
            begun.elapsed()
        );
        wait::until_done(database, &fleet, &[kind.id], after).await?;
        fleet.stop().await?;
        let span = database.job_span(&[kind.id], after).await?;
        let last_end_s = span.map_or(f64::NAN, |span| span.last_end_s);
        let late_s = last_end_s - due.timestamp_micros() as f64 / 1e6;
        Ok(Found {
            figures: vec![late_s, plain.span_s / late_s],
            details: json!({ "jobs": jobs, "burn_down_s": plain.span_s }),
        })
    })
}
