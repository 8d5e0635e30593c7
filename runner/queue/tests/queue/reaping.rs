//! The reaper: whose lease is over, and what becomes of the jobs.

use std::time::Duration;

use serde_json::json;
use stokehold_domain::{JobId, JobState, RunnerId};
use stokehold_queue::runners::{Beat, LeaseConnection};
use stokehold_queue::{Horizon, Reaped, reaper};
use tokio::task::JoinSet;

use crate::support::{LEASE, PATIENCE, Queue, registration, retried};

async fn runner_state(queue: &Queue, runner: RunnerId) -> String {
    queue.value(format!("select state from stokehold.runners where id = {runner}")).await
}

/// What the job has lost, after the runner that holds it died.
async fn lost(queue: &Queue, id: JobId) -> i64 {
    queue.live(id).await.unwrap()["lost"].as_i64().unwrap()
}

#[tokio::test]
async fn a_dead_runners_jobs_are_available_again_and_no_attempt_is_burnt() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    let ids = queue.jobs("work", 3).await;
    let before = queue.live(ids[0]).await.unwrap();
    let claimed = queue.claim(runner, kind, 2).await;
    queue.expire(runner, 0.01).await;
    let reaped = queue.database.reap(LEASE).await.unwrap();
    assert_eq!(reaped, Reaped { runners: 1, available: 2, discarded: 0 });
    assert_eq!(runner_state(&queue, runner).await, "dead");
    let after = queue.live(ids[0]).await.unwrap();
    assert_eq!(after["state"], "available");
    assert_eq!(json!([after["attempt"], after["lost"]]), json!([0, 1]));
    assert_eq!(json!([after["runner_id"], after["started_at"]]), json!([null, null]));
    assert_eq!(after["token"], claimed[0].token.0);
    // It stands behind the one that waited all along.
    let waited = queue.live(ids[2]).await.unwrap();
    assert!(after["position"].as_i64() > waited["position"].as_i64());
    assert!(after["position"].as_i64() > before["position"].as_i64());
    let attempts = queue.database.attempts(ids[0]).await.unwrap();
    assert_eq!(attempts.len(), 1);
    assert_eq!(attempts[0].outcome.as_deref(), Some("node.lost"));
    assert_eq!((attempts[0].attempt, attempts[0].runner), (1, Some(runner)));
    assert!(attempts[0].problem.is_some());
    // A second sweep finds nothing.
    assert_eq!(queue.database.reap(LEASE).await.unwrap(), Reaped::default());
}

#[tokio::test]
async fn a_live_runners_job_is_left_alone_however_long_it_runs() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    queue.job("work").await;
    queue.claim_one(runner, kind).await;
    queue.run("update stokehold.claims set claimed_at = claimed_at - interval '30 days'").await;
    queue.run("update stokehold.runners set beat_at = beat_at - interval '1 hour'").await;
    let before = queue.everything().await;
    assert_eq!(queue.database.reap(LEASE).await.unwrap(), Reaped::default());
    assert_eq!(queue.everything().await, before);
    assert_eq!(runner_state(&queue, runner).await, "live");
}

#[tokio::test]
async fn a_beat_renews_a_lease_and_never_wakes_the_dead() {
    let queue = Queue::new().await;
    let mut lease = LeaseConnection::new(&queue.database, LEASE);
    let runner = queue.runner().await;
    queue.expire(runner, 1.0).await;
    // Over, but not yet swept: a beat is in time.
    assert_eq!(lease.beat(runner, PATIENCE).await.unwrap(), Beat::Alive);
    assert_eq!(queue.database.reap(LEASE).await.unwrap(), Reaped::default());
    queue.expire(runner, 1.0).await;
    queue.database.reap(LEASE).await.unwrap();
    assert_eq!(lease.beat(runner, PATIENCE).await.unwrap(), Beat::Dead);
    assert_eq!(runner_state(&queue, runner).await, "dead");
    let stopped = queue.runner().await;
    queue.database.stop_runner(stopped).await.unwrap();
    assert_eq!(lease.beat(stopped, PATIENCE).await.unwrap(), Beat::Dead);
    assert_eq!(lease.beat(RunnerId(i64::MAX), PATIENCE).await.unwrap(), Beat::Dead);
}

