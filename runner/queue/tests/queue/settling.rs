//! Settling: what is written of an attempt, and what becomes of its job.

use std::time::Duration;

use serde_json::{Value, json};
use stokehold_domain::{Blob, JobId, JobState, Level, LogLine, Next, Problem, Receipt};
use stokehold_queue::{Ended, Fate, LogChunk};

use crate::support::{Queue, completed, ended, handed_back, retried};

const MINUTE: Duration = Duration::from_secs(60);

/// How far ahead of the database's clock the job is due, in seconds.
async fn due_in_s(queue: &Queue, id: JobId) -> f64 {
    queue
        .value(format!(
            "select extract(epoch from run_at - clock_timestamp())::float8 from stokehold.jobs where id = {id}"
        ))
        .await
}

async fn attempts(queue: &Queue, id: JobId) -> Vec<Value> {
    queue
        .rows(&format!("select * from stokehold.job_attempts where job_id = {id} order by token"))
        .await
}

#[tokio::test]
async fn a_success_leaves_the_live_table_and_becomes_one_row_of_history() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    let id = queue.job("work").await;
    let claimed = queue.claim_one(runner, kind).await;
    let running = queue.live(id).await.unwrap();
    assert_eq!(queue.settle(runner, completed(&claimed)).await, Fate::Applied);
    assert_eq!(queue.live(id).await, None);
    let history = queue.ended(id).await.unwrap();
    for column in [
        "token",
        "runner_id",
        "run_at",
        "enqueued_at",
        "started_at",
        "kind_id",
        "priority",
        "attempt",
        "max_attempts",
        "snoozes",
        "lost",
        "media_type",
        "payload",
        "metadata",
    ] {
        assert_eq!(history[column], running[column], "{column}");
    }
    assert_eq!(history["state"], "completed");
    assert_eq!(history["outcome"], "ok");
    assert_eq!(history["release"], 1);
    assert_eq!(
        json!([
            history["fuel"],
            history["wall_us"],
            history["peak_memory_bytes"],
            history["host_calls"]
        ]),
        json!([1, 2, 3, 4])
    );
    assert!(attempts(&queue, id).await.is_empty());
    let shown = queue.database.attempts(id).await.unwrap();
    assert_eq!(shown.len(), 1);
    assert_eq!(shown[0].outcome.as_deref(), Some("ok"));
}

#[tokio::test]
async fn results_come_back_byte_for_byte() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    let every_byte: Vec<u8> = (0..=255).cycle().take(1 << 20).collect();
    for result in [
        None,
        Some(Blob::json(Vec::new())),
        Some(Blob { media_type: "application/octet-stream".into(), bytes: vec![0; 3] }),
        Some(Blob {
            media_type: "text/plain; charset=utf-8".into(),
            bytes: b"a\0\\x\xff'\"".into(),
        }),
        Some(Blob { media_type: "image/png".into(), bytes: every_byte }),
    ] {
        let id = queue.job("work").await;
        let claimed = queue.claim_one(runner, kind).await;
        let end = Ended { result: result.clone(), ..completed(&claimed) };
        assert_eq!(queue.settle(runner, end).await, Fate::Applied);
        assert_eq!(queue.database.job(id).await.unwrap().unwrap().result, result);
    }
}

#[tokio::test]
async fn problems_and_receipts_come_back_as_they_were() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    let problem = Problem {
        code: Some("no-such-user".into()),
        detail: Some(Blob { media_type: "a/b".into(), bytes: vec![0, 255] }),
        frames: vec!["main \\u0000".into()],
        ..Problem::new("it broke\0 \u{1b}[31m '\"\\u0000 ü").advice("mend it")
    };
    let receipt = Receipt { fuel: u64::MAX, wall_us: 0, peak_memory_bytes: 1 << 40, host_calls: 7 };
    for (state, code) in
        [(JobState::Discarded, "handler.permanent"), (JobState::Cancelled, "handler.cancel")]
    {
        let id = queue.job("work").await;
        let claimed = queue.claim_one(runner, kind).await;
        let end = Ended {
            problem: Some(problem.clone()),
            receipt: Some(receipt),
            ..ended(&claimed, code, Next::Finish(state))
        };
        assert_eq!(queue.settle(runner, end).await, Fate::Applied);
        let record = queue.database.job(id).await.unwrap().unwrap();
        assert_eq!(record.summary.state, state);
        assert_eq!(record.summary.outcome.as_deref(), Some(code));
        assert_eq!(record.problem.as_ref(), Some(&problem));
        // What does not fit the column is as large as it holds.
        assert_eq!(record.receipt, Some(Receipt { fuel: i64::MAX as u64, ..receipt }));
    }
}

