//! Puts a load through a door: several clients, each taking the next jobs when they are due.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::task::JoinSet;

use super::door::Caller;
use super::workload::Shape;

/// Enqueues all jobs of a shape and returns how long it took.
pub(crate) async fn enqueue(
    caller: &Caller,
    shape: &Shape,
    clients: usize,
    batch_jobs: usize,
) -> anyhow::Result<Duration> {
    let calls = Arc::new(shape.calls(batch_jobs));
    let (next, begun) = (Arc::new(AtomicUsize::new(0)), Instant::now());
    let mut tasks = JoinSet::new();
    for _ in 0..clients {
        let (caller, calls, next) = (caller.clone(), Arc::clone(&calls), Arc::clone(&next));
        tasks.spawn(async move {
            while let Some((jobs, due)) = calls.get(next.fetch_add(1, Ordering::Relaxed)) {
                tokio::time::sleep_until((begun + *due).into()).await;
                caller.enqueue(*jobs).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.context("a client panicked").flatten().context("the jobs could not be enqueued")?;
    }
    Ok(begun.elapsed())
}
