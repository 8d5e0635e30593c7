//! Unique jobs: of which others a job is a duplicate, and what becomes of it.

use std::time::Duration;

use chrono::{TimeDelta, Utc};
use serde_json::{Value, json};
use stokehold_domain::{Blob, JobId, JobOptions, JobState, Next, Unique, UniqueMode};
use stokehold_queue::{CancelAnswer, Enqueued, NewJob, RefusalCode, Retried, Retry};

use crate::support::{Queue, completed, ended, job, refusal, retried};
use Enqueued::{Existing, Inserted, Replaced};

fn keyed(key: &str) -> Unique {
    Unique { key: Some(key.into()), ..Unique::default() }
}

fn unique(kind: &str, unique: Unique) -> NewJob {
    NewJob { options: JobOptions { unique: Some(unique), ..JobOptions::default() }, ..job(kind) }
}

fn with_payload(job: NewJob, payload: Value) -> NewJob {
    NewJob { payload: Blob::json(payload.to_string()), ..job }
}

impl Queue {
    async fn enqueue_one(&self, job: NewJob) -> Enqueued {
        self.database.enqueue_all(&[job]).await.unwrap()[0]
    }
}

#[tokio::test]
async fn a_key_is_held_in_every_state_before_the_end_and_free_after_it() {
    let queue = Queue::new().await;
    let (work, _other) = (queue.kind("work").await, queue.kind("other").await);
    let runner = queue.runner().await;
    let wish = || unique("work", keyed("a"));
    let Inserted(id) = queue.enqueue_one(wish()).await else { panic!("it is the first") };
    // Another key, and the same of another kind, are other keys.
    assert!(matches!(queue.enqueue_one(unique("other", keyed("a"))).await, Inserted(_)));
    let b = queue.enqueue_one(unique("work", keyed("b"))).await.id();
    queue.database.cancel(b, "").await.unwrap();
    // Available, running, retryable, scheduled.
    assert_eq!(queue.enqueue_one(wish()).await, Existing(id));
    let claimed = queue.claim_one(runner, work).await;
    assert_eq!(queue.enqueue_one(wish()).await, Existing(id));
    queue.settle(runner, retried(&claimed, Duration::from_secs(60))).await;
    assert_eq!(queue.enqueue_one(wish()).await, Existing(id));
    queue.release_due().await;
    let claimed = queue.claim_one(runner, work).await;
    queue.settle(runner, ended(&claimed, "s", Next::Snooze(Duration::from_secs(60)))).await;
    assert_eq!(queue.enqueue_one(wish()).await, Existing(id));
    queue.release_due().await;
    // However it ends.
    for end in [JobState::Completed, JobState::Discarded, JobState::Cancelled] {
        let claimed = queue.claim_one(runner, work).await;
        queue.settle(runner, ended(&claimed, "e", Next::Finish(end))).await;
        let made = queue.enqueue_one(wish()).await;
        assert!(matches!(made, Inserted(new) if new > claimed.id), "{end}: {made:?}");
    }
    assert_eq!(queue.live_jobs().await, 2);
}

#[tokio::test]
async fn states_and_a_period_say_how_long_a_key_is_held() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    // One that runs does not stand in the way of the next.
    let waiting =
        || unique("work", Unique { states: Some(vec![JobState::Available]), ..keyed("w") });
    let first = queue.enqueue_one(waiting()).await.id();
    assert_eq!(queue.enqueue_one(waiting()).await, Existing(first));
    let claimed = queue.claim_one(runner, kind).await;
    let Inserted(second) = queue.enqueue_one(waiting()).await else { panic!("the first runs") };
    // The first comes back, finds its key taken, and goes on without it.
    queue.settle(runner, retried(&claimed, Duration::ZERO)).await;
    queue.release_due().await;
    assert_eq!(queue.enqueue_one(waiting()).await, Existing(second));
    assert_eq!(queue.claim(runner, kind, 9).await.len(), 2);

    // An ended one, for as long as there is a record of it.
    let once = || unique("work", Unique { states: Some(vec![JobState::Completed]), ..keyed("o") });
    let id = queue.enqueue_one(once()).await.id();
    assert!(matches!(queue.enqueue_one(once()).await, Inserted(_)), "neither is completed");
    let mut claimed = queue.claim(runner, kind, 9).await;
    claimed.sort_by_key(|job| job.id);
    assert_eq!(claimed[0].id, id);
    queue.settle(runner, completed(&claimed[1])).await;
    assert_eq!(queue.enqueue_one(once()).await, Existing(claimed[1].id));

    // A while, whatever becomes of it.
    let daily = || unique("work", Unique { for_ms: Some(60_000), ..keyed("d") });
    let id = queue.enqueue_one(daily()).await.id();
    queue.database.cancel(id, "").await.unwrap();
    assert_eq!(queue.enqueue_one(daily()).await, Existing(id));
    queue
        .run("update stokehold.unique_keys set held_until = clock_timestamp() where key = 'd'")
        .await;
    assert!(matches!(queue.enqueue_one(daily()).await, Inserted(new) if new > id));
}

