//! Turns: settling and claiming in one call, with the guards of each.

use std::time::Duration;

use serde_json::{Value, json};
use stokehold_domain::{Blob, JobState, Next, Problem};
use stokehold_queue::{ClaimNumber, Claimant, Claimed, Ended, Fate, LaneQuota, NewJob, Plans};

use crate::settling::lines;
use crate::support::{Queue, completed, ended, job, lane, next_claim, retried, under};

const FUNCTION: &str = include_str!("../../../../migrations/0017_ends.sql");
const FINISH: &str = include_str!("../../src/sql/finish.sql");
const CLAIM: &str = include_str!("../../src/sql/claim.sql");

/// A statement without comments and breaks, up to its last part, which says what is returned.
fn plain(statement: &str, last: &str) -> String {
    let lines = statement.lines().filter(|line| !line.trim_start().starts_with("--"));
    let words: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
    let text = words.join(" ");
    text[..text.rfind(last).expect("it returns something")].to_owned()
}

#[test]
fn the_function_has_the_statements_that_stand_by_themselves() {
    let function = plain(FUNCTION, "$$;");
    assert!(function.contains(&plain(FINISH, "select id, token from written")));
    // The claim's parameters follow those of the outcomes; both begin with the runner.
    let mut claim = plain(CLAIM, "select job.id as");
    for parameter in 2..=8 {
        claim = claim.replace(&format!("${parameter}"), &format!("$+{}", parameter + 13));
    }
    let claim = claim.replace("$+", "$");
    assert!(function.contains(&claim), "{claim}");
}

#[tokio::test]
async fn a_turn_settles_and_claims_and_neither_depends_on_the_other() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    let ids = queue.jobs("work", 5).await;
    let first = queue.claim(runner, kind, 2).await;
    let result = Some(Blob { media_type: "a/b".into(), bytes: vec![0, 255] });
    let outcomes = [Ended { result, ..completed(&first[1]) }, completed(&first[0])];
    assert!(outcomes.iter().all(Ended::fits_a_turn));
    let number = next_claim();
    let lanes = [lane(kind, 2)];
    let turn = queue.database.turn(runner, &outcomes, &number, &lanes).await.unwrap();
    assert_eq!(turn.applied, [true, true]);
    assert_eq!(turn.claimed.iter().map(|job| job.id).collect::<Vec<_>>(), ids[2..4]);
    assert!(turn.claimed[0].token > first[0].token);
    assert_eq!((turn.claimed[0].attempt, turn.claimed[0].claim), (1, number.number));
    let record = queue.database.job(ids[1]).await.unwrap().unwrap();
    assert_eq!((record.summary.state, record.summary.attempt), (JobState::Completed, 1));
    assert_eq!(record.result.unwrap().bytes, [0, 255]);
    // What was settled before is not settled again; the claim of such a turn counts all the same.
    let turn = queue.database.turn(runner, &outcomes, &next_claim(), &lanes).await.unwrap();
    assert_eq!(turn.applied, [false, false]);
    assert_eq!(turn.claimed.iter().map(|job| job.id).collect::<Vec<_>>(), ids[4..]);
    assert_eq!(queue.database.settle(runner, &outcomes).await.unwrap(), [Fate::AlreadyApplied; 2]);
    // Nothing to settle, nothing to claim.
    let turn = queue.database.turn(runner, &[], &next_claim(), &lanes).await.unwrap();
    assert!(turn.applied.is_empty() && turn.claimed.is_empty());
}

#[tokio::test]
async fn a_turn_refuses_late_outcomes_and_runners_whose_lease_is_over() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    queue.jobs("work", 3).await;
    let job = queue.claim(runner, kind, 1).await.remove(0);
    let before = queue.everything().await;
    let late = [under(completed(&job), job.token.0 - 1), under(completed(&job), job.token.0 + 1)];
    let turn = queue.database.turn(runner, &late, &next_claim(), &[]).await.unwrap();
    assert_eq!(turn.applied, [false, false]);
    assert_eq!(queue.everything().await, before);
    // A lease that is over claims nothing; what it ran is the runner's until a sweep has come.
    queue.expire(runner, 0.001).await;
    let turn =
        queue.database.turn(runner, &[completed(&job)], &next_claim(), &[lane(kind, 5)]).await;
    let turn = turn.unwrap();
    assert_eq!(turn.applied, [true]);
    assert!(turn.claimed.is_empty());
}

