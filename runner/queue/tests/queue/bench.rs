//! What the benchmark asks: times in pages, whether anything is left, and taking away what is its own
//! and nothing else.

use std::collections::BTreeSet;

use stokehold_domain::JobId;
use stokehold_queue::RunnerRegistration;
use stokehold_queue::bench::{Backlog, HeldSnapshot, Standing};

use crate::support::{LEASE, Queue, completed, registration};

#[tokio::test]
async fn times_come_in_pages_that_miss_nothing_and_repeat_nothing() {
    let queue = Queue::new().await;
    let (kind, runner) = (queue.kind("bench.a").await, queue.runner().await);
    let earlier = queue.job("bench.a").await;
    let jobs = queue.jobs("bench.a", 7).await;
    for job in queue.claim(runner, kind, 8).await {
        queue.settle(runner, completed(&job)).await;
    }
    let (mut from, mut seen) = (earlier, Vec::new());
    loop {
        let page = queue.database.job_times(&[kind], from, 3).await.unwrap();
        let Some(last) = page.last() else { break };
        assert!(page.len() <= 3);
        assert!(page.iter().all(|job| 0.0 <= job.start_s && job.start_s <= job.done_s));
        from = last.id;
        seen.extend(page.into_iter().map(|job| job.id));
    }
    assert_eq!(seen, jobs);
    let span = queue.database.job_span(&[kind], earlier).await.unwrap().unwrap();
    assert_eq!((span.jobs, span.completed), (7, 7));
    assert!(span.first_start_s <= span.last_end_s);
    assert_eq!(queue.database.newest_job().await.unwrap(), jobs[6]);
    assert!(queue.database.job_span(&[kind], jobs[6]).await.unwrap().is_none());
}

#[tokio::test]
async fn the_backlog_is_told_at_once_while_jobs_come_and_go() {
    let queue = Queue::new().await;
    let (kind, runner) = (queue.kind("bench.a").await, queue.runner().await);
    let mut backlog = Backlog::follow(&queue.database, kind).await.unwrap();
    let mut waiting = async || {
        let waiting = backlog.waiting(&queue.database).await.unwrap();
        (waiting.jobs, waiting.claimed)
    };
    assert_eq!(waiting().await, (0, 0));
    queue.jobs("bench.a", 5).await;
    assert_eq!(waiting().await, (5, 0));
    queue.claim(runner, kind, 2).await;
    assert_eq!(waiting().await, (3, 2));
    queue.claim(runner, kind, 3).await;
    assert_eq!(waiting().await, (0, 5));
    queue.jobs("bench.a", 2).await;
    assert_eq!(waiting().await, (2, 5));
}

#[tokio::test]
async fn a_live_job_of_the_kinds_and_the_run_alone_is_seen() {
    let queue = Queue::new().await;
    let (mine, other) = (queue.kind("bench.a").await, queue.kind("other").await);
    assert_eq!(queue.database.newest_job().await.unwrap(), JobId(0));
    let earlier = queue.job("bench.a").await;
    queue.job("other").await;
    let any = async |kinds: &[_]| queue.database.any_live(kinds, earlier).await.unwrap();
    assert!(!any(&[mine]).await && any(&[mine, other]).await);
    queue.job("bench.a").await;
    assert!(any(&[mine]).await);
}

