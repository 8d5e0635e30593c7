//! Enqueueing through the SQL contract, and through the call that stands for it.

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::json;
use sqlx::AssertSqlSafe;
use stokehold_domain::{Blob, JobId, JobState};
use stokehold_queue::{KindPolicy, NewJob};

use crate::support::{Queue, job};

#[tokio::test]
async fn what_a_caller_rolls_back_was_never_enqueued() {
    let queue = Queue::new().await;
    queue.kind("mail").await;
    let mut caller = queue.pool.begin().await.unwrap();
    sqlx::query("select stokehold.enqueue('mail')").execute(&mut *caller).await.unwrap();
    sqlx::query("select stokehold.enqueue_bytes('mail', 'x', 'text/plain')")
        .execute(&mut *caller)
        .await
        .unwrap();
    caller.rollback().await.unwrap();
    assert_eq!(queue.everything().await, Vec::<serde_json::Value>::new());
}

#[tokio::test]
async fn what_a_caller_commits_is_enqueued_exactly_and_not_seen_before() {
    let queue = Queue::new().await;
    let kind = queue.kind("mail").await;
    let runner = queue.runner().await;
    queue.run("create table orders (number int)").await;
    let mut caller = queue.pool.begin().await.unwrap();
    sqlx::query("insert into orders values (7)").execute(&mut *caller).await.unwrap();
    let id: i64 = sqlx::query_scalar("select stokehold.enqueue('mail', '{\"order\": 7}')")
        .fetch_one(&mut *caller)
        .await
        .unwrap();
    assert!(queue.claim(runner, kind, 10).await.is_empty());
    caller.commit().await.unwrap();
    let claimed = queue.claim_one(runner, kind).await;
    assert_eq!(claimed.id, JobId(id));
    assert_eq!(claimed.payload, Blob::json("{\"order\": 7}"));
    assert_eq!(queue.value::<i32>("select number from orders").await, 7);
}

#[tokio::test]
async fn ids_and_positions_come_in_the_order_of_the_jobs() {
    let queue = Queue::new().await;
    queue.kind("a").await;
    queue.kind("b").await;
    let jobs: Vec<NewJob> =
        (0..300).map(|n| NewJob::new(["b", "a"][n % 2], Blob::json(n.to_string()))).collect();
    let ids = queue.database.enqueue(&jobs).await.unwrap();
    assert_eq!(ids.len(), 300);
    for (n, id) in ids.iter().enumerate() {
        let record = queue.database.job(*id).await.unwrap().unwrap();
        assert_eq!(record.payload.bytes, n.to_string().into_bytes());
        assert_eq!(record.kind, ["b", "a"][n % 2]);
    }
    let order: Vec<i64> =
        queue.value("select array_agg(id order by position) from stokehold.jobs").await;
    assert_eq!(order, ids.iter().map(|id| id.0).collect::<Vec<_>>());
}

#[tokio::test]
async fn what_a_job_does_not_say_follows_its_kind() {
    let queue = Queue::new().await;
    let policy = KindPolicy { priority: -5, ..KindPolicy::default() };
    let policy = KindPolicy {
        retry: stokehold_domain::RetryPolicy { max_attempts: 3, ..policy.retry },
        ..policy
    };
    queue.database.put_kind("mail", &policy).await.unwrap();
    for call in [
        "stokehold.enqueue('mail')",
        "stokehold.enqueue('mail', '{}', null, null, null, null)",
        "stokehold.enqueue_bytes('mail', '{}', null)",
        "stokehold.enqueue_bytes('mail', '{}', 'application/json', null, null, null, null)",
        "id from stokehold.enqueue_many(array['mail'], array['{}'::bytea])",
        "id from stokehold.enqueue_many(array['mail'], array['{}'::bytea], null, null, null, null, null)",
        "id from stokehold.enqueue_many(array['mail'], array['{}'::bytea], array[null], array[null]::timestamptz[],
           array[null]::int[], array[null]::int[], array[null]::jsonb[])",
    ] {
        let id: i64 = queue.value(format!("select {call}")).await;
        let row = queue.live(JobId(id)).await.unwrap();
        assert_eq!(row["state"], "available", "{call}");
        assert_eq!(row["priority"], -5, "{call}");
        assert_eq!(row["max_attempts"], 3, "{call}");
        assert_eq!(row["attempt"], 0, "{call}");
        assert_eq!(row["token"], 0, "{call}");
        assert_eq!(row["media_type"], json!(null), "{call}");
        assert_eq!(row["metadata"], json!(null), "{call}");
        let record = queue.database.job(JobId(id)).await.unwrap().unwrap();
        assert_eq!(record.payload, Blob::json("{}"), "{call}");
    }
}

#[tokio::test]
async fn what_a_job_says_wins_over_its_kind() {
    let queue = Queue::new().await;
    queue.kind("mail").await;
    let payload = Blob { media_type: "image/png".to_owned(), bytes: vec![0, 255, 10, 0] };
    let run_at = Utc::now() + TimeDelta::hours(1);
    let wanted = NewJob {
        run_at: Some(run_at),
        priority: Some(1000),
        max_attempts: Some(1),
        metadata: Some(json!({ "tenant": "ä", "n": 1 })),
        ..NewJob::new("mail", payload.clone())
    };
    let id = queue.database.enqueue(&[wanted]).await.unwrap()[0];
    let record = queue.database.job(id).await.unwrap().unwrap();
    assert_eq!(record.payload, payload);
    assert_eq!(record.summary.state, JobState::Scheduled);
    assert_eq!(record.summary.run_at.timestamp_micros(), run_at.timestamp_micros());
    assert_eq!(record.summary.priority, 1000);
    assert_eq!(record.summary.max_attempts, 1);
    assert_eq!(record.metadata, Some(json!({ "tenant": "ä", "n": 1 })));
}