#[tokio::test]
async fn a_runner_that_is_drained_hears_so_with_every_beat() {
    let queue = Queue::new().await;
    let mut lease = LeaseConnection::new(&queue.database, LEASE);
    let (runner, other) = (queue.runner().await, queue.runner().await);
    assert_eq!(queue.database.drain(&runner.to_string()).await.unwrap(), [runner]);
    for _ in 0..2 {
        assert_eq!(lease.beat(runner, PATIENCE).await.unwrap(), Beat::Drain);
        assert_eq!(lease.beat(other, PATIENCE).await.unwrap(), Beat::Alive);
    }
    // By name it is all of that name that live.
    queue.database.stop_runner(runner).await.unwrap();
    assert_eq!(queue.database.drain("test").await.unwrap(), [other]);
    assert_eq!(queue.database.drain(&runner.to_string()).await.unwrap(), []);
}

#[tokio::test]
async fn the_lease_is_as_long_as_the_runner_said() {
    let queue = Queue::new().await;
    let short = registration(Duration::from_millis(50));
    let runner = queue.database.register_runner(&short).await.unwrap();
    queue
        .until(format!(
            "select lease_expires_at < clock_timestamp() from stokehold.runners where id = {runner}"
        ))
        .await;
    assert!(queue.database.tick(&mut Horizon::default(), None).await.unwrap().dead_runners);
    assert_eq!(queue.database.reap(LEASE).await.unwrap().runners, 1);
    assert!(!queue.database.tick(&mut Horizon::default(), None).await.unwrap().dead_runners);
}

#[tokio::test]
async fn only_the_loss_of_the_suspect_counts_on_and_the_third_discards() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let ids = queue.jobs("work", 2).await;
    let (killer, bystander) = (ids[0], ids[1]);
    for losses in 1..=2 {
        let runner = queue.runner().await;
        let claimed = queue.claim(runner, kind, 2).await;
        assert_eq!(claimed.len(), 2);
        queue.database.mark_suspect(runner, Some(killer)).await.unwrap();
        queue.expire(runner, 1.0).await;
        queue.database.reap(LEASE).await.unwrap();
        assert_eq!(lost(&queue, killer).await, losses);
        assert_eq!(lost(&queue, bystander).await, 1);
    }
    let runner = queue.runner().await;
    let claimed = queue.claim(runner, kind, 2).await;
    assert_eq!(claimed.iter().map(|job| job.lost).max(), Some(2));
    queue.database.mark_suspect(runner, Some(killer)).await.unwrap();
    queue.expire(runner, 1.0).await;
    let reaped = queue.database.reap(LEASE).await.unwrap();
    assert_eq!(reaped, Reaped { runners: 1, available: 1, discarded: 1 });
    assert_eq!(lost(&queue, bystander).await, 1);
    let record = queue.database.job(killer).await.unwrap().unwrap();
    assert_eq!(record.summary.state, JobState::Discarded);
    assert_eq!(record.summary.outcome.as_deref(), Some("node.lost"));
    assert_eq!(i32::from(record.summary.lost), reaper::MAX_LOST);
    let problem = record.problem.unwrap();
    assert!(problem.message.contains("3 runners died"), "{}", problem.message);
    assert!(problem.advice.is_some());
    // Every loss is on record, the last one once.
    let attempts = queue.database.attempts(killer).await.unwrap();
    assert_eq!(attempts.len(), 3);
    assert!(attempts.iter().all(|attempt| attempt.outcome.as_deref() == Some("node.lost")));
}