#[tokio::test]
async fn fields_of_the_payload_make_a_key_that_knows_how_json_is_equal() {
    let queue = Queue::new().await;
    queue.kind("work").await;
    let by = |payload: &str| {
        let fields = Some(vec!["customer".into(), "order.id".into()]);
        let job = unique("work", Unique { fields, ..Unique::default() });
        NewJob { payload: Blob::json(payload.to_owned()), ..job }
    };
    let first = queue
        .enqueue_one(by(r#"{"customer": {"a": 1, "b": [2.50, "é"]}, "order": {"id": 7}}"#))
        .await;
    let same = r#"{"order":{"id":7.0,"x":1},"other":true,"customer":{"b":[2.5,"\u00e9"],"a":1e0}}"#;
    assert_eq!(queue.enqueue_one(by(same)).await, Existing(first.id()));
    let mut ids = vec![first.id()];
    for other in [
        r#"{"customer": {"a": 1, "b": ["é", 2.5]}, "order": {"id": 7}}"#,
        r#"{"customer": {"a": 1, "b": [2.5, "é"]}, "order": {"id": "7"}}"#,
        r#"{"customer": {"a": 1, "b": [2.5, "é"]}, "order": {"id": null}}"#,
        r#"{"customer": {"a": 1, "b": [2.5, "é"]}, "order": {}}"#,
        "{}",
        "[1]",
        "null",
    ] {
        match queue.enqueue_one(by(other)).await {
            Inserted(id) => ids.push(id),
            // Neither has any of the fields.
            Existing(id) if other == "[1]" || other == "null" => assert_eq!(Some(&id), ids.last()),
            answer => panic!("{other}: {answer:?}"),
        }
    }
    assert_eq!(ids.len(), 6);
    // Of what is not JSON there are no fields.
    for payload in [
        Blob { media_type: "image/png".into(), bytes: b"{}".to_vec() },
        Blob { media_type: "application/json".into(), bytes: vec![0xff] },
    ] {
        let wish = NewJob { payload, ..by("{}") };
        let (code, message) = refusal(queue.database.enqueue(&[wish]).await);
        assert_eq!(code, RefusalCode::Invalid);
        assert_eq!(message, "job 1: unique.fields needs a payload of JSON");
    }
}

#[tokio::test]
async fn a_duplicate_is_refused_or_takes_the_place_of_the_other_if_that_is_said() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    let mode = |mode| unique("work", Unique { mode, ..keyed("k") });
    let id = queue.enqueue_one(with_payload(mode(UniqueMode::Existing), json!(1))).await.id();
    let everything = queue.everything().await;
    let jobs = [job("work"), mode(UniqueMode::Reject)];
    let (code, message) = refusal(queue.database.enqueue(&jobs).await);
    assert_eq!(code, RefusalCode::Conflict);
    assert_eq!(message, format!("job 2: job {id} of kind 'work' has the unique key already"));
    assert_eq!(queue.everything().await, everything, "all of it or nothing");

    let later = Utc::now() + TimeDelta::hours(1);
    let replace = |mode_: UniqueMode, payload| NewJob {
        run_at: Some(later),
        priority: Some(-3),
        metadata: Some(json!({"from": "second"})),
        ..with_payload(mode(mode_), payload)
    };
    assert_eq!(queue.enqueue_one(replace(UniqueMode::Replace, json!(2))).await, Replaced(id));
    let record = queue.database.job(id).await.unwrap().unwrap();
    assert_eq!(
        (record.payload, record.metadata),
        (Blob::json("2"), Some(json!({"from": "second"})))
    );
    assert_eq!((record.summary.state, record.summary.priority), (JobState::Available, -3));
    // Debouncing moves its time, each time.
    assert_eq!(queue.enqueue_one(replace(UniqueMode::Debounce, json!(3))).await, Replaced(id));
    let record = queue.database.job(id).await.unwrap().unwrap();
    assert_eq!(record.summary.state, JobState::Scheduled);
    assert_eq!(record.summary.run_at.timestamp_millis(), later.timestamp_millis());
    assert_eq!(
        queue.enqueue_one(with_payload(mode(UniqueMode::Debounce), json!(4))).await,
        Replaced(id)
    );
    assert_eq!(queue.state(id).await, JobState::Available);
    // What runs is not changed.
    let lanes = [stokehold_queue::LaneQuota { priority: -3, ..crate::support::lane(kind, 5) }];
    let claimed =
        queue.database.claim(runner, &crate::support::next_claim(), &lanes).await.unwrap();
    assert_eq!((claimed.len(), &claimed[0].payload), (1, &Blob::json("4")));
    assert_eq!(queue.enqueue_one(replace(UniqueMode::Replace, json!(5))).await, Existing(id));
    assert_eq!(queue.live_jobs().await, 1);
}

#[tokio::test]
async fn in_one_call_the_first_of_a_key_is_made_and_the_others_are_its_duplicates() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    let before = queue.enqueue_one(unique("work", keyed("gone"))).await.id();
    let claimed = queue.claim_one(runner, kind).await;
    queue.settle(runner, completed(&claimed)).await;
    let replacing = Unique { mode: UniqueMode::Replace, ..keyed("b") };
    let jobs = [
        unique("work", keyed("b")),
        job("work"),
        unique("work", keyed("a")),
        unique("work", keyed("b")),
        unique("work", keyed("gone")),
        with_payload(unique("work", replacing), json!("last")),
        unique("work", keyed("gone")),
        job("work"),
    ];
    let made = queue.database.enqueue_all(&jobs).await.unwrap();
    let ids: Vec<JobId> = made.iter().map(|made| made.id()).collect();
    assert_eq!(
        made,
        [
            Inserted(ids[0]),
            Inserted(ids[1]),
            Inserted(ids[2]),
            Existing(ids[0]),
            Inserted(ids[4]),
            Replaced(ids[0]),
            Existing(ids[4]),
            Inserted(ids[7]),
        ]
    );
    assert!(ids.iter().all(|id| *id > before));
    let record = queue.database.job(ids[0]).await.unwrap().unwrap();
    assert_eq!(record.payload, Blob::json("\"last\""));
    assert_eq!(queue.live_jobs().await, 5);
    assert_eq!(queue.claim(runner, kind, 9).await.len(), 5);
}

