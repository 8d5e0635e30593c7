//! The horizon on a real server: what is behind it can have nothing, and readers do not hold it back.

use serde_json::Value;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection};
use stokehold_domain::KindId;
use stokehold_queue::{ActiveLane, Horizon, KindPolicy, Lane, LaneQuota, Place, Plans};

use crate::support::{Queue, completed, next_claim};

const TICKS: usize = 4;

async fn first(queue: &Queue, horizon: &mut Horizon) -> Option<i64> {
    let tick = queue.database.tick(horizon, None).await.unwrap();
    let first = |active: &ActiveLane| active.first;
    tick.lanes.first().and_then(first)
}

fn lane(kind_id: KindId) -> Lane {
    Lane { kind_id, priority: 0 }
}

async fn last_position(queue: &Queue) -> i64 {
    queue.value("select last_value from stokehold.positions").await
}

/// Enqueues and completes that many jobs.
async fn churn(queue: &Queue, kind: KindId, jobs: usize) {
    let runner = queue.runner().await;
    queue.jobs("work", jobs).await;
    let claimed = queue.claim(runner, kind, i32::try_from(jobs).unwrap()).await;
    let ended: Vec<_> = claimed.iter().map(completed).collect();
    queue.database.settle(runner, &ended).await.unwrap();
}

/// Pages that the look for the first job of a lane reads from this position on.
async fn pages_read(queue: &Queue, kind: KindId, cleared: i64) -> i64 {
    let mut session: PgConnection = queue.options.connect().await.unwrap();
    let settings = Plans::Kept.settings();
    sqlx::raw_sql(settings).execute(&mut session).await.unwrap();
    let look = format!(
        "explain (analyze, buffers, format json)
         select position from stokehold.ready
         where kind_id = {kind} and priority = 0 and position > {cleared}
         order by position limit 1"
    );
    let plan: Value =
        sqlx::query_scalar(AssertSqlSafe(look)).fetch_one(&mut session).await.unwrap();
    session.close().await.unwrap();
    let pages = |key: &str| plan[0]["Plan"][key].as_i64().unwrap();
    pages("Shared Hit Blocks") + pages("Shared Read Blocks")
}

#[tokio::test]
async fn the_first_position_of_all_is_in_sight_of_whoever_looked_before_it_was_drawn() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    // The lane is there before any position is: its first job is not due.
    queue.run("select stokehold.enqueue('work', run_at => now() + interval '1 hour')").await;
    let mut horizon = Horizon::default();
    for _ in 0..TICKS {
        assert_eq!(first(&queue, &mut horizon).await, None);
    }
    assert_eq!(horizon.cleared(lane(kind)), 0);
    queue.job("work").await;
    assert_eq!(first(&queue, &mut horizon).await, Some(1));
}

#[tokio::test]
async fn a_job_committed_late_is_found_though_others_behind_it_were_long_done() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let mut horizon = Horizon::default();
    let mut caller = queue.pool.begin().await.unwrap();
    sqlx::query("select stokehold.enqueue('work')").execute(&mut *caller).await.unwrap();
    let late: i64 = last_position(&queue).await;
    for _ in 0..TICKS {
        churn(&queue, kind, 5).await;
        assert_eq!(first(&queue, &mut horizon).await, None);
    }
    assert!(horizon.cleared(lane(kind)) < late);
    caller.commit().await.unwrap();
    assert_eq!(first(&queue, &mut horizon).await, Some(late));
    // It stays in sight for as long as it is there.
    for _ in 0..TICKS {
        assert_eq!(first(&queue, &mut horizon).await, Some(late));
    }
    assert_eq!(horizon.cleared(lane(kind)), late - 1);
}

#[tokio::test]
async fn an_old_snapshot_does_not_hold_the_horizon_back() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let mut reader: PgConnection = queue.options.connect().await.unwrap();
    sqlx::raw_sql("begin isolation level repeatable read; select count(*) from stokehold.jobs")
        .execute(&mut reader)
        .await
        .unwrap();
    let mut horizon = Horizon::default();
    churn(&queue, kind, 3_000).await;
    let churned = last_position(&queue).await;
    for _ in 0..TICKS {
        assert_eq!(first(&queue, &mut horizon).await, None);
    }
    assert_eq!(horizon.cleared(lane(kind)), churned);
    // And so a look does not come upon the 3,000 entries that nobody may remove.
    let all = pages_read(&queue, kind, 0).await;
    let behind = pages_read(&queue, kind, churned).await;
    assert!(all > 30 && behind < 10, "{all} pages from the start, {behind} from the horizon");
    reader.close().await.unwrap();
}

#[tokio::test]
async fn a_new_lane_is_heard_of_at_once_and_one_of_another_queue_is_told_apart() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let mut horizon = Horizon::default();
    let mail = ["mail".to_owned()];
    queue.database.tick(&mut horizon, Some(&mail)).await.unwrap();
    assert_eq!(horizon.place(lane(kind)), Place::Unknown);
    queue.job("work").await;
    let tick = queue.database.tick(&mut horizon, Some(&mail)).await.unwrap();
    assert!(tick.lanes.is_empty());
    assert_eq!(horizon.place(lane(kind)), Place::Elsewhere);
    // The kind moves to the queue that is served.
    let policy = KindPolicy { queue: "mail".to_owned(), ..KindPolicy::default() };
    queue.database.put_kind("work", &policy).await.unwrap();
    let tick = queue.database.tick(&mut horizon, Some(&mail)).await.unwrap();
    assert_eq!(tick.lanes.len(), 1);
    assert!(matches!(horizon.place(lane(kind)), Place::Served(_)));
}

#[tokio::test]
async fn a_node_that_starts_later_begins_where_others_have_come_to() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    queue.job("work").await;
    queue.run("truncate stokehold.jobs, stokehold.ready, stokehold.claims").await;
    queue.run("select setval('stokehold.positions', 1000000)").await;
    let mut horizon = Horizon::default();
    for _ in 0..TICKS {
        first(&queue, &mut horizon).await;
    }
    queue.database.note_horizon(&mut horizon).await.unwrap();
    let mut later = Horizon::default();
    first(&queue, &mut later).await;
    assert_eq!(later.cleared(lane(kind)), 1_000_000);
}

#[tokio::test]
async fn jobs_that_wait_for_a_release_are_not_lost_from_sight() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    queue.run("update stokehold.kinds set active_release = null").await;
    queue.jobs("work", 3).await;
    let mut horizon = Horizon::default();
    for _ in 0..TICKS {
        assert_eq!(first(&queue, &mut horizon).await, None);
    }
    queue.run("update stokehold.kinds set active_release = 1").await;
    let position = first(&queue, &mut horizon).await.unwrap();
    let runner = queue.runner().await;
    let from = LaneQuota {
        kind_id: kind,
        priority: 0,
        after_position: horizon.cleared(lane(kind)),
        quota: 9,
    };
    let claimed = queue.database.claim(runner, &next_claim(), &[from]).await.unwrap();
    assert_eq!(claimed.len(), 3);
    assert_eq!(claimed[0].position, position);
}
