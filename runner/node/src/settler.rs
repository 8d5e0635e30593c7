//! Group commit: outcomes gather while the last flush is in flight and go together in the next.
//!
//! So an outcome is written at once when the node is idle and in batches under load. An outcome
//! leaves memory only with a final answer: when a commit's fate is unknown it is offered again under
//! the same claim until the database says what became of it. If the process dies here, the lease runs
//! out and the jobs run again.

use std::sync::Arc;
use std::time::Duration;

use stokehold_domain::RunnerId;
use stokehold_queue::{Database, Ended, Fate, QueueError};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::Stats;
use crate::claims::OpenClaims;
use crate::turns::Turns;

/// Outcomes waiting for a flush; beyond them an attempt keeps its slot until there is room.
pub(crate) const CAPACITY: usize = 4_096;
/// The most result and log bytes in one flush, beyond its first outcome.
const BATCH_BYTES: usize = 8 << 20;

/// Where the outcomes of one registration go.
#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    pub(crate) database: Database,
    pub(crate) runner: RunnerId,
    pub(crate) stats: Arc<Stats>,
    pub(crate) open_claims: Arc<OpenClaims>,
    pub(crate) turns: Turns,
}

/// Writes until every sender is gone and everything has been answered. The first flush starts at
/// once; further ones start beside it only when half a batch has gathered, so that flushes stay large,
/// and no more than `flushes` at a time.
pub(crate) async fn run(
    ledger: Ledger,
    mut outcomes: mpsc::Receiver<Ended>,
    batch: usize,
    flushes: usize,
) {
    let mut gathered = Vec::with_capacity(batch);
    let mut in_flight = JoinSet::new();
    let mut open = true;
    loop {
        while !gathered.is_empty()
            && (in_flight.is_empty() || (2 * gathered.len() >= batch && in_flight.len() < flushes))
        {
            let rest = gathered.split_off(fitting(&gathered));
            let flush = std::mem::replace(&mut gathered, rest);
            let ledger = ledger.clone();
            in_flight.spawn(async move { ledger.flush(Arc::new(flush)).await });
        }
        if !open && gathered.is_empty() && in_flight.is_empty() {
            return;
        }
        let wanted = batch.saturating_sub(gathered.len());
        tokio::select! {
            received = outcomes.recv_many(&mut gathered, wanted), if open && wanted > 0 => {
                open = received > 0;
            }
            Some(_) = in_flight.join_next() => {
                // Take along what has come meanwhile.
                while gathered.len() < batch && let Ok(ended) = outcomes.try_recv() {
                    gathered.push(ended);
                }
            }
        }
    }
}

/// How many of the outcomes fit into one flush: at least one.
fn fitting(gathered: &[Ended]) -> usize {
    let mut bytes = 0;
    let fits = gathered.iter().take_while(|ended| {
        bytes += weight(ended);
        bytes <= BATCH_BYTES
    });
    fits.count().max(1)
}

fn weight(ended: &Ended) -> usize {
    let result = ended.result.as_ref().map_or(0, |blob| blob.bytes.len());
    result + ended.log.iter().map(|line| line.message.len() + 64).sum::<usize>()
}

impl Ledger {
    /// Writes outcomes, with a claim if one takes them along.
    async fn flush(&self, outcomes: Arc<Vec<Ended>>) {
        let Some(applied) = self.turns.offer(&outcomes).await else {
            return self.settle(&outcomes).await;
        };
        let (done, rest): (Vec<_>, Vec<_>) =
            outcomes.iter().zip(applied).partition(|(_, applied)| *applied);
        self.open_claims.answered(done.iter().map(|(ended, _)| ended.claim));
        self.stats.add_applied(done.len());
        let rest: Vec<Ended> = rest.into_iter().map(|(ended, _)| ended.clone()).collect();
        if !rest.is_empty() {
            self.settle(&rest).await;
        }
    }

    async fn settle(&self, ended: &[Ended]) {
        let mut failures = 0u32;
        loop {
            match self.database.settle(self.runner, ended).await {
                Ok(fates) => {
                    if failures > 0 {
                        tracing::info!(outcomes = ended.len(), "outcomes written after all");
                    }
                    self.open_claims.answered(ended.iter().map(|ended| ended.claim));
                    return count(&self.stats, ended, &fates);
                }
                Err(error) if !error.is_temporary() && ended.len() > 1 => {
                    // One of them is poison: alone, each gets its own answer.
                    tracing::error!(%error, cause = cause(&error), outcomes = ended.len(), "flush refused: one by one");
                    for one in ended {
                        Box::pin(self.settle(std::slice::from_ref(one))).await;
                    }
                    return;
                }
                Err(error) if !error.is_temporary() => {
                    // The claim stays with this runner and the sweep gives it back when the runner
                    // ends.
                    tracing::error!(%error, cause = cause(&error), job.id = %ended[0].job_id, "outcome refused");
                    return;
                }
                Err(error) => {
                    if failures == 0 {
                        tracing::warn!(%error, cause = cause(&error), outcomes = ended.len(), "outcomes not written yet");
                    }
                    failures += 1;
                    tokio::time::sleep(pause(failures)).await;
                }
            }
        }
    }
}

/// 50 ms doubling to 2 s, of which half is random.
pub(crate) fn pause(failures: u32) -> Duration {
    let nominal = Duration::from_millis(50) * (1 << failures.clamp(1, 7) >> 1);
    nominal.min(Duration::from_secs(2)).mul_f64(0.5 + rand::random::<f64>() / 2.0)
}

pub(crate) fn cause(error: &QueueError) -> String {
    std::error::Error::source(error).map(ToString::to_string).unwrap_or_default()
}

fn count(stats: &Stats, ended: &[Ended], fates: &[Fate]) {
    for (ended, fate) in ended.iter().zip(fates) {
        match fate {
            Fate::Applied | Fate::AlreadyApplied => stats.add_applied(1),
            Fate::Stale | Fate::Gone => {
                stats.add_stale(1);
                tracing::warn!(
                    job.id = %ended.job_id, claim.token = %ended.token, outcome = ended.code,
                    "late outcome refused: the claim is no longer this runner's"
                );
            }
        }
    }
}
