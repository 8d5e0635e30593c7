//! Migrations, and what the tables themselves refuse.

use std::path::Path;

use serde_json::json;
use sqlx::migrate::Migrator;
use stokehold_domain::{JobId, JobState, check_name};
use stokehold_queue::migrate::{Migrated, newest_version};
use stokehold_queue::{Fate, QueueError};
use tokio::task::JoinSet;

use crate::support::{LEASE, PATIENCE, Queue, completed};

#[tokio::test]
async fn migrating_twice_does_it_once() {
    let queue = Queue::without_schema().await;
    let newest = newest_version();
    assert_eq!(queue.database.schema_version().await.unwrap(), 0);
    let first = queue.database.migrate().await.unwrap();
    assert_eq!(first, Migrated { from: 0, to: newest });
    assert_eq!(queue.database.schema_version().await.unwrap(), newest);
    queue.database.check_schema().await.unwrap();
    let again = queue.database.migrate().await.unwrap();
    assert_eq!(again, Migrated { from: newest, to: newest });
}

/// Brings an empty database to an earlier version, as an earlier binary did.
async fn migrate_to(queue: &Queue, version: i64) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../migrations");
    let mut earlier = Migrator::new(folder).await.unwrap();
    earlier.table_name = "stokehold.migrations".into();
    earlier.create_schemas = vec!["stokehold".into()].into();
    earlier.migrations.to_mut().retain(|migration| migration.version <= version);
    earlier.run(&queue.pool).await.unwrap();
}

#[tokio::test]
async fn jobs_of_the_version_before_ready_rows_go_on_where_they_were() {
    let queue = Queue::without_schema().await;
    migrate_to(&queue, 4).await;
    queue
        .run(
            "insert into stokehold.modules values (decode(repeat('01', 32), 'hex'), '', '{}');
             insert into stokehold.kinds (name) values ('work');
             insert into stokehold.releases (kind_id, number, digest, limits)
               select 1, 1, digest, '{}' from stokehold.modules;
             update stokehold.kinds set active_release = 1;
             insert into stokehold.runners (name, version, slots, lease_expires_at)
               values ('old', '0', 1, now() - interval '1 minute');
             select stokehold.enqueue('work') from generate_series(1, 4);
             select stokehold.enqueue('work', run_at => now() + interval '1 hour');
             create role early_app;
             grant insert on stokehold.jobs to early_app;
             grant usage on schema stokehold to early_app;
             -- The second one runs, at its third try.
             update stokehold.jobs set state = 'running', runner_id = 1, started_at = now(),
               token = 7, attempt = 3 where id = 2;
             insert into stokehold.claims values (1, 1, array[2])",
        )
        .await;
    let migrated = queue.database.migrate().await.unwrap();
    assert_eq!(migrated.from, 4);
    use JobState::{Available, Running, Scheduled};
    for (id, state) in [(1, Available), (2, Running), (3, Available), (5, Scheduled)] {
        assert_eq!(queue.state(JobId(id)).await, state, "job {id}");
    }
    let running = queue.live(JobId(2)).await.unwrap();
    assert_eq!(json!([running["attempt"], running["runner_id"]]), json!([3, 1]));
    let runner = queue.runner().await;
    let kind = queue.database.ensure_kind("work").await.unwrap().id;
    let claimed = queue.claim(runner, kind, 10).await;
    assert_eq!(claimed.iter().map(|job| job.id.0).collect::<Vec<_>>(), [1, 3, 4]);
    let reaped = queue.database.reap(LEASE).await.unwrap();
    assert_eq!((reaped.runners, reaped.available), (1, 1));
    let again = queue.claim_one(runner, kind).await;
    assert_eq!((again.id, again.attempt), (JobId(2), 3), "no attempt was burnt");
    assert!(again.token.0 > 7);
    assert_eq!(queue.settle(runner, completed(&again)).await, Fate::Applied);
    // Who could enqueue still can.
    queue.run("set local role early_app; select stokehold.enqueue('work')").await;
    queue.run("drop owned by early_app; drop role early_app").await;
}

#[tokio::test]
async fn processes_that_start_together_migrate_once() {
    let queue = Queue::without_schema().await;
    let mut processes = JoinSet::new();
    for _ in 0..5 {
        let database = queue.pool_of(2, PATIENCE);
        processes.spawn(async move { database.migrate().await.unwrap().to });
    }
    assert_eq!(processes.join_all().await, [newest_version(); 5]);
    let runs: i64 = queue.value("select count(*) from stokehold.migrations").await;
    assert_eq!(runs, newest_version());
    queue.kind("work").await;
    queue.job("work").await;
}