#[tokio::test]
async fn a_retry_waits_for_its_delay_and_counts() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    let id = queue.job("work").await;
    let claimed = queue.claim_one(runner, kind).await;
    let started = queue.live(id).await.unwrap()["started_at"].clone();
    assert_eq!(queue.settle(runner, retried(&claimed, MINUTE)).await, Fate::Applied);
    let row = queue.live(id).await.unwrap();
    assert_eq!(row["state"], "retryable");
    assert_eq!(row["attempt"], 1);
    assert_eq!(row["snoozes"], 0);
    assert_eq!(row["lost"], 0);
    assert_eq!(
        json!([row["runner_id"], row["started_at"], row["position"]]),
        json!([null, null, null])
    );
    assert_eq!(row["last_problem"], json!({ "message": "it broke" }));
    let due = due_in_s(&queue, id).await;
    assert!(due > 30.0 && due <= 60.0, "due in {due} s");
    let attempts = attempts(&queue, id).await;
    assert_eq!(attempts.len(), 1);
    assert_eq!(attempts[0]["outcome"], "handler.retry");
    assert_eq!(attempts[0]["attempt"], 1);
    assert_eq!(attempts[0]["runner_id"], runner.0);
    assert_eq!(attempts[0]["started_at"], started);
    assert_eq!(attempts[0]["problem"], json!({ "message": "it broke" }));
    assert_eq!(attempts[0]["fuel"], 1);
    assert!(queue.claim(runner, kind, 1).await.is_empty());
}

#[tokio::test]
async fn a_snooze_waits_and_does_not_count() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    let id = queue.job("work").await;
    for snoozes in 1..=3 {
        let claimed = queue.claim_one(runner, kind).await;
        assert_eq!((claimed.attempt, claimed.snoozes), (1, snoozes - 1));
        let end = ended(&claimed, "handler.snooze", Next::Snooze(MINUTE));
        assert_eq!(queue.settle(runner, end).await, Fate::Applied);
        let row = queue.live(id).await.unwrap();
        assert_eq!(row["state"], "scheduled");
        assert_eq!((&row["attempt"], &row["snoozes"]), (&json!(0), &json!(snoozes)));
        let due = due_in_s(&queue, id).await;
        assert!(due > 30.0 && due <= 60.0, "due in {due} s");
        queue.release_due().await;
    }
    assert_eq!(attempts(&queue, id).await.len(), 3);
}

#[tokio::test]
async fn a_job_handed_back_unstarted_leaves_no_trace_of_an_attempt() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    let ids = queue.jobs("work", 2).await;
    let before = queue.live(ids[0]).await.unwrap();
    let claimed = queue.claim(runner, kind, 1).await.remove(0);
    assert_eq!(queue.settle(runner, handed_back(&claimed)).await, Fate::Applied);
    let mut after = queue.live(ids[0]).await.unwrap();
    assert_eq!(after["token"], claimed.token.0);
    assert!(after["position"].as_i64() > before["position"].as_i64());
    after["token"] = before["token"].clone();
    after["position"] = before["position"].clone();
    assert_eq!(after, before);
    assert!(attempts(&queue, ids[0]).await.is_empty());
    assert!(queue.database.attempts(ids[0]).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_job_handed_back_after_a_fault_of_the_node_waits_uncounted_and_keeps_the_record() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    let id = queue.job("work").await;
    let claimed = queue.claim_one(runner, kind).await;
    let end = Ended {
        problem: Some(Problem::new("the host broke")),
        ..ended(&claimed, "host.fault", Next::HandBack(MINUTE))
    };
    assert_eq!(queue.settle(runner, end).await, Fate::Applied);
    let row = queue.live(id).await.unwrap();
    assert_eq!(row["state"], "retryable");
    assert_eq!(json!([row["attempt"], row["snoozes"], row["lost"]]), json!([0, 0, 0]));
    let due = due_in_s(&queue, id).await;
    assert!(due > 30.0 && due <= 60.0, "due in {due} s");
    let attempts = attempts(&queue, id).await;
    assert_eq!(attempts.len(), 1);
    assert_eq!(attempts[0]["outcome"], "host.fault");
    assert_eq!(attempts[0]["attempt"], 1);
}

