//! Claiming: who gets what, how much of it, and that it is written before it is told.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::json;
use stokehold_domain::{Blob, JobId, JobState, Next, Problem, RunnerId};
use stokehold_queue::{Claimant, Claimed, Database, DatabaseOptions, Ended, LaneQuota, NewJob};
use tokio::task::JoinSet;

use crate::support::{LEASE, Queue, ended, handed_back, job, lane, next_claim, retried};

#[tokio::test]
async fn no_job_is_ever_handed_to_two_runners() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let jobs = queue.jobs("work", 500).await;
    let mut runners = JoinSet::new();
    for _ in 0..8 {
        let (database, runner) = (queue.database.clone(), queue.runner().await);
        runners.spawn(async move {
            let mut held = Vec::new();
            loop {
                let claimed =
                    database.claim(runner, &next_claim(), &[lane(kind, 7)]).await.unwrap();
                assert!(claimed.len() <= 7, "{} were claimed", claimed.len());
                if claimed.is_empty() {
                    return (runner, held);
                }
                held.extend(claimed.into_iter().map(|job| job.id));
            }
        });
    }
    let mut holders: HashMap<JobId, RunnerId> = HashMap::new();
    while let Some(runner) = runners.join_next().await {
        let (runner, held) = runner.unwrap();
        for id in held {
            assert_eq!(holders.insert(id, runner), None, "job {id} went to two");
        }
    }
    assert_eq!(holders.len(), jobs.len());
    let written = queue.rows("select id, runner_id, state from stokehold.live_jobs").await;
    for row in written {
        let id = JobId(row["id"].as_i64().unwrap());
        assert_eq!(row["runner_id"], holders[&id].0);
        assert_eq!(row["state"], "running");
    }
}

#[tokio::test]
async fn a_claim_takes_exactly_its_quota_whatever_the_plan() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    queue.jobs("work", 300).await;
    let mut running = 0;
    for forbidden in [
        &["enable_hashjoin", "enable_mergejoin"][..],
        &["enable_nestloop", "enable_mergejoin"],
        &["enable_nestloop", "enable_hashjoin"],
        &["enable_indexscan", "enable_bitmapscan"],
        &[],
    ] {
        let settings = forbidden.iter().map(|name| (*name, "off"));
        let options = DatabaseOptions::new(queue.options.clone().options(settings));
        let database = Database::connect(options).await.unwrap();
        // More than five times, after which a prepared statement may keep one plan.
        for _ in 0..8 {
            assert_eq!(
                database.claim(runner, &next_claim(), &[lane(kind, 1)]).await.unwrap().len(),
                1
            );
            assert_eq!(
                database.claim(runner, &next_claim(), &[lane(kind, 3)]).await.unwrap().len(),
                3
            );
            running += 4;
            let found: i64 = queue
                .value("select count(*) from stokehold.live_jobs where state = 'running'")
                .await;
            assert_eq!(found, running, "with {forbidden:?} off");
        }
        assert!(database.claim(runner, &next_claim(), &[lane(kind, 0)]).await.unwrap().is_empty());
        database.close().await;
    }
}