#[tokio::test]
async fn a_suspect_that_was_cleared_is_not_blamed() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let id = queue.job("work").await;
    for _ in 0..4 {
        let runner = queue.runner().await;
        queue.claim_one(runner, kind).await;
        queue.database.mark_suspect(runner, Some(id)).await.unwrap();
        queue.database.mark_suspect(runner, None).await.unwrap();
        queue.expire(runner, 1.0).await;
        queue.database.reap(LEASE).await.unwrap();
        assert_eq!(lost(&queue, id).await, 1);
    }
}

#[tokio::test]
async fn when_most_runners_expire_at_once_the_sweep_waits_one_more_lease() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    queue.jobs("work", 5).await;
    let mut runners = Vec::new();
    for _ in 0..5 {
        let runner = queue.runner().await;
        queue.claim(runner, kind, 1).await;
        runners.push(runner);
    }
    for runner in &runners {
        queue.expire(*runner, 1.0).await;
    }
    let before = queue.everything().await;
    assert_eq!(queue.database.reap(LEASE).await.unwrap(), Reaped::default());
    assert_eq!(queue.everything().await, before);
    assert!(queue.database.tick(&mut Horizon::default(), None).await.unwrap().dead_runners);
    for runner in &runners {
        queue.expire(*runner, LEASE.as_secs_f64() + 1.0).await;
    }
    let reaped = queue.database.reap(LEASE).await.unwrap();
    assert_eq!(reaped, Reaped { runners: 5, available: 5, discarded: 0 });
}

#[tokio::test]
async fn two_runners_or_three_in_ten_are_believed_dead_at_once() {
    let queue = Queue::new().await;
    let two = [queue.runner().await, queue.runner().await];
    for runner in two {
        queue.expire(runner, 0.01).await;
    }
    assert_eq!(queue.database.reap(LEASE).await.unwrap().runners, 2);
    for (dying, taken) in [(3, 3), (4, 0)] {
        queue.run("delete from stokehold.runners").await;
        for n in 0..10 {
            let runner = queue.runner().await;
            if n < dying {
                queue.expire(runner, 0.01).await;
            }
        }
        assert_eq!(queue.database.reap(LEASE).await.unwrap().runners, taken);
    }
}

#[tokio::test]
async fn what_a_stopped_runner_still_holds_is_given_back() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    queue.jobs("work", 2).await;
    queue.claim(runner, kind, 2).await;
    queue.database.stop_runner(runner).await.unwrap();
    assert_eq!(runner_state(&queue, runner).await, "stopped");
    assert!(queue.database.tick(&mut Horizon::default(), None).await.unwrap().dead_runners);
    let reaped = queue.database.reap(LEASE).await.unwrap();
    assert_eq!(reaped, Reaped { runners: 0, available: 2, discarded: 0 });
    assert!(!queue.database.tick(&mut Horizon::default(), None).await.unwrap().dead_runners);
    assert_eq!(runner_state(&queue, runner).await, "stopped");
}

#[tokio::test]
async fn jobs_are_given_back_however_long_nobody_looked() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    queue.jobs("work", 2).await;
    let (stopped, dead) = (queue.runner().await, queue.runner().await);
    queue.claim(stopped, kind, 1).await;
    queue.claim(dead, kind, 1).await;
    queue.database.stop_runner(stopped).await.unwrap();
    // Found dead by a node that died in turn before it gave the job back; then a long weekend.
    queue
        .run(
            "update stokehold.runners set state = case when state = 'live' then 'dead' else state end,
               ended_at = clock_timestamp() - interval '4 days'",
        )
        .await;
    assert!(queue.database.tick(&mut Horizon::default(), None).await.unwrap().dead_runners);
    let reaped = queue.database.reap(LEASE).await.unwrap();
    assert_eq!(reaped, Reaped { runners: 0, available: 2, discarded: 0 });
    assert!(!queue.database.tick(&mut Horizon::default(), None).await.unwrap().dead_runners);
}