pub(crate) fn lines(texts: &[&str]) -> Vec<LogLine> {
    let line = |(n, text): (usize, &&str)| LogLine::new(n as u64, Level::Info, text, &[]);
    texts.iter().enumerate().map(line).collect()
}

#[tokio::test]
async fn log_lines_are_kept_in_order_whatever_becomes_of_the_attempt() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    let id = queue.job("work").await;
    let first = queue.claim_one(runner, kind).await;
    let chunk =
        LogChunk::new(id, first.token, first.claim, first.attempt, &lines(&["flushed\0", "while"]));
    assert_eq!(queue.database.append_logs(runner, &[chunk]).await.unwrap(), 1);
    let end = Ended { log: lines(&["running"]), ..retried(&first, Duration::ZERO) };
    assert_eq!(queue.settle(runner, end).await, Fate::Applied);
    queue.release_due().await;
    let second = queue.claim_one(runner, kind).await;
    let end = Ended { log: lines(&["'\"\\u0000", "ü"]), ..completed(&second) };
    assert_eq!(queue.settle(runner, end).await, Fate::Applied);
    let stored = queue.database.logs(id, 100).await.unwrap();
    let texts: Vec<(u16, &str)> =
        stored.iter().map(|log| (log.attempt, log.line.message.as_str())).collect();
    assert_eq!(
        texts,
        [(1, "flushed\u{fffd}"), (1, "while"), (1, "running"), (2, "'\"\\u0000"), (2, "ü")]
    );
    let newest = queue.database.logs(id, 2).await.unwrap();
    assert_eq!(newest[0].line.message, "'\"\\u0000");
    // Nothing more under a claim that is over.
    let late = LogChunk::new(id, second.token, second.claim, 2, &lines(&["late"]));
    assert_eq!(queue.database.append_logs(runner, &[late]).await.unwrap(), 0);
}

#[tokio::test]
async fn an_outcome_that_cannot_be_stored_takes_its_flush_with_it_and_nothing_else() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    queue.jobs("work", 3).await;
    let claimed = queue.claim(runner, kind, 3).await;
    let before = queue.everything().await;
    // Not cleaned, as every problem of the sandbox is.
    let poison = Problem { message: "a\0b".to_owned(), ..Problem::default() };
    let batch = [
        Ended { log: lines(&["a line"]), ..completed(&claimed[0]) },
        Ended { problem: Some(poison), ..retried(&claimed[1], MINUTE) },
        completed(&claimed[2]),
    ];
    let error = queue.database.settle(runner, &batch).await.unwrap_err();
    assert!(!error.is_temporary(), "{error}");
    assert_eq!(queue.everything().await, before);
    for index in [0, 2] {
        assert_eq!(queue.settle(runner, batch[index].clone()).await, Fate::Applied);
    }
}

#[tokio::test]
async fn five_hundred_outcomes_go_in_one_call() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    queue.jobs("work", 500).await;
    let mut claimed = queue.claim(runner, kind, 500).await;
    claimed.reverse();
    let batch: Vec<Ended> = claimed
        .iter()
        .map(|job| match job.id.0 % 4 {
            0 => completed(job),
            1 => retried(job, MINUTE),
            2 => ended(job, "handler.snooze", Next::Snooze(MINUTE)),
            _ => handed_back(job),
        })
        .collect();
    let fates = queue.database.settle(runner, &batch).await.unwrap();
    assert_eq!(fates, vec![Fate::Applied; 500]);
    let mut counts = queue.database.count_jobs(kind).await.unwrap();
    counts.sort_by_key(|(state, _)| state.as_str());
    use JobState::{Available, Completed, Retryable, Scheduled};
    assert_eq!(counts, [(Available, 125), (Completed, 125), (Retryable, 125), (Scheduled, 125)]);
    assert_eq!(queue.database.settle(runner, &[]).await.unwrap(), []);
}