#[tokio::test]
async fn of_many_at_once_one_is_made_whatever_their_order() {
    let queue = Queue::new().await;
    queue.kind("work").await;
    for round in 0..5 {
        let keys: Vec<String> = (0..20).map(|n| format!("{round}-{n}")).collect();
        let calls = (0..8).map(|caller| {
            let database = queue.pool_of(2, Duration::from_secs(20));
            let mut keys = keys.clone();
            // Each in an order of its own: nobody waits in a circle.
            keys.rotate_left(caller * 3 % 20);
            if caller % 2 == 1 {
                keys.reverse();
            }
            async move {
                let jobs: Vec<NewJob> = keys.iter().map(|key| unique("work", keyed(key))).collect();
                let made = database.enqueue_all(&jobs).await.unwrap();
                keys.into_iter().zip(made).collect::<Vec<_>>()
            }
        });
        let mut answers: Vec<(String, Enqueued)> =
            futures_join(calls).await.into_iter().flatten().collect();
        answers.sort_by_key(|(key, made)| (key.clone(), made.id()));
        for of_a_key in answers.chunk_by(|a, b| a.0 == b.0) {
            let ids: Vec<JobId> = of_a_key.iter().map(|(_, made)| made.id()).collect();
            assert_eq!(ids, [ids[0]; 8]);
            let made = of_a_key.iter().filter(|(_, made)| matches!(made, Inserted(_))).count();
            assert_eq!(made, 1);
        }
        assert_eq!(queue.live_jobs().await, 20 * (round + 1));
    }
}

