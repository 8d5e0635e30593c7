//! What a job says about itself: kept, followed, refused when it is wrong.

use std::time::Duration;

use chrono::{TimeDelta, Utc};
use serde_json::{Value, json};
use stokehold_domain::{Backoff, BackoffForm, Blob, JobId, JobOptions, JobState, Next, Unique};
use stokehold_queue::{
    Enqueued, Horizon, JobFilter, KindPolicy, NewJob, RefusalCode, Repeatable, Retried, Retry,
};

use crate::support::{Queue, completed, ended, job, lane, next_claim, refusal, retried};

fn with(options: JobOptions) -> NewJob {
    NewJob { options, ..job("work") }
}

fn all() -> JobOptions {
    JobOptions {
        unique: Some(Unique { key: Some("k".into()), ..Unique::default() }),
        expires_at: Some(Utc::now() + TimeDelta::hours(1)),
        tags: vec!["a".into(), "b c".into()],
        concurrency_key: Some("customer 7".into()),
        release: Some(1),
        backoff: Some(Backoff { form: BackoffForm::Fixed, base_ms: 5, ..Backoff::default() }),
        timeout_ms: Some(77),
    }
}

#[tokio::test]
async fn options_are_told_to_the_node_and_kept_in_the_record() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    let ids = queue.database.enqueue(&[with(all()), job("work")]).await.unwrap();
    let given = queue.database.job(ids[0]).await.unwrap().unwrap().options;
    assert_eq!(given.tags, ["a", "b c"]);
    // By each way to claim: with others, as the only one, and when the answer was lost.
    let number = next_claim();
    let claimed = queue.database.claim(runner, &number, &[lane(kind, 2)]).await.unwrap();
    assert_eq!(claimed[0].options.as_deref(), Some(&given));
    assert!(claimed[1].options.is_none() && !claimed[0].expired && !claimed[1].expired);
    let again = queue.database.reclaim(runner, number.number).await.unwrap();
    assert_eq!(again[0].options.as_deref(), Some(&given));
    queue.settle(runner, retried(&claimed[0], Duration::ZERO)).await;
    queue.release_due().await;
    let turn = queue.database.turn(runner, &[], &next_claim(), &[lane(kind, 1)]).await.unwrap();
    assert_eq!(turn.claimed[0].options.as_deref(), Some(&given));
    // And by each way to end.
    let lanes = [lane(kind, 1)];
    let outcomes = [completed(&turn.claimed[0])];
    queue.database.turn(runner, &outcomes, &next_claim(), &lanes).await.unwrap();
    let record = queue.database.job(ids[0]).await.unwrap().unwrap();
    assert_eq!((record.summary.state, &record.options), (JobState::Completed, &given));
    assert_eq!(queue.ended(ids[0]).await.unwrap()["options"]["timeout_ms"], 77);
    for end in ["settled", "many", "cancelled", "lost"] {
        let wish = JobOptions { tags: vec![end.into()], ..JobOptions::default() };
        let ids = queue.database.enqueue(&[with(wish.clone()), with(wish)]).await.unwrap();
        match end {
            "cancelled" => {
                for id in &ids {
                    queue.database.cancel(*id, "").await.unwrap();
                }
            }
            "lost" => {
                let doomed = queue.runner().await;
                queue.claim(doomed, kind, 2).await;
                queue.run("update stokehold.jobs set lost = 2").await;
                queue.database.mark_suspect(doomed, Some(ids[0])).await.unwrap();
                queue.expire(doomed, 1.0).await;
                queue.database.reap(Duration::from_secs(1)).await.unwrap();
            }
            _ => {
                let claimed = queue.claim(runner, kind, 2).await;
                let outcomes: Vec<_> = claimed.iter().map(completed).collect();
                if end == "many" {
                    queue.database.turn(runner, &outcomes, &next_claim(), &[]).await.unwrap();
                } else {
                    queue.database.settle(runner, &outcomes).await.unwrap();
                }
            }
        }
        assert_eq!(queue.ended(ids[0]).await.unwrap()["options"]["tags"], json!([end]), "{end}");
    }
}