#[tokio::test]
async fn a_turn_of_one_leaves_the_same_record_as_settling_and_claims_the_same() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    let spec = NewJob {
        priority: Some(0),
        max_attempts: Some(9),
        metadata: Some(json!({"of": "us"})),
        payload: Blob { media_type: "a/b".into(), bytes: vec![0, 255] },
        ..job("work")
    };
    queue.database.enqueue(&vec![spec; 4]).await.unwrap();
    let held = queue.claim(runner, kind, 2).await;
    let worst = |job: &Claimed| Ended {
        result: Some(Blob { media_type: "c/d".into(), bytes: vec![254] }),
        problem: Some(Problem::new("it broke")),
        ..ended(job, "handler.permanent", Next::Finish(JobState::Discarded))
    };
    let number = next_claim();
    let turn = queue.database.turn(runner, &[worst(&held[0])], &number, &[lane(kind, 1)]).await;
    let turn = turn.unwrap();
    assert_eq!(turn.applied, [true]);
    assert_eq!(queue.settle(runner, worst(&held[1])).await, Fate::Applied);
    let next = queue.claim_one(runner, kind).await;
    let mut records = queue.rows("select * from stokehold.job_history order by id").await;
    for record in &mut records {
        for differs in ["id", "finished_at", "enqueued_at", "run_at"] {
            assert!(record[differs].take() != Value::Null, "{differs}");
        }
    }
    assert_eq!(records[0], records[1]);
    // What is claimed is the same too, but for which job it is.
    let (ours, other) = (&turn.claimed[0], &next);
    assert_eq!(turn.claimed.len(), 1);
    assert_eq!((ours.kind_id, ours.release, ours.attempt), (kind, other.release, 1));
    assert_eq!((&ours.payload, &ours.metadata), (&other.payload, &other.metadata));
    assert_eq!((ours.max_attempts, ours.priority, ours.lost), (9, 0, 0));
    assert!(held[1].token < ours.token && ours.token < other.token && ours.id < other.id);
}

#[tokio::test]
async fn a_turn_for_one_job_keeps_to_the_queues_served_and_to_kinds_with_a_release() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    queue.jobs("work", 2).await;
    let queues = ["other".to_owned()];
    let elsewhere = Claimant { runner, queues: Some(&queues) };
    let lanes = [lane(kind, 1)];
    let turn = queue.database.turn(elsewhere, &[], &next_claim(), &lanes).await.unwrap();
    assert!(turn.claimed.is_empty());
    queue.run("update stokehold.kinds set active_release = null").await;
    let turn = queue.database.turn(runner, &[], &next_claim(), &lanes).await.unwrap();
    assert!(turn.claimed.is_empty());
    queue.run("update stokehold.kinds set active_release = 1").await;
    let queues = ["other".to_owned(), "default".to_owned()];
    let here = Claimant { runner, queues: Some(&queues) };
    let turn = queue.database.turn(here, &[], &next_claim(), &lanes).await.unwrap();
    assert_eq!(turn.claimed.len(), 1);
    // From the cursor on.
    let behind = [LaneQuota { after_position: turn.claimed[0].position + 1, ..lanes[0] }];
    let turn = queue.database.turn(runner, &[], &next_claim(), &behind).await.unwrap();
    assert!(turn.claimed.is_empty());
}

#[tokio::test]
async fn a_turn_forgets_claims_that_are_answered_and_is_one_that_can_be_asked_for() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    queue.jobs("work", 2).await;
    let first = next_claim();
    let job = queue.database.claim(runner, &first, &[lane(kind, 1)]).await.unwrap().remove(0);
    let second = ClaimNumber { answered: vec![first.number], ..next_claim() };
    // The outcome of a claim that is forgotten in the same turn: it is written first.
    let turn = queue.database.turn(runner, &[completed(&job)], &second, &[lane(kind, 1)]).await;
    let turn = turn.unwrap();
    assert_eq!(turn.applied, [true]);
    let again = queue.database.reclaim(runner, second.number).await.unwrap();
    assert_eq!(again[0].id, turn.claimed[0].id);
    let claims: i64 = queue.value("select count(*) from stokehold.claims").await;
    assert_eq!(claims, 1);
}

#[tokio::test]
async fn what_is_tried_again_or_brings_a_log_is_not_for_turns() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    queue.job("work").await;
    let job = queue.claim_one(runner, kind).await;
    assert!(completed(&job).fits_a_turn());
    assert!(ended(&job, "handler.permanent", Next::Finish(JobState::Discarded)).fits_a_turn());
    assert!(!retried(&job, Duration::ZERO).fits_a_turn());
    assert!(!Ended { log: lines(&["said"]), ..completed(&job) }.fits_a_turn());
}

#[tokio::test]
async fn turns_of_many_runners_at_once_never_wait_for_each_other_in_a_circle() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let jobs = queue.jobs("work", 400).await;
    let mut runners = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let runner = queue.runner().await;
        let database = stokehold_queue::Database::lazy(stokehold_queue::DatabaseOptions {
            plans: Plans::Kept,
            ..stokehold_queue::DatabaseOptions::new(queue.options.clone())
        });
        runners.spawn(async move {
            let (mut outcomes, mut ran) = (Vec::new(), 0);
            loop {
                let lanes = [lane(kind, 3)];
                let turn = database.turn(runner, &outcomes, &next_claim(), &lanes).await.unwrap();
                assert!(turn.applied.iter().all(|applied| *applied));
                ran += turn.applied.len();
                outcomes = turn.claimed.iter().map(completed).collect::<Vec<Ended>>();
                if outcomes.is_empty() {
                    return ran;
                }
            }
        });
    }
    assert_eq!(runners.join_all().await.iter().sum::<usize>(), jobs.len());
    assert_eq!(queue.live_jobs().await, 0);
}
