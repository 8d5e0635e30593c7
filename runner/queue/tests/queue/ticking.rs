//! The tick: what is due, which lanes are active, and whether anybody died.

use std::time::Duration;

use chrono::{TimeDelta, Utc};
use stokehold_domain::KindId;
use stokehold_queue::{Horizon, KindPolicy, NewJob, tick};
use tokio::task::JoinSet;

use crate::support::{LEASE, Queue, job};

fn in_seconds(kind: &str, seconds: i64) -> NewJob {
    NewJob { run_at: Some(Utc::now() + TimeDelta::seconds(seconds)), ..job(kind) }
}

async fn lanes(queue: &Queue, queues: Option<&[&str]>) -> Vec<(KindId, i16)> {
    let queues: Option<Vec<String>> =
        queues.map(|names| names.iter().map(ToString::to_string).collect());
    let tick = queue.database.tick(&mut Horizon::default(), queues.as_deref()).await.unwrap();
    tick.lanes.iter().map(|active| (active.lane.kind_id, active.lane.priority)).collect()
}

#[tokio::test]
async fn ticks_that_meet_release_each_due_job_once() {
    let queue = Queue::new().await;
    queue.kind("work").await;
    queue.database.enqueue(&vec![in_seconds("work", 3600); 400]).await.unwrap();
    queue.run("update stokehold.jobs set run_at = clock_timestamp() where id % 2 = 0").await;
    let mut ticks = JoinSet::new();
    for _ in 0..8 {
        let database = queue.database.clone();
        ticks.spawn(
            async move { database.tick(&mut Horizon::default(), None).await.unwrap().released },
        );
    }
    assert_eq!(ticks.join_all().await.iter().sum::<i64>(), 200);
    let released = "select count(*) from stokehold.jobs where state = 'available'";
    assert_eq!(queue.value::<i64>(released).await, 200);
    let positions = "select count(distinct position) from stokehold.jobs where state = 'available'";
    assert_eq!(queue.value::<i64>(positions).await, 200);
}

#[tokio::test]
async fn a_released_job_shows_its_lane_in_the_same_tick() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    queue.database.enqueue(&[in_seconds("work", 3600)]).await.unwrap();
    assert_eq!(lanes(&queue, None).await, []);
    queue.run("update stokehold.jobs set run_at = clock_timestamp()").await;
    assert_eq!(lanes(&queue, None).await, [(kind, 0)]);
}

#[tokio::test]
async fn a_tick_releases_a_bounded_number_and_the_earliest_first() {
    let queue = Queue::new().await;
    queue.kind("work").await;
    queue.database.enqueue(&vec![in_seconds("work", 3600); 1_100]).await.unwrap();
    queue
        .run("update stokehold.jobs set run_at = clock_timestamp() - id * interval '1 second'")
        .await;
    let first = queue.database.tick(&mut Horizon::default(), None).await.unwrap();
    assert_eq!(first.released, tick::MAX_RELEASED);
    assert_eq!(first.next_due, Some(Duration::ZERO));
    let youngest: bool = queue
        .value(
            "select max(run_at) filter (where state = 'available')
               <= min(run_at) filter (where state = 'scheduled') from stokehold.jobs",
        )
        .await;
    assert!(youngest);
    assert_eq!(queue.database.tick(&mut Horizon::default(), None).await.unwrap().released, 100);
}

#[tokio::test]
async fn the_next_due_time_is_that_of_the_earliest_job_that_waits() {
    let queue = Queue::new().await;
    queue.kind("work").await;
    assert_eq!(queue.database.tick(&mut Horizon::default(), None).await.unwrap().next_due, None);
    queue.jobs("work", 2).await;
    assert_eq!(queue.database.tick(&mut Horizon::default(), None).await.unwrap().next_due, None);
    let jobs = [in_seconds("work", 500), in_seconds("work", 100), in_seconds("work", 900)];
    queue.database.enqueue(&jobs).await.unwrap();
    let due = queue
        .database
        .tick(&mut Horizon::default(), None)
        .await
        .unwrap()
        .next_due
        .unwrap()
        .as_secs_f64();
    assert!(due > 50.0 && due <= 100.0, "due in {due} s");
}

#[tokio::test]
async fn lanes_are_those_of_the_queues_served_with_an_active_release() {
    let queue = Queue::new().await;
    let in_queue = |name: &str| KindPolicy { queue: name.to_owned(), ..KindPolicy::default() };
    for (kind, name) in [("mail", "slow"), ("image", "fast"), ("draft", "slow")] {
        queue.database.put_kind(kind, &in_queue(name)).await.unwrap();
        queue.jobs(kind, 2).await;
    }
    let (mail, image) = (queue.kind("mail").await, queue.kind("image").await);
    assert_eq!(lanes(&queue, None).await, [(mail, 0), (image, 0)]);
    assert_eq!(lanes(&queue, Some(&["slow"])).await, [(mail, 0)]);
    assert_eq!(lanes(&queue, Some(&["fast", "other"])).await, [(image, 0)]);
    assert_eq!(lanes(&queue, Some(&["other"])).await, []);
    assert_eq!(lanes(&queue, Some(&[])).await, []);
}

#[tokio::test]
async fn lanes_come_most_urgent_first_and_each_once() {
    let queue = Queue::new().await;
    let (a, b) = (queue.kind("a").await, queue.kind("b").await);
    for (kind, priority) in [("a", 5), ("b", -5), ("a", 0), ("b", 0), ("a", -1000), ("b", 1000)] {
        let urgent = NewJob { priority: Some(priority), ..job(kind) };
        queue.database.enqueue(&vec![urgent; 20]).await.unwrap();
    }
    let wanted = [(a, -1000), (b, -5), (a, 0), (b, 0), (a, 5), (b, 1000)];
    assert_eq!(lanes(&queue, None).await, wanted);
}

#[tokio::test]
async fn a_tick_says_when_the_reaper_has_work() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let dead =
        async || queue.database.tick(&mut Horizon::default(), None).await.unwrap().dead_runners;
    assert!(!dead().await);
    let runner = queue.runner().await;
    queue.job("work").await;
    queue.claim_one(runner, kind).await;
    assert!(!dead().await);
    queue.expire(runner, 1.0).await;
    assert!(dead().await);
    queue.database.reap(LEASE).await.unwrap();
    assert!(!dead().await);
    // One that was marked by a sweep that went no further.
    let runner = queue.runner().await;
    queue.claim_one(runner, kind).await;
    queue
        .run(format!(
            "update stokehold.runners set state = 'dead', ended_at = clock_timestamp() where id = {runner}"
        ))
        .await;
    assert!(dead().await);
}
