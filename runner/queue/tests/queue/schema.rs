//! Migrations, and what the tables themselves refuse.

use stokehold_domain::{JobState, check_name};
use stokehold_queue::QueueError;
use stokehold_queue::migrate::{Migrated, newest_version};
use tokio::task::JoinSet;

use crate::support::{PATIENCE, Queue};

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
    let running = "update stokehold.jobs set {} where state = 'running'";
    let available = "update stokehold.jobs set {} where state = 'available'";
    for (template, change, constraint) in [
        (running, "runner_id = null", "running_has_an_owner"),
        (running, "started_at = null", "running_has_an_owner"),
        (running, "runner_id = null, started_at = null", "running_has_an_owner"),
        (running, "state = 'available'", "running_has_an_owner"),
        (running, "state = 'retryable', started_at = null", "running_has_an_owner"),
        (running, "state = 'scheduled', runner_id = null", "running_has_an_owner"),
        (running, "attempt = -1", "jobs_attempt_check"),
        (available, "state = 'running'", "running_has_an_owner"),
        (available, "runner_id = 1", "running_has_an_owner"),
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