#[tokio::test]
async fn no_attempt_starts_after_a_job_has_expired() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    let expires = || JobOptions { expires_at: Some(Utc::now()), ..JobOptions::default() };
    let waiting = queue.database.enqueue(&[with(expires())]).await.unwrap()[0];
    let later = NewJob { run_at: Some(Utc::now() + TimeDelta::hours(1)), ..with(expires()) };
    let scheduled = queue.database.enqueue(&[later]).await.unwrap()[0];
    let fine = queue
        .database
        .enqueue(&[with(JobOptions {
            expires_at: Some(Utc::now() + TimeDelta::hours(1)),
            ..JobOptions::default()
        })])
        .await
        .unwrap()[0];
    let mut horizon = Horizon::default();
    assert!(queue.database.tick(&mut horizon, None).await.unwrap().expired);
    assert_eq!(queue.database.end_expired().await.unwrap(), 2);
    for id in [waiting, scheduled] {
        let ended = queue.ended(id).await.unwrap();
        assert_eq!((&ended["state"], &ended["outcome"]), (&json!("discarded"), &json!("expired")));
        let message = ended["problem"]["message"].as_str().unwrap();
        assert!(message.starts_with("the job was not started before it expired at "), "{message}");
    }
    assert!(!queue.database.tick(&mut horizon, None).await.unwrap().expired);
    assert_eq!(queue.claim_one(runner, kind).await.id, fine);
    // One that a claim takes before the sweep comes: the node is told, and the sweep leaves it alone.
    let late = queue.database.enqueue(&[with(expires())]).await.unwrap()[0];
    let claimed = queue.claim_one(runner, kind).await;
    assert!(claimed.id == late && claimed.expired);
    assert_eq!(queue.database.end_expired().await.unwrap(), 0);
    queue.settle(runner, ended(&claimed, "expired", Next::Finish(JobState::Discarded))).await;
    // One that failed is not tried again.
    let failing = queue
        .database
        .enqueue(&[with(JobOptions {
            expires_at: Some(Utc::now() + TimeDelta::hours(1)),
            ..JobOptions::default()
        })])
        .await
        .unwrap()[0];
    let claimed = queue.claim_one(runner, kind).await;
    queue.settle(runner, retried(&claimed, Duration::from_secs(600))).await;
    queue.run("update stokehold.jobs set expires_at = clock_timestamp()").await;
    assert_eq!(queue.database.end_expired().await.unwrap(), 1);
    assert_eq!(queue.ended(failing).await.unwrap()["attempt"], 1);
    // Retried by hand it does not expire again.
    let Retried::As(new) = queue.database.retry(failing, &Retry::default()).await.unwrap() else {
        panic!("it was discarded")
    };
    assert_eq!(queue.database.job(new).await.unwrap().unwrap().options, JobOptions::default());
}

