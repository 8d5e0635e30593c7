//! Waits for the end of a run without slowing it down.

use std::time::{Duration, Instant};

use anyhow::bail;
use stokehold_domain::{JobId, KindId};
use stokehold_queue::Database;

use super::fleet::Fleet;

/// How long nothing may end before the benchmark gives up.
const STALLED: Duration = Duration::from_secs(60);
const SHORTEST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_millis(500);

/// Returns when no job of the kinds with an id above `after` lives. The longer it has waited the less
/// often it looks, and never for more than a twentieth of the time: a look near the end of a long run
/// may be slow, and what it finds is late by no more than half a second. No figure depends on when
/// the end is noticed.
pub(crate) async fn until_done(
    database: &Database,
    fleet: &Fleet,
    kinds: &[KindId],
    after: JobId,
) -> anyhow::Result<()> {
    let begun = Instant::now();
    let mut moved = (database.ended_so_far().await?, begun);
    loop {
        let looked_at = Instant::now();
        if !database.any_live(kinds, after).await? {
            return Ok(());
        }
        let look = looked_at.elapsed();
        fleet.check()?;
        let pause = (begun.elapsed() / 20).clamp(SHORTEST, LONGEST).max(look * 20);
        // Rarely: it is for giving up alone.
        if moved.1.elapsed() > STALLED / 4 {
            let ended = database.ended_so_far().await?;
            if ended != moved.0 {
                moved = (ended, Instant::now());
            } else if moved.1.elapsed() > STALLED {
                bail!("jobs are left and none has ended for {} s", STALLED.as_secs());
            }
        }
        tokio::time::sleep(pause).await;
    }
}