async fn futures_join<F>(calls: impl Iterator<Item = F>) -> Vec<F::Output>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    let mut tasks: tokio::task::JoinSet<F::Output> = calls.collect();
    let mut outputs = Vec::new();
    while let Some(output) = tasks.join_next().await {
        outputs.push(output.unwrap());
    }
    outputs
}

#[tokio::test]
async fn whoever_asks_meanwhile_waits_for_what_becomes_of_the_other() {
    let queue = Queue::new().await;
    queue.kind("work").await;
    let sql = r#"select stokehold.enqueue('work', options => '{"unique": {"key": "k"}}')"#;
    for commits in [false, true] {
        let mut caller = queue.pool.begin().await.unwrap();
        let first: i64 = sqlx::query_scalar(sql).fetch_one(&mut *caller).await.unwrap();
        let (pool, database) = (queue.pool.clone(), &queue);
        let other =
            tokio::spawn(async move { sqlx::query_scalar::<_, i64>(sql).fetch_one(&pool).await });
        database.until_blocked(1).await;
        if commits {
            caller.commit().await.unwrap();
            assert_eq!(other.await.unwrap().unwrap(), first);
        } else {
            caller.rollback().await.unwrap();
            let second = other.await.unwrap().unwrap();
            assert!(second != first);
            queue.database.cancel(JobId(second), "").await.unwrap();
        }
    }
    assert_eq!(queue.live_jobs().await, 1);
}

#[tokio::test]
async fn a_retried_job_has_its_key_again_unless_another_has_it_by_now() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    // Held by itself for a while yet: that does not stand in its own way.
    let wish = || unique("work", Unique { for_ms: Some(600_000), ..keyed("k") });
    let old = queue.enqueue_one(wish()).await.id();
    let claimed = queue.claim_one(runner, kind).await;
    queue.settle(runner, ended(&claimed, "e", Next::Finish(JobState::Discarded))).await;
    let Retried::As(new) = queue.database.retry(old, &Retry::default()).await.unwrap() else {
        panic!("the key is its own")
    };
    assert_eq!(queue.enqueue_one(wish()).await, Existing(new));
    queue.database.cancel(new, "").await.unwrap();
    queue.run("update stokehold.unique_keys set held_until = null").await;
    let Inserted(other) = queue.enqueue_one(wish()).await else { panic!("it is free") };
    let held = queue.database.retry(new, &Retry::default()).await.unwrap();
    assert_eq!(held, Retried::Held(other));
    assert_eq!(queue.database.job(new).await.unwrap().unwrap().retried_as, None);
    let (code, message) = queue.refused(format!("select stokehold.retry({new})")).await;
    assert_eq!(
        (code.as_str(), message),
        ("SH409", format!("job {other} has the unique key of job {new}"))
    );
    // And later it is free again.
    assert_eq!(queue.database.cancel(other, "").await.unwrap(), CancelAnswer::Cancelled);
    queue.run("update stokehold.unique_keys set held_until = null").await;
    assert!(matches!(queue.database.retry(new, &Retry::default()).await.unwrap(), Retried::As(_)));
}

#[tokio::test]
async fn keys_that_nobody_holds_are_swept_and_the_others_stay() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    let states = Some(vec![JobState::Completed]);
    for wish in [
        keyed("ended"),
        Unique { for_ms: Some(600_000), ..keyed("for a while") },
        Unique { states, ..keyed("on record") },
    ] {
        queue.enqueue_one(unique("work", wish)).await;
    }
    let claimed = queue.claim(runner, kind, 9).await;
    for job in &claimed {
        queue.settle(runner, completed(job)).await;
    }
    queue.enqueue_one(unique("work", keyed("lives"))).await;
    for n in 0..2_500 {
        let sql = format!("insert into stokehold.unique_keys values ({kind}, 'old {n}', 0)");
        queue.run(sql).await;
    }
    assert_eq!(queue.database.sweep_keys().await.unwrap(), 2_501);
    let left: Vec<String> =
        queue.value("select array_agg(key order by key) from stokehold.unique_keys").await;
    assert_eq!(left, ["for a while", "lives", "on record"]);
    assert_eq!(queue.database.sweep_keys().await.unwrap(), 0);
    assert!(queue.database.is_turn_for_keys(Duration::ZERO).await.unwrap());
    assert!(!queue.database.is_turn_for_keys(Duration::from_secs(60)).await.unwrap());
    assert!(queue.database.is_turn_for_keys(Duration::ZERO).await.unwrap());
}
