//! Bare SQL: what PostgreSQL gives to a queue that has no runner around it.
//!
//! A plain table with one partial index. Claims mark rows as running; completing deletes them and
//! writes them to an archive, so that finished rows are kept. Both are one statement and one commit.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use futures::StreamExt;
use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, Client, NoTls, Statement};

use crate::order::Order;
use crate::talk::{self, Tally};
use crate::task::{Handler, Task};

/// Jobs in one enqueueing call.
const ENQUEUE: usize = 1_000;

const SCHEMA: &str = "
    create table jobs (
        id bigint generated always as identity primary key,
        queue text not null, kind text not null,
        status text not null default 'pending',
        priority smallint not null default 0,
        run_at timestamptz not null default now(),
        attempt int not null default 0, max_attempts int not null default 5,
        payload jsonb not null, locked_by text, locked_at timestamptz,
        created_at timestamptz not null default now());
    create index jobs_pending on jobs (priority desc, run_at, id) where status = 'pending';
    create table archive (
        id bigint primary key, queue text not null, kind text not null, status text not null,
        priority smallint not null, run_at timestamptz not null,
        attempt int not null, max_attempts int not null,
        payload jsonb not null, result jsonb, locked_by text, locked_at timestamptz,
        created_at timestamptz not null, finished_at timestamptz not null);";

const INSERT: &str = "
    insert into jobs (queue, kind, payload)
    select 'default', 'bench', payload::jsonb from unnest($1::text[]) as new (payload)";

/// The limit stands in the text: as a parameter the planner takes it for a tenth of the table.
fn claim_text(batch: usize) -> String {
    format!(
        "with next as materialized (
            select id from jobs where status = 'pending' and run_at <= now()
            order by priority desc, run_at, id limit {batch} for update skip locked)
        update jobs set status = 'running', attempt = attempt + 1,
            locked_by = $1, locked_at = now()
        from next where jobs.id = next.id
        returning jobs.id, jobs.payload::text"
    )
}

const COMPLETE: &str = "
    with done as (
        delete from jobs using unnest($1::bigint[], $2::text[]) as outcome (id, result)
        where jobs.id = outcome.id and jobs.status = 'running' and jobs.locked_by = $3
        returning jobs.*, outcome.result)
    insert into archive (id, queue, kind, status, priority, run_at, attempt, max_attempts,
        payload, result, locked_by, locked_at, created_at, finished_at)
    select id, queue, kind, 'completed', priority, run_at, attempt, max_attempts,
        payload, result::jsonb, locked_by, locked_at, created_at, now() from done";

/// A connection; what it is told without having asked goes to the channel.
async fn connect(url: &str) -> anyhow::Result<(Client, mpsc::UnboundedReceiver<()>)> {
    let (client, mut connection) =
        tokio_postgres::connect(url, NoTls).await.context("connecting")?;
    let (sender, receiver) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut messages = futures::stream::poll_fn(move |cx| connection.poll_message(cx));
        while let Some(message) = messages.next().await {
            match message {
                Ok(AsyncMessage::Notification(_)) => drop(sender.send(())),
                Ok(_) => {}
                Err(error) => return eprintln!("a connection ended: {error}"),
            }
        }
    });
    Ok((client, receiver))
}

/// One connection that claims, handles and completes.
struct Worker {
    client: Client,
    name: String,
    claim: Statement,
    complete: Statement,
    handler: Handler,
    tally: Arc<Tally>,
}

impl Worker {
    async fn new(
        client: Client,
        number: usize,
        task: &Task,
        tally: Arc<Tally>,
    ) -> anyhow::Result<Worker> {
        let claim = client.prepare(&claim_text(task.settings.batch.unwrap_or(1))).await?;
        let complete = client.prepare(COMPLETE).await?;
        let name = format!("worker-{number}");
        Ok(Worker { client, name, claim, complete, handler: task.handler, tally })
    }