#[tokio::test]
async fn a_schema_that_is_newer_or_older_is_refused_in_words() {
    let queue = Queue::new().await;
    queue
        .run(
            "insert into stokehold.migrations (version, description, success, checksum, execution_time)
             values (999, 'from the future', true, '', 0)",
        )
        .await;
    let error = queue.database.migrate().await.unwrap_err();
    assert!(matches!(error, QueueError::Schema(_)), "{error:?}");
    assert!(error.to_string().contains("999") && error.to_string().contains("newer"), "{error}");
    // What was only added to can be worked on.
    queue.database.check_schema().await.unwrap();
    queue.run("delete from stokehold.migrations where version > 1").await;
    let error = queue.database.check_schema().await.unwrap_err();
    assert!(matches!(error, QueueError::Schema(_)), "{error:?}");
    assert!(error.to_string().contains("stokehold migrate"), "{error}");
    queue.run("update stokehold.migrations set checksum = '\\x00'").await;
    let error = queue.database.migrate().await.unwrap_err();
    assert!(error.to_string().contains("migration 1 "), "{error}");
}

#[tokio::test]
async fn the_database_and_the_domain_have_the_same_words_for_states() {
    let queue = Queue::new().await;
    let words: Vec<String> =
        queue.value("select enum_range(null::stokehold.job_state)::text[]").await;
    assert_eq!(words, JobState::ALL.map(|state| state.as_str()));
}

#[tokio::test]
async fn the_database_and_the_domain_have_the_same_rule_for_names() {
    let queue = Queue::new().await;
    let long = "x".repeat(64);
    for name in [
        "a",
        "image.resize",
        "0day",
        "a_b-c",
        &long[1..],
        "",
        "../x",
        "a/b",
        "A",
        ".a",
        "-a",
        "a b",
        "é",
        "<b>",
        "a\n",
        "\na",
        &long,
    ] {
        let accepted: Result<String, _> =
            sqlx::query_scalar("select $1::text::stokehold.name::text")
                .bind(name)
                .fetch_one(&queue.pool)
                .await;
        assert_eq!(accepted.is_ok(), check_name("kind", name).is_ok(), "{name:?}");
    }
}

#[tokio::test]
async fn rows_that_make_no_sense_are_refused_by_the_tables() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    queue.job("work").await;
    queue.claim_one(runner, kind).await;
    queue.job("work").await;
    let available = "update stokehold.jobs set {} where state = 'available'";
    for (template, change, constraint) in [
        (available, "attempt = -1", "jobs_attempt_check"),
        (available, "state = 'running'", "live_states_only"),
        (available, "position = null", "available_has_a_position"),
        (available, "state = 'completed'", "live_states_only"),
        (available, "state = 'discarded'", "live_states_only"),
        (available, "state = 'cancelled'", "live_states_only"),
        (available, "priority = 1001", "jobs_priority_check"),
        (available, "max_attempts = 0", "jobs_max_attempts_check"),
        (available, "snoozes = -1", "jobs_snoozes_check"),
        (available, "lost = -1", "jobs_lost_check"),
        (available, "payload = convert_to(repeat('x', 1048577), 'UTF8')", "jobs_payload_check"),
        (available, "media_type = repeat('x', 256)", "jobs_media_type_check"),
    ] {
        let (code, message) = queue.refused(template.replace("{}", change)).await;
        assert_eq!(code, "23514", "{change}: {message}");
        assert!(message.contains(constraint), "{change}: {message}");
    }
    for state in ["scheduled", "available", "running", "retryable", "pending"] {
        let (code, message) = queue
            .refused(format!(
                "insert into stokehold.job_history (id, token, run_at, enqueued_at, kind_id, state,
                   priority, attempt, max_attempts, snoozes, lost, outcome, payload)
                 values (1, 1, now(), now(), 1, '{state}', 0, 0, 1, 0, 0, 'ok', '')"
            ))
            .await;
        assert!(code == "23514" && message.contains("state_check"), "{state}: {message}");
    }
    for (sql, constraint) in [
        ("update stokehold.runners set state = 'dead'", "ended_runners_have_a_time"),
        ("update stokehold.runners set ended_at = now()", "ended_runners_have_a_time"),
        ("update stokehold.runners set slots = 0", "runners_slots_check"),
        ("update stokehold.runners set state = 'gone', ended_at = now()", "runners_state_check"),
        ("insert into stokehold.modules values ('\\x00', '', '{}')", "modules_digest_check"),
        ("update stokehold.settings set history_days = 0", "settings_history_days_check"),
        ("insert into stokehold.settings values (false)", "settings_only_row_check"),
        ("update stokehold.kinds set max_attempts = 0", "kinds_max_attempts_check"),
        ("update stokehold.kinds set name = 'A'", "name_rule"),
        ("update stokehold.kinds set active_release = 2", "active_release_exists"),
    ] {
        let (_, message) = queue.refused(sql).await;
        assert!(message.contains(constraint), "{sql}: {message}");
    }
}