#[tokio::test]
async fn removal_takes_what_has_the_prefix_and_leaves_the_rest() {
    let queue = Queue::new().await;
    let untouched = queue.kind("bench").await;
    let runner = queue.runner().await;
    queue.jobs("bench", 3).await;
    for job in queue.claim(runner, untouched, 1).await {
        queue.settle(runner, completed(&job)).await;
    }
    let before = queue.everything().await;

    let kind = queue.kind("bench.1.kind").await;
    let own = queue.module(7).await;
    let release = &stokehold_domain::Limits::DEFAULT;
    queue.database.create_release("bench.1.kind", own, release, true).await.unwrap();
    queue.jobs("bench.1.kind", 5).await;
    for job in queue.claim(runner, kind, 2).await.into_iter().skip(1) {
        queue.settle(runner, completed(&job)).await;
    }
    queue.database.fill_history(kind, 1, 10, b"{}").await.unwrap();
    queue.database.create_key("bench.1.api").await.unwrap();
    let own_node = RunnerRegistration { name: "bench.1.node".to_owned(), ..registration(LEASE) };
    let own_node = queue.database.register_runner(&own_node).await.unwrap();
    queue.claim(own_node, kind, 1).await;
    queue.database.set_sleeping(own_node, true).await.unwrap();

    // The module that the other kind runs as well is not the benchmark's to delete.
    let modules = [own, queue.module(1).await];
    let removed = queue.database.remove_bench("bench.1.", &modules).await.unwrap();
    assert_eq!(removed, 15);
    assert_eq!(queue.everything().await, before);
    let claims = format!("select count(*) from stokehold.claims where runner_id = {own_node}");
    assert_eq!(queue.value::<i64>(claims).await, 0);
    let names: BTreeSet<String> =
        queue.database.kinds().await.unwrap().into_iter().map(|kind| kind.name).collect();
    assert_eq!(names, BTreeSet::from(["bench".to_owned()]));
    for (table, rows) in
        [("modules", 1), ("releases", 1), ("api_keys", 0), ("sleepers", 0), ("lanes", 1)]
    {
        let left = queue.value::<i64>(format!("select count(*) from stokehold.{table}")).await;
        assert_eq!(left, rows, "{table}");
    }
}

#[tokio::test]
async fn filled_history_lies_before_all_jobs_and_is_in_no_run() {
    let queue = Queue::new().await;
    let kind = queue.kind("bench.a").await;
    queue.database.fill_history(kind, 1, 40, b"{}").await.unwrap();
    queue.database.fill_history(kind, 41, 10, b"{}").await.unwrap();
    let oldest = "select min(id) from stokehold.job_history where state = 'completed'";
    assert_eq!(queue.value::<i64>(oldest).await, -50);
    assert!(queue.database.job_span(&[kind], JobId(0)).await.unwrap().is_none());
    queue.database.settle_tables().await.unwrap();
}

#[tokio::test]
async fn a_snapshot_is_held_until_it_is_released() {
    let queue = Queue::new().await;
    let held = "select count(*) from pg_stat_activity where datname = current_database()
                and state = 'idle in transaction' and backend_xmin is not null";
    let snapshot = HeldSnapshot::take(&queue.database).await.unwrap();
    assert_eq!(queue.value::<i64>(held).await, 1);
    snapshot.release().await.unwrap();
    queue.until(format!("select ({held}) = 0")).await;
}

#[tokio::test]
async fn what_stands_in_a_database_is_counted() {
    let queue = Queue::new().await;
    let empty = Standing { live_jobs: 0, live_runners: 0 };
    assert_eq!(queue.database.standing().await.unwrap(), empty);
    queue.kind("a").await;
    queue.jobs("a", 3).await;
    let runner = queue.runner().await;
    queue.runner().await;
    queue.expire(runner, 1.0).await;
    let found = queue.database.standing().await.unwrap();
    assert_eq!(found, Standing { live_jobs: 3, live_runners: 1 });
}

#[tokio::test]
async fn the_counters_grow_with_the_work() {
    let queue = Queue::new().await;
    queue.kind("a").await;
    let before = queue.database.gauges().await.unwrap();
    queue.jobs("a", 100).await;
    let after = queue.database.gauges().await.unwrap();
    assert!(after.wal_bytes > before.wal_bytes);
    // The rest is handed in when a session ends.
    assert!(after.rows_inserted >= before.rows_inserted);
    assert!(queue.database.local_backend().await.unwrap().is_some());
    assert!(queue.database.server_facts().await.unwrap().iter().any(|(name, _)| name == "fsync"));
}