#[tokio::test]
async fn a_job_is_scheduled_if_its_time_lies_ahead_and_available_if_not() {
    let queue = Queue::new().await;
    queue.kind("mail").await;
    let at = |run_at| NewJob { run_at, ..job("mail") };
    let (now, hour) = (Utc::now(), TimeDelta::hours(1));
    let jobs =
        [at(None), at(Some(now - hour)), at(Some(now + hour)), at(Some(DateTime::UNIX_EPOCH))];
    let ids = queue.database.enqueue(&jobs).await.unwrap();
    let mut states = Vec::new();
    for id in &ids {
        let row = queue.live(*id).await.unwrap();
        assert_eq!(row["position"].is_null(), row["state"] == "scheduled");
        states.push(queue.state(*id).await);
    }
    use JobState::{Available, Scheduled};
    assert_eq!(states, [Available, Available, Scheduled, Available]);
}

#[tokio::test]
async fn the_largest_of_everything_is_taken() {
    let queue = Queue::new().await;
    queue.kind("mail").await;
    // As PostgreSQL prints it: {"k": "…"}.
    let metadata = json!({ "k": "x".repeat(16384 - 9) });
    let largest = NewJob {
        priority: Some(-1000),
        max_attempts: Some(1000),
        metadata: Some(metadata),
        ..NewJob::new(
            "mail",
            Blob {
                media_type: format!("a/{}", "b".repeat(253)),
                bytes: (0..=255).cycle().take(1 << 20).collect(),
            },
        )
    };
    let id = queue.database.enqueue(std::slice::from_ref(&largest)).await.unwrap()[0];
    let record = queue.database.job(id).await.unwrap().unwrap();
    assert_eq!(record.payload, largest.payload);
    assert_eq!(record.metadata, largest.metadata);
}

#[tokio::test]
async fn no_jobs_are_enqueued_without_complaint() {
    let queue = Queue::new().await;
    assert_eq!(queue.database.enqueue(&[]).await.unwrap(), []);
    // What array_agg makes of no rows.
    let none: i64 = queue.value("select count(*) from stokehold.enqueue_many(null, null)").await;
    assert_eq!(none, 0);
    assert_eq!(queue.live_jobs().await, 0);
}

#[tokio::test]
async fn the_contract_works_whatever_the_callers_search_path_and_role_settings() {
    let queue = Queue::new().await;
    queue.kind("mail").await;
    let mut caller = queue.pool.begin().await.unwrap();
    // A caller whose own objects have the names of ours.
    for sql in [
        "create schema theirs",
        "create table theirs.kinds (id int, name text)",
        "create table theirs.jobs (id int)",
        "set search_path = theirs",
        "set timezone = 'Asia/Kathmandu'",
        "set standard_conforming_strings = off",
    ] {
        sqlx::query(AssertSqlSafe(sql)).execute(&mut *caller).await.unwrap();
    }
    let id: i64 = sqlx::query_scalar("select stokehold.enqueue('mail', '[1]')")
        .fetch_one(&mut *caller)
        .await
        .unwrap();
    caller.commit().await.unwrap();
    assert_eq!(queue.database.job(JobId(id)).await.unwrap().unwrap().payload, Blob::json("[1]"));
}

/// The statements that the guide gives for an application that only enqueues.
fn documented_rights() -> &'static str {
    const GUIDE: &str = include_str!("../../../../docs/guides/enqueue-from-sql.md");
    let rights = &GUIDE[GUIDE.find("\n## Rights\n").expect("the guide has the section")..];
    let begin = rights.find("```sql\n").expect("it has statements") + "```sql\n".len();
    let end = rights[begin..].find("```").expect("they end") + begin;
    &rights[begin..end]
}

#[tokio::test]
async fn an_application_with_the_documented_rights_can_enqueue_and_nothing_else() {
    let queue = Queue::new().await;
    queue.kind("work").await;
    let app = format!("app_{}", std::process::id());
    let reader = format!("reader_{}", std::process::id());
    queue.run(format!("create role {app}; create role {reader}")).await;
    queue.run(documented_rights().replace(" app;", &format!(" {app};"))).await;
    queue
        .run(format!(
            "grant usage on schema stokehold to {reader};
             grant select on all tables in schema stokehold to {reader}"
        ))
        .await;
    let by = |role: &str, sql: &str| format!("set local role {role}; {sql}");
    for enqueue in [
        "select stokehold.enqueue('work', '{\"a\": 1}')",
        "select stokehold.enqueue_bytes('work', 'x', 'text/plain')",
        "select id from stokehold.enqueue_many(array['work', 'work'], array['{}', '{}']::bytea[])",
    ] {
        queue.run(by(&app, enqueue)).await;
        let (code, message) = queue.refused(by(&reader, enqueue)).await;
        assert_eq!(code, "42501", "a right to read is none to enqueue: {message}");
    }
    assert_eq!(queue.live_jobs().await, 4);
    for other in [
        "select payload from stokehold.jobs",
        "select payload from stokehold.live_jobs",
        "insert into stokehold.ready values (1, 0, 1, 1)",
        "delete from stokehold.jobs",
        "select secret_hash from stokehold.api_keys",
    ] {
        let (code, message) = queue.refused(by(&app, other)).await;
        assert_eq!(code, "42501", "{other}: {message}");
    }
    queue.run(format!("drop owned by {app}, {reader}; drop role {app}, {reader}")).await;
}