#[tokio::test]
async fn a_wrong_option_is_refused_by_name() {
    let queue = Queue::new().await;
    queue.kind("work").await;
    let long = "x".repeat(256);
    for (options, says) in [
        (json!([1]), "options is not a JSON object"),
        (
            json!({"colour": 1}),
            "there is no option 'colour': unique, expires_at, tags, concurrency_key, release, \
            backoff and timeout_ms are known",
        ),
        (json!({"unique": "k"}), "unique is not an object with key or fields"),
        (json!({"unique": {}}), "unique takes either a key or fields of the payload"),
        (
            json!({"unique": {"key": "a", "fields": ["b"]}}),
            "unique takes either a key or fields of the payload",
        ),
        (json!({"unique": {"key": ""}}), "unique.key is not a text of 1 to 255 bytes"),
        (json!({"unique": {"key": long}}), "unique.key is not a text of 1 to 255 bytes"),
        (
            json!({"unique": {"key": "a", "until": 1}}),
            "unique has no member until: key, fields, states, for_ms and mode are known",
        ),
        (
            json!({"unique": {"fields": []}}),
            "unique.fields is not a list of 1 to 20 paths such as customer or order.id",
        ),
        (
            json!({"unique": {"key": "a", "states": ["done"]}}),
            "unique.states is not a list of states of a job",
        ),
        (
            json!({"unique": {"key": "a", "states": []}}),
            "unique.states is empty, and so nothing is ever a duplicate without for_ms",
        ),
        (
            json!({"unique": {"key": "a", "for_ms": 0.5}}),
            "unique.for_ms is not a whole number from 1 to 31536000000, a year",
        ),
        (
            json!({"unique": {"key": "a", "mode": "drop"}}),
            "unique.mode is none of existing, reject, replace and debounce",
        ),
        (json!({"expires_at": "soon"}), "expires_at is not a time of the years 1 to 9999"),
        (json!({"expires_at": "infinity"}), "expires_at is not a time of the years 1 to 9999"),
        (json!({"expires_at": 7}), "expires_at is not a time of the years 1 to 9999"),
        (json!({"tags": "a"}), "tags is not a list of 1 to 20 texts of 1 to 100 bytes"),
        (json!({"tags": ["a", 1]}), "tags is not a list of 1 to 20 texts of 1 to 100 bytes"),
        (json!({"tags": vec!["a"; 21]}), "tags is not a list of 1 to 20 texts of 1 to 100 bytes"),
        (json!({"concurrency_key": ""}), "concurrency_key is not a text of 1 to 255 bytes"),
        (json!({"release": 0}), "release is not the number of a release"),
        (json!({"release": 2}), "kind 'work' has no release 2"),
        (
            json!({"timeout_ms": 86_400_001}),
            "timeout_ms is not a whole number from 1 to 86400000, a day",
        ),
        (json!({"backoff": 5}), "backoff is not an object"),
        (
            json!({"backoff": {"form": "random"}}),
            "backoff.form is none of exponential, linear, fixed and list",
        ),
        (
            json!({"backoff": {"form": "list"}}),
            "backoff.delays_ms goes with the form list, which needs it",
        ),
        (
            json!({"backoff": {"delays_ms": [1]}}),
            "backoff.delays_ms goes with the form list, which needs it",
        ),
        (
            json!({"backoff": {"form": "list", "delays_ms": [-1]}}),
            "backoff.delays_ms is not a list of 1 to 100 whole numbers up to 2592000000, 30 days",
        ),
        (
            json!({"backoff": {"base_ms": "1"}}),
            "backoff.base_ms and backoff.cap_ms are whole numbers up to 2592000000, 30 days",
        ),
        (
            json!({"backoff": {"jitter_percent": 101}}),
            "backoff.jitter_percent is not a whole number from 0 to 100",
        ),
        (
            json!({"backoff": {"tries": 1}}),
            "backoff has no member tries: form, base_ms, cap_ms, delays_ms and jitter_percent are known",
        ),
        (
            json!({"tags": (0..20).map(|n| format!("{n}{}", "x".repeat(90))).collect::<Vec<_>>(),
            "unique": {"fields": (0..20).map(|n| format!("{n}{}", "y".repeat(250))).collect::<Vec<_>>()},
            "concurrency_key": "z".repeat(255), "backoff": {"form": "list", "delays_ms": vec![2_592_000_000_u64; 100]},
            "colour": "x".repeat(9000)}),
            "options is over 16384 bytes",
        ),
    ] {
        let sql = format!("select stokehold.enqueue('work', options => '{options}')");
        let refused = queue.refused(sql).await;
        assert_eq!(refused, ("SH422".to_owned(), format!("job 1: {says}")), "{options}");
    }
    assert_eq!(queue.everything().await, Vec::<Value>::new());
    // Null says nothing, and nothing is stored for nothing.
    let id: i64 = queue
        .value("select stokehold.enqueue('work', options => '{\"tags\": null, \"unique\": null}')")
        .await;
    assert_eq!(queue.live(JobId(id)).await.unwrap()["options"], Value::Null);
}

#[tokio::test]
async fn jobs_are_found_by_their_tags_and_metadata() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    let tagged = |tags: &[&str], metadata: Value| NewJob {
        metadata: Some(metadata),
        ..with(JobOptions {
            tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
            ..JobOptions::default()
        })
    };
    let jobs = [
        tagged(&["red", "big"], json!({"customer": "7", "x": 1})),
        tagged(&["red"], json!({"customer": "7"})),
        tagged(&["big"], json!({"customer": "8"})),
        job("work"),
    ];
    let ids = queue.database.enqueue(&jobs).await.unwrap();
    let find = async |tags: &[&str], metadata: Option<Value>| {
        let tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
        let filter = JobFilter { tags, metadata, ..JobFilter::default() };
        let jobs = queue.database.jobs(&filter, 100).await.unwrap();
        jobs.into_iter().map(|job| job.id).collect::<Vec<_>>()
    };
    // Alive, running, and ended.
    for _ in 0..3 {
        assert_eq!(find(&["red"], None).await, [ids[1], ids[0]]);
        assert_eq!(find(&["big", "red"], None).await, [ids[0]]);
        assert_eq!(find(&["green"], None).await, []);
        assert_eq!(find(&[], Some(json!({"customer": "7"}))).await, [ids[1], ids[0]]);
        assert_eq!(find(&["big"], Some(json!({"customer": "8"}))).await, [ids[2]]);
        assert_eq!(find(&[], None).await.len(), 4);
        let claimed = queue.claim(runner, kind, 2).await;
        for job in &claimed {
            queue.settle(runner, completed(job)).await;
        }
    }
}