#[tokio::test]
async fn rows_of_runners_that_ended_long_ago_and_hold_nothing_go_when_one_registers() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    queue.job("work").await;
    let (holds, old, young) = (queue.runner().await, queue.runner().await, queue.runner().await);
    queue.claim_one(holds, kind).await;
    for (runner, age) in [(holds, "4 days"), (old, "25 hours"), (young, "23 hours")] {
        queue
            .run(format!(
                "update stokehold.runners set state = 'dead',
                   ended_at = clock_timestamp() - interval '{age}' where id = {runner}"
            ))
            .await;
    }
    let new = queue.runner().await;
    let left: Vec<i64> =
        queue.value("select array_agg(id order by id) from stokehold.runners").await;
    assert_eq!(left, [holds.0, young.0, new.0]);
    queue.database.reap(LEASE).await.unwrap();
    queue.runner().await;
    assert_eq!(queue.value::<i64>("select count(*) from stokehold.runners").await, 3);
}

#[tokio::test]
async fn sweeps_that_meet_give_each_job_back_once() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let (one, two) = (queue.runner().await, queue.runner().await);
    queue.jobs("work", 300).await;
    queue.claim(one, kind, 150).await;
    queue.claim(two, kind, 150).await;
    queue.expire(one, 1.0).await;
    queue.expire(two, 1.0).await;
    let mut sweeps = JoinSet::new();
    for _ in 0..8 {
        let database = queue.database.clone();
        sweeps.spawn(async move { database.reap(LEASE).await.unwrap() });
    }
    let swept = sweeps.join_all().await;
    assert_eq!(swept.iter().map(|sweep| sweep.runners).sum::<i64>(), 2);
    assert_eq!(swept.iter().map(|sweep| sweep.available).sum::<i64>(), 300);
    let once: i64 = queue
        .value("select count(*) from stokehold.jobs where state = 'available' and lost = 1 and attempt = 0")
        .await;
    assert_eq!(once, 300);
    assert_eq!(queue.value::<i64>("select count(*) from stokehold.job_attempts").await, 300);
}

#[tokio::test]
async fn one_sweep_gives_back_more_than_a_page() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    queue.jobs("work", 2_100).await;
    assert_eq!(queue.claim(runner, kind, 2_100).await.len(), 2_100);
    queue.expire(runner, 1.0).await;
    assert_eq!(queue.database.reap(LEASE).await.unwrap().available, 2_100);
}

#[tokio::test]
async fn a_job_that_is_neither_ready_nor_held_is_made_ready_and_nothing_else_is_touched() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    let ids = queue.jobs("work", 5).await;
    let claimed = queue.claim(runner, kind, 2).await;
    queue.settle(runner, retried(&claimed[1], Duration::from_secs(60))).await;
    let before = queue.everything().await;
    assert_eq!(queue.database.restore_strays().await.unwrap(), 0);
    assert_eq!(queue.everything().await, before);
    // One loses its ready row, one its claim.
    queue.run(format!("delete from stokehold.ready where job_id = {}", ids[3])).await;
    queue.run("delete from stokehold.claims").await;
    let (one, two) = tokio::join!(queue.database.restore_strays(), queue.database.restore_strays());
    assert_eq!(one.unwrap() + two.unwrap(), 2, "each once, however many look");
    let mut again: Vec<JobId> =
        queue.claim(runner, kind, 9).await.iter().map(|job| job.id).collect();
    again.sort_unstable();
    assert_eq!(again, [ids[0], ids[2], ids[3], ids[4]]);
}

#[tokio::test]
async fn of_many_nodes_one_looks_for_strays_and_not_again_for_a_while() {
    let queue = Queue::new().await;
    let hour = Duration::from_secs(3_600);
    let turn = || queue.database.is_turn_for_strays(hour);
    assert!(!turn().await.unwrap(), "not in the first hour");
    queue
        .run("update stokehold.settings set strays_sought_at = now() - interval '61 minutes'")
        .await;
    let (a, b, c) = tokio::join!(turn(), turn(), turn());
    let turns = [a, b, c].into_iter().filter(|turn| *turn.as_ref().unwrap()).count();
    assert_eq!(turns, 1);
    assert!(!turn().await.unwrap());
}