    /// Works off one claim; says how many jobs it had and when their handlers began.
    async fn turn(&self) -> anyhow::Result<(usize, Instant)> {
        let rows = self.client.query(&self.claim, &[&self.name]).await.context("claiming")?;
        let begun = Instant::now();
        if rows.is_empty() {
            return Ok((0, begun));
        }
        self.tally.started();
        let mut ids: Vec<i64> = Vec::with_capacity(rows.len());
        let mut results: Vec<Option<String>> = Vec::with_capacity(rows.len());
        for row in &rows {
            ids.push(row.get(0));
            results.push(self.handle(row.get(1))?);
        }
        let done = self
            .client
            .execute(&self.complete, &[&ids, &results, &self.name])
            .await
            .context("completing")?;
        anyhow::ensure!(done == ids.len() as u64, "{done} of {} were completed", ids.len());
        Ok((rows.len(), begun))
    }

    fn handle(&self, payload: &str) -> anyhow::Result<Option<String>> {
        match self.handler {
            Handler::Noop => {
                self.tally.count(0);
                Ok(None)
            }
            Handler::Order => {
                let total = serde_json::from_str::<Order>(payload)?.total();
                self.tally.count(total.total_cents);
                Ok(Some(serde_json::to_string(&total)?))
            }
        }
    }
}

pub(crate) async fn burn(task: &Task, url: &str) -> anyhow::Result<()> {
    let (admin, _notices) = connect(url).await?;
    admin.batch_execute(SCHEMA).await.context("making the tables")?;
    let payload = task.payload()?;
    let begun = Instant::now();
    let insert = admin.prepare(INSERT).await?;
    for from in (0..task.jobs).step_by(ENQUEUE) {
        let payloads = vec![payload.as_str(); ENQUEUE.min(task.jobs - from)];
        admin.execute(&insert, &[&payloads]).await.context("enqueueing")?;
    }
    let tally = Arc::new(Tally::default());
    talk::ready(begun.elapsed().as_secs_f64()).await?;

    let begun = Instant::now();
    let mut workers = tokio::task::JoinSet::new();
    for number in 0..task.settings.connections.unwrap_or(1) {
        let (client, _notices) = connect(url).await?;
        let worker = Worker::new(client, number, task, tally.clone()).await?;
        workers.spawn(async move {
            while worker.turn().await?.0 > 0 {}
            anyhow::Ok(())
        });
    }
    while let Some(ended) = workers.join_next().await {
        ended??;
    }
    let left = admin.query_one("select count(*) from jobs", &[]).await?.get::<_, i64>(0);
    anyhow::ensure!(left == 0, "{left} jobs are left");
    talk::finished(begun, &tally);
    Ok(())
}

pub(crate) async fn latency(task: &Task, url: &str) -> anyhow::Result<()> {
    let (client, _notices) = connect(url).await?;
    client.batch_execute(SCHEMA).await.context("making the tables")?;
    let insert = client
        .prepare(&format!(
            "with new as ({INSERT} returning id) select pg_notify('jobs', '') from new"
        ))
        .await?;
    let (listener, mut notices) = connect(url).await?;
    listener.batch_execute("listen jobs").await?;
    let worker = Worker::new(listener, 0, task, Arc::default()).await?;
    let payload = task.payload()?;
    talk::ready(0.0).await?;

    let (sender, mut starts) = mpsc::unbounded_channel();
    let working = tokio::spawn(async move {
        while notices.recv().await.is_some() {
            let (jobs, begun) = worker.turn().await?;
            if jobs > 0 && sender.send(begun).is_err() {
                break;
            }
        }
        anyhow::Ok(())
    });
    let mut times = Vec::new();
    for pause in task.pauses() {
        tokio::time::sleep(pause).await;
        let sent = Instant::now();
        client.execute(&insert, &[&vec![payload.as_str()]]).await?;
        let started = tokio::time::timeout(Duration::from_secs(10), starts.recv()).await?;
        times.push(started.context("the worker ended")? - sent);
    }
    talk::latencies(&times);
    working.abort();
    Ok(())
}