#[tokio::test]
async fn a_request_under_a_key_is_done_once_and_answered_alike() {
    let queue = Queue::new().await;
    queue.kind("work").await;
    let request = Repeatable { scope: "ann", key: "r1" };
    let jobs = [job("work"), with(all()), with(all())];
    let (made, repeated) = queue.database.enqueue_once(request, &jobs).await.unwrap();
    assert!(!repeated);
    let ids: Vec<JobId> = made.iter().map(|made| made.id()).collect();
    assert_eq!(made[2], Enqueued::Existing(ids[1]));
    // Times differ in what `all` says, so the same value has to be sent.
    let (code, message) = refusal(queue.database.enqueue_once(request, &[job("work")]).await);
    assert_eq!(code, RefusalCode::Conflict);
    assert_eq!(message, "the idempotency key 'r1' was used for another request");
    queue.database.cancel(ids[0], "").await.unwrap();
    let again = queue.database.enqueue_once(request, &jobs).await.unwrap();
    assert_eq!(again, (made, true));
    assert_eq!(queue.live_jobs().await, 1);
    // Whose key it is, and which, tell requests apart; payloads of the same bytes are told from others.
    for other in [Repeatable { scope: "bob", ..request }, Repeatable { key: "r2", ..request }] {
        assert!(!queue.database.enqueue_once(other, &[job("work")]).await.unwrap().1);
    }
    let split = |a: &str, b: &str| {
        [a, b].map(|text| NewJob { payload: Blob::json(text.to_owned()), ..job("work") })
    };
    let third = Repeatable { key: "r3", ..request };
    queue.database.enqueue_once(third, &split("1", "23")).await.unwrap();
    refusal(queue.database.enqueue_once(third, &split("12", "3")).await);
    // What was refused is not remembered.
    let fourth = Repeatable { key: "r4", ..request };
    refusal(queue.database.enqueue_once(fourth, &[job("nothing")]).await);
    assert!(!queue.database.enqueue_once(fourth, &[job("work")]).await.unwrap().1);
    // After a week a key is new, and swept.
    let age =
        "update stokehold.idempotency_keys set made_at = clock_timestamp() - interval '7 days'";
    queue.run(age).await;
    assert!(!queue.database.enqueue_once(fourth, &[job("work"), job("work")]).await.unwrap().1);
    assert_eq!(queue.database.sweep_keys().await.unwrap(), 4);
    assert!(queue.database.enqueue_once(fourth, &[job("work"), job("work")]).await.unwrap().1);
}

#[tokio::test]
async fn the_same_request_twice_at_once_is_done_once() {
    let queue = Queue::new().await;
    queue.kind("work").await;
    let jobs = vec![job("work"); 3];
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (database, jobs) = (queue.pool_of(1, Duration::from_secs(20)), jobs.clone());
        tasks.spawn(async move {
            database.enqueue_once(Repeatable { scope: "", key: "k" }, &jobs).await.unwrap()
        });
    }
    let answers = tasks.join_all().await;
    assert_eq!(answers.iter().filter(|(_, repeated)| !repeated).count(), 1);
    assert!(answers.iter().all(|(made, _)| *made == answers[0].0));
    assert_eq!(queue.live_jobs().await, 3);
}

#[tokio::test]
async fn a_kind_keeps_the_form_of_its_backoff() {
    let queue = Queue::new().await;
    queue.kind("work").await;
    let backoff = Backoff {
        form: BackoffForm::List,
        delays_ms: vec![0, 5, 2_592_000_000],
        jitter_percent: 0,
        ..Backoff::default()
    };
    let mut policy = KindPolicy::default();
    policy.retry.backoff = backoff.clone();
    let (kind, _) = queue.database.put_kind("work", &policy).await.unwrap();
    assert_eq!(queue.database.kind("work").await.unwrap().unwrap().policy, policy);
    let release = queue.database.runnable_release(kind.id, 1).await.unwrap().unwrap();
    assert_eq!(release.backoff, backoff);
    policy.retry.backoff.delays_ms.clear();
    let (code, message) = refusal(queue.database.put_kind("work", &policy).await);
    assert_eq!(code, RefusalCode::Invalid);
    assert_eq!(message, "backoff: the delays go with the form list, which needs them");
}