#[tokio::test]
async fn each_lane_has_its_own_quota_and_only_its_own_jobs() {
    let queue = Queue::new().await;
    let (a, b) = (queue.kind("a").await, queue.kind("b").await);
    let runner = queue.runner().await;
    let urgent = NewJob { priority: Some(-1), ..job("a") };
    queue.database.enqueue(&vec![urgent; 5]).await.unwrap();
    queue.jobs("a", 5).await;
    queue.jobs("b", 5).await;
    let urgent_lane = LaneQuota { priority: -1, ..lane(a, 2) };
    let claimed = queue
        .database
        .claim(runner, &next_claim(), &[urgent_lane, lane(a, 1), lane(b, 9)])
        .await
        .unwrap();
    let count = |kind, priority| {
        claimed.iter().filter(|job| job.kind_id == kind && job.priority == priority).count()
    };
    assert_eq!([count(a, -1), count(a, 0), count(b, 0)], [2, 1, 5]);
    assert_eq!(claimed.len(), 8);
    assert!(queue.database.claim(runner, &next_claim(), &[]).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_lane_is_first_in_first_out_by_position_and_not_by_id() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    let ids = queue.jobs("work", 5).await;
    // The first comes back and stands at the end.
    let first = queue.claim(runner, kind, 1).await.remove(0);
    assert_eq!(first.id, ids[0]);
    queue.settle(runner, handed_back(&first)).await;
    let order = queue.claim(runner, kind, 3).await;
    assert_eq!(order.iter().map(|job| job.id).collect::<Vec<_>>(), ids[1..4]);
    let order = queue.claim(runner, kind, 3).await;
    assert_eq!(order.iter().map(|job| job.id).collect::<Vec<_>>(), [ids[4], ids[0]]);
}

#[tokio::test]
async fn a_claim_comes_in_the_order_in_which_it_is_to_be_started() {
    let queue = Queue::new().await;
    let (a, b) = (queue.kind("a").await, queue.kind("b").await);
    let runner = queue.runner().await;
    for _ in 0..5 {
        queue.jobs("a", 1).await;
        queue.jobs("b", 1).await;
    }
    // The most urgent one comes last.
    let urgent = NewJob { priority: Some(-1), ..job("a") };
    queue.database.enqueue(&[urgent]).await.unwrap();
    let lanes = [lane(a, 9), lane(b, 9), LaneQuota { priority: -1, ..lane(a, 9) }];
    let claimed = queue.database.claim(runner, &next_claim(), &lanes).await.unwrap();
    let order: Vec<(i16, i64)> = claimed.iter().map(|job| (job.priority, job.position)).collect();
    assert_eq!(order.len(), 11);
    assert_eq!(order[0].0, -1);
    assert!(order.is_sorted(), "{order:?}");
}

#[tokio::test]
async fn nothing_at_or_before_the_cursor_is_claimed() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    let ids = queue.jobs("work", 6).await;
    let third = queue.live(ids[2]).await.unwrap()["position"].as_i64().unwrap();
    let from_third = LaneQuota { after_position: third, ..lane(kind, 100) };
    let mut claimed = queue.database.claim(runner, &next_claim(), &[from_third]).await.unwrap();
    claimed.sort_by_key(|job| job.id);
    assert_eq!(claimed.iter().map(|job| job.id).collect::<Vec<_>>(), ids[3..]);
    let rest = queue.claim(runner, kind, 100).await;
    assert_eq!(rest.iter().map(|job| job.id).collect::<Vec<_>>(), ids[..3]);
}

#[tokio::test]
async fn a_claim_is_seen_by_everybody_when_it_returns() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    let id = queue.job("work").await;
    let claimed = queue.claim_one(runner, kind).await;
    let row = queue.live(id).await.unwrap();
    assert_eq!(row["state"], "running");
    assert_eq!(row["runner_id"], runner.0);
    assert_eq!(row["token"], claimed.token.0);
    assert_eq!(row["attempt"], 1);
    assert!(row["started_at"].is_string());
}

#[tokio::test]
async fn a_claim_brings_all_that_an_attempt_needs() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    let new = NewJob {
        metadata: Some(json!({ "k": "v" })),
        max_attempts: Some(4),
        ..NewJob::new("work", Blob { media_type: "a/b".into(), bytes: vec![0, 1, 255] })
    };
    let id = queue.database.enqueue(std::slice::from_ref(&new)).await.unwrap()[0];
    let first = queue.claim_one(runner, kind).await;
    queue.settle(runner, retried(&first, Duration::ZERO)).await;
    queue.release_due().await;
    let second = queue.claim_one(runner, kind).await;
    assert_eq!((second.id, second.kind_id, second.release), (id, kind, 1));
    assert_eq!((second.attempt, second.max_attempts, second.lost), (2, 4, 0));
    assert_eq!(second.payload, new.payload);
    assert_eq!(second.metadata, new.metadata);
    assert_eq!(second.last_problem, Some(Problem::new("it broke")));
    assert!(second.position > first.position);
    assert_eq!(second.enqueued_at, first.enqueued_at);
}

#[tokio::test]
async fn a_row_that_another_session_has_locked_is_passed_over() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    let ids = queue.jobs("work", 3).await;
    let mut other = queue.pool.begin().await.unwrap();
    sqlx::query("select from stokehold.ready where job_id = $1 for update")
        .bind(ids[0].0)
        .execute(&mut *other)
        .await
        .unwrap();
    let claimed = queue.claim(runner, kind, 2).await;
    assert_eq!(claimed.iter().map(|job| job.id).collect::<Vec<_>>(), ids[1..]);
    other.rollback().await.unwrap();
    assert_eq!(queue.claim_one(runner, kind).await.id, ids[0]);
}

