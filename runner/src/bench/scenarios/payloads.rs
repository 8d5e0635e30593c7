//! What larger payloads cost.

use futures::future::BoxFuture;
use serde_json::json;
use stokehold_domain::Blob;

use super::{Bar, Found, Limit, Needs, Scenario, Stand, Yardstick};
use crate::bench::repetition::Repetition;
use crate::bench::workload::{Workload, usual_batch_jobs};

const MEGABYTE: usize = 1_000_000;
/// As for jobs without a payload worth the name: see `throughput`.
const OF_BARE_SQL: f64 = 0.775;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "payloads",
    about: "throughput with payloads of 100 B, 10 kB (against bare SQL that carries the same) and 1 MB",
    bars: &[
        Bar::absolute("10 kB: jobs/s / bare SQL", Limit::Least(OF_BARE_SQL)),
        Bar::absolute("MB/s of 1 MB", Limit::Least(50.0)),
    ],
    needs: Needs::NOTHING,
    run,
};

fn run(stand: &Stand) -> BoxFuture<'_, anyhow::Result<Found>> {
    Box::pin(async move {
        let small = stand.run(&sized(stand, stand.size(100_000, 2_000), 100)).await?;
        let large = stand.run(&sized(stand, stand.size(500, 20), MEGABYTE)).await?;
        let middle = sized(stand, stand.size(20_000, 1_000), 10_000);
        let yardstick = Yardstick { batch: 100, connections: 4 };
        let mut found = stand.against_bare_sql(&middle, yardstick, stand.size(3, 1)).await?;
        found.figures.push(large.jobs_per_s * MEGABYTE as f64 / 1e6);
        let figures = |run: &Repetition| json!({ "jobs_per_s": run.jobs_per_s, "cost": run.work, "enqueue": run.enqueue });
        found.details = json!({
            "small": figures(&small), "middle": found.details, "large": figures(&large),
        });
        Ok(found)
    })
}

fn sized(stand: &Stand, jobs: usize, bytes: usize) -> Workload {
    let batch_jobs = usual_batch_jobs(bytes);
    let payload = Blob { media_type: "application/octet-stream".to_owned(), bytes: noise(bytes) };
    Workload { payload, batch_jobs, ..stand.burn_down(jobs) }
}

/// Bytes that do not compress, as a picture's do not: the server compresses what it can.
fn noise(bytes: usize) -> Vec<u8> {
    let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
    let next = || {
        // The xorshift of George Marsaglia.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[0]
    };
    std::iter::repeat_with(next).take(bytes).collect()
}
