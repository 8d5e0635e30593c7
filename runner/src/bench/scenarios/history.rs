//! What months of ended jobs cost those that run now.

use futures::future::BoxFuture;
use futures::stream::{self, StreamExt, TryStreamExt};

use super::{Bar, Found, Limit, Needs, Scenario, Stand};
use crate::bench::handler::Handler;

/// Rows in one statement: each commits within a few seconds.
const CHUNK_JOBS: usize = 500_000;
/// Such statements side by side.
const AT_ONCE: usize = 2;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "history",
    about: "throughput with 10 million ended jobs in the history, against none",
    bars: &[Bar::ratio("with / without", Limit::Least(0.95))],
    needs: Needs { sibling: true, ..Needs::NOTHING },
    run,
};

fn run(stand: &Stand) -> BoxFuture<'_, anyhow::Result<Found>> {
    Box::pin(async move {
        let workload = stand.burn_down(stand.size(100_000, 4_000));
        let rows = stand.size(10_000_000, 50_000);
        stand.bed.output.note(format!("Filling the history with {rows} rows …"));
        let kind = stand.bed.kind(&Handler::noop(), false).await?;
        let chunks = (0..rows).step_by(CHUNK_JOBS).map(|from| async move {
            let jobs = CHUNK_JOBS.min(rows - from);
            let (from, jobs) = (i64::try_from(from)? + 1, i64::try_from(jobs)?);
            stand.bed.database.fill_history(kind.id, from, jobs, b"\"xxxxxxxx\"").await?;
            anyhow::Ok(())
        });
        stream::iter(chunks).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
        stand.bed.database.settle_tables().await?;
        stand.against_sibling(&workload, 5).await
    })
}
