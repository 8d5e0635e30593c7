//! The wake-up hint: given while somebody sleeps, and not otherwise.

use sqlx::postgres::PgListener;
use stokehold_queue::{NewJob, WakeListener};

use crate::support::{LEASE, PATIENCE, Queue, job};

/// What is heard until the marker that is sent now.
async fn heard(queue: &Queue, listener: &mut PgListener) -> usize {
    queue.run("select pg_notify('stokehold_wake', 'marker')").await;
    let mut heard = 0;
    loop {
        let notification = tokio::time::timeout(PATIENCE, listener.recv()).await.unwrap().unwrap();
        if notification.payload() == "marker" {
            return heard;
        }
        heard += 1;
    }
}

async fn listener(queue: &Queue) -> PgListener {
    let mut listener = PgListener::connect_with(&queue.pool).await.unwrap();
    listener.listen("stokehold_wake").await.unwrap();
    listener
}

#[tokio::test]
async fn enqueueing_wakes_a_sleeper_when_it_commits() {
    let queue = Queue::new().await;
    queue.kind("work").await;
    let runner = queue.runner().await;
    let mut waking = WakeListener::connect(&queue.database).await.unwrap();
    let mut listener = listener(&queue).await;
    queue.database.set_sleeping(runner, true).await.unwrap();
    let mut caller = queue.pool.begin().await.unwrap();
    sqlx::query("select stokehold.enqueue('work')").execute(&mut *caller).await.unwrap();
    assert_eq!(heard(&queue, &mut listener).await, 0);
    caller.commit().await.unwrap();
    assert_eq!(heard(&queue, &mut listener).await, 1);
    for _ in 0..3 {
        // The two markers and the hint between them.
        tokio::time::timeout(PATIENCE, waking.heard()).await.unwrap().unwrap();
    }
    queue.jobs("work", 50).await;
    tokio::time::timeout(PATIENCE, waking.heard()).await.unwrap().unwrap();
    assert_eq!(heard(&queue, &mut listener).await, 1);
}

#[tokio::test]
async fn nobody_is_notified_while_nobody_sleeps() {
    let queue = Queue::new().await;
    queue.kind("work").await;
    let runner = queue.runner().await;
    let mut listener = listener(&queue).await;
    queue.jobs("work", 5).await;
    assert_eq!(heard(&queue, &mut listener).await, 0);
    queue.database.set_sleeping(runner, true).await.unwrap();
    queue.database.set_sleeping(runner, true).await.unwrap();
    queue.database.set_sleeping(runner, false).await.unwrap();
    queue.jobs("work", 5).await;
    assert_eq!(heard(&queue, &mut listener).await, 0);
}

#[tokio::test]
async fn runners_that_are_gone_no_longer_sleep() {
    let queue = Queue::new().await;
    queue.kind("work").await;
    let (stopped, dead) = (queue.runner().await, queue.runner().await);
    let mut listener = listener(&queue).await;
    for runner in [stopped, dead] {
        queue.database.set_sleeping(runner, true).await.unwrap();
    }
    queue.database.stop_runner(stopped).await.unwrap();
    queue.job("work").await;
    assert_eq!(heard(&queue, &mut listener).await, 1);
    queue.expire(dead, 1.0).await;
    queue.database.reap(LEASE).await.unwrap();
    queue.job("work").await;
    assert_eq!(heard(&queue, &mut listener).await, 0);
}

#[tokio::test]
async fn a_listener_whose_connection_is_cut_says_so_or_hears_on() {
    let queue = Queue::new().await;
    queue.kind("work").await;
    let runner = queue.runner().await;
    queue.database.set_sleeping(runner, true).await.unwrap();
    let mut waking = WakeListener::connect(&queue.database).await.unwrap();
    queue
        .run(
            "select pg_terminate_backend(pid) from pg_stat_activity
             where application_name = 'stokehold-wake' and datname = current_database()",
        )
        .await;
    // Either way the caller wakes and looks.
    let _ = tokio::time::timeout(PATIENCE, waking.heard()).await.unwrap();
}

#[tokio::test]
async fn a_hint_names_the_lanes_unless_they_are_many_or_a_job_is_due_later() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    queue.database.set_sleeping(runner, true).await.unwrap();
    let mut listener = listener(&queue).await;
    let mut said = async || {
        let heard = tokio::time::timeout(PATIENCE, listener.recv()).await.unwrap().unwrap();
        heard.payload().to_owned()
    };
    queue.job("work").await;
    assert_eq!(said().await, format!("{kind}:0"));
    let urgent = NewJob { priority: Some(-7), ..job("work") };
    queue.database.enqueue(&[urgent, job("work")]).await.unwrap();
    assert_eq!(said().await, format!("{kind}:-7,{kind}:0"));
    let later = Some(chrono::Utc::now() + chrono::TimeDelta::seconds(1));
    queue.database.enqueue(&[job("work"), NewJob { run_at: later, ..job("work") }]).await.unwrap();
    assert_eq!(said().await, "", "when the next job is due, only a look can tell");
    queue.jobs("work", 101).await;
    assert_eq!(said().await, "");
}
