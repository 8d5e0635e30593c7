//! apalis-postgres, by its public interface only.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use apalis::prelude::*;
use apalis_postgres::{Config, PgPool, PostgresStorage};
use tokio::sync::mpsc;
use tokio_postgres::NoTls;

use crate::order::{Noop, Order, Total};
use crate::talk::{self, Tally};
use crate::task::{Handler, Task};

/// Jobs in one enqueueing call.
const ENQUEUE: usize = 1_000;
const QUEUE: &str = "bench";

type Shared = Data<Arc<Tally>>;

async fn noop(_: Noop, tally: Shared) -> Result<(), BoxDynError> {
    tally.started();
    tally.count(0);
    Ok(())
}

async fn order(order: Order, tally: Shared) -> Result<Total, BoxDynError> {
    tally.started();
    let total = order.total();
    tally.count(total.total_cents);
    Ok(total)
}

async fn tell(_: Noop, starts: Data<mpsc::UnboundedSender<Instant>>) -> Result<(), BoxDynError> {
    starts.send(Instant::now())?;
    Ok(())
}

fn config(task: &Task) -> Config {
    let mut config = Config::default().queue(QUEUE);
    if let Some(batch) = task.settings.batch {
        config = config.batch_size(batch);
    }
    if let Some(lock_tasks) = task.settings.lock_tasks {
        config = config.lock_tasks(lock_tasks);
    }
    config
}

async fn set_up(url: &str) -> anyhow::Result<PgPool> {
    let pool = PgPool::connect(url).await.context("connecting")?;
    PostgresStorage::setup(&pool).await.context("making the tables")?;
    Ok(pool)
}

async fn enqueue<Args, Kind>(
    storage: &mut PostgresStorage<Args>,
    job: &Args,
    jobs: usize,
) -> anyhow::Result<()>
where
    PostgresStorage<Args>: TaskSink<Args, Kind>,
    Args: Clone,
{
    for from in (0..jobs).step_by(ENQUEUE) {
        let batch = vec![job.clone(); ENQUEUE.min(jobs - from)];
        storage.push_bulk(batch).await.map_err(|_| anyhow!("enqueueing failed"))?;
    }
    Ok(())
}

pub(crate) async fn burn(task: &Task, url: &str) -> anyhow::Result<()> {
    let pool = set_up(url).await?;
    let payload = task.payload()?;
    let tally = Arc::new(Tally::default());
    let poll = Duration::from_millis(task.settings.poll_ms.unwrap_or(100));
    let context = WorkerContext::new("bench-1");
    let begun = Instant::now();

    // The two kinds of job are two types, so all that is generic over them stands twice.
    let worker: std::pin::Pin<Box<dyn Future<Output = anyhow::Result<()>> + Send>> =
        match task.handler {
            Handler::Noop => {
                let mut storage = PostgresStorage::<Noop>::new(&pool).with_config(config(task));
                enqueue(&mut storage, &serde_json::from_str(&payload)?, task.jobs).await?;
                let worker = WorkerBuilder::new(&context)
                    .backend(storage.poll_with_interval(poll))
                    .data(tally.clone())
                    .build(noop);
                Box::pin(async move { worker.run().await.context("the worker failed") })
            }
            Handler::Order => {
                let mut storage = PostgresStorage::<Order>::new(&pool).with_config(config(task));
                enqueue(&mut storage, &serde_json::from_str(&payload)?, task.jobs).await?;
                let worker = WorkerBuilder::new(&context)
                    .backend(storage.poll_with_interval(poll))
                    .data(tally.clone())
                    .build(order);
                Box::pin(async move { worker.run().await.context("the worker failed") })
            }
        };
    let enqueue_s = begun.elapsed().as_secs_f64();
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    // Due times are kept in whole seconds and compared with `<`.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    talk::ready(enqueue_s).await?;

    let begun = Instant::now();
    let mut working = tokio::spawn(worker);
    tokio::select! {
        () = tally.wait_for(task.jobs) => {}
        ended = &mut working => return ended?.and_then(|()| Err(anyhow!("the worker ended early"))),
    }
    let left = "select exists (select from apalis.jobs where status <> 'Done')";
    while client.query_one(left, &[]).await?.get(0) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    talk::finished(begun, &tally);
    context.stop()?;
    working.await?
}

pub(crate) async fn latency(task: &Task, url: &str) -> anyhow::Result<()> {
    let pool = set_up(url).await?;
    let (sender, mut starts) = mpsc::unbounded_channel();
    let mut producer = PostgresStorage::<Noop>::new(&pool).with_config(config(task));
    let storage = PostgresStorage::<Noop>::new(&pool).with_config(config(task));
    let context = WorkerContext::new("bench-1");
    let worker =
        WorkerBuilder::new(&context).backend(storage.with_pubsub()).data(sender).build(tell);
    let working = tokio::spawn(async move { worker.run().await });
    // Long enough to be registered and to listen.
    tokio::time::sleep(Duration::from_secs(2)).await;
    talk::ready(0.0).await?;

    let mut times = Vec::new();
    for pause in task.pauses() {
        tokio::time::sleep(pause).await;
        let sent = Instant::now();
        producer.push(Noop { n: 1 }).await.map_err(|_| anyhow!("enqueueing failed"))?;
        let started: Option<Instant> =
            tokio::time::timeout(Duration::from_secs(10), starts.recv()).await?;
        times.push(started.context("the worker ended")? - sent);
    }
    talk::latencies(&times);
    context.stop()?;
    working.await?.context("the worker failed")
}