#[tokio::test]
async fn only_a_runner_whose_lease_is_alive_claims() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    queue.jobs("work", 3).await;
    let before = queue.everything().await;
    let (expired, dead, stopped) =
        (queue.runner().await, queue.runner().await, queue.runner().await);
    queue.expire(expired, 0.001).await;
    queue.expire(dead, 1.0).await;
    queue.database.reap(LEASE).await.unwrap();
    // The sweep took both; this one has a lease that is over and no sweep yet.
    let expired = queue.runner().await;
    queue.expire(expired, 0.001).await;
    queue.database.stop_runner(stopped).await.unwrap();
    for runner in [expired, dead, stopped, RunnerId(i64::MAX)] {
        assert!(queue.claim(runner, kind, 10).await.is_empty(), "runner {runner}");
    }
    assert_eq!(queue.everything().await, before);
}

#[tokio::test]
async fn jobs_of_a_kind_without_an_active_release_wait_for_one() {
    let queue = Queue::new().await;
    let runner = queue.runner().await;
    let kind = queue.database.ensure_kind("work").await.unwrap().id;
    queue.jobs("work", 2).await;
    assert!(queue.claim(runner, kind, 10).await.is_empty());
    queue.kind("work").await;
    assert_eq!(queue.claim(runner, kind, 10).await.len(), 2);
}

#[tokio::test]
async fn the_token_grows_at_every_claim_and_never_goes_back() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let id = queue.job("work").await;
    type End = fn(&Claimed) -> Ended;
    let ways: [(&str, End); 5] = [
        ("retried", |job| retried(job, Duration::ZERO)),
        ("snoozed", |job| ended(job, "handler.snooze", Next::Snooze(Duration::ZERO))),
        ("handed back unstarted", handed_back),
        ("handed back started", |job| ended(job, "node.draining", Next::HandBack(Duration::ZERO))),
        ("handed back later", |job| {
            ended(job, "host.fault", Next::HandBack(Duration::from_millis(1)))
        }),
    ];
    let mut last = 0;
    let mut runner = queue.runner().await;
    for (way, end) in ways {
        let claimed = queue.claim_one(runner, kind).await;
        assert!(claimed.token.0 > last, "{way}");
        last = claimed.token.0;
        queue.settle(runner, end(&claimed)).await;
        assert_eq!(queue.live(id).await.unwrap()["token"], last, "{way}");
        queue.release_due().await;
    }
    // The first loss makes it a suspect and is not its end.
    let claimed = queue.claim_one(runner, kind).await;
    assert!(claimed.token.0 > last);
    last = claimed.token.0;
    queue.expire(runner, 1.0).await;
    queue.database.reap(LEASE).await.unwrap();
    assert_eq!(queue.live(id).await.unwrap()["token"], last);
    runner = queue.runner().await;
    let claimed = queue.claim_one(runner, kind).await;
    assert!(claimed.token.0 > last);
    queue.settle(runner, ended(&claimed, "ok", Next::Finish(JobState::Completed))).await;
    assert_eq!(queue.ended(id).await.unwrap()["token"], claimed.token.0);
}

#[tokio::test]
async fn a_lane_of_a_queue_that_the_runner_does_not_serve_gives_nothing() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    queue.job("work").await;
    for (queues, jobs) in [(vec!["mail".to_owned()], 0), (vec!["default".to_owned()], 1)] {
        let claimant = Claimant { runner, queues: Some(&queues) };
        let claimed =
            queue.database.claim(claimant, &next_claim(), &[lane(kind, 5)]).await.unwrap();
        assert_eq!(claimed.len(), jobs, "{queues:?}");
    }
}

#[tokio::test]
async fn a_lane_that_is_named_twice_gives_each_job_once() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    let ids = queue.jobs("work", 3).await;
    let number = next_claim();
    let lanes = [lane(kind, 2), lane(kind, 2)];
    let claimed = queue.database.claim(runner, &number, &lanes).await.unwrap();
    assert_eq!(claimed.iter().map(|job| job.id).collect::<Vec<_>>(), ids[..2]);
    let again = queue.database.reclaim(runner, number.number).await.unwrap();
    assert_eq!(again.iter().map(|job| job.id).collect::<Vec<_>>(), ids[..2]);
    assert_eq!(queue.claim(runner, kind, 9).await.len(), 1);
}
