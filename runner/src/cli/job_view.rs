//! A job as text for people.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::Value;
use stokehold_api::wire::{Content, Job, JobProblem, LogLine, Receipt};
use stokehold_domain::JobState;

use super::text::{block, counted, one_line};
use super::units;

/// How much of a payload or result is shown, in bytes.
const SHOWN_BYTES: usize = 2 << 10;

/// How a job ended, with what went wrong and what it used.
pub(super) fn ending(job: &Job) -> String {
    let mut text = format!("job {} {}", job.id, job.state);
    if job.state != JobState::Completed {
        if let Some(outcome) = &job.outcome {
            text.push_str(&format!(" ({})", one_line(outcome)));
        }
        text.push_str(&format!(" after {}", counted(job.attempt.into(), "attempt")));
    }
    if let Some(problem) = job.problem.as_ref().filter(|_| job.state != JobState::Completed) {
        text.push_str(&format!("\n{}", indented(&self::problem(problem))));
    }
    if let Some(receipt) = &job.receipt {
        text.push_str(&format!("\n{}", indented(&self::receipt(receipt))));
    }
    text
}

/// Everything that is known of a job, by name.
pub(super) fn fields(job: &Job, now: DateTime<Utc>) -> Vec<(&'static str, String)> {
    let mut fields = vec![
        ("job", job.id.to_string()),
        ("kind", job.kind.clone()),
        ("queue", job.queue.clone()),
        ("state", state(job)),
        ("attempt", format!("{} of {}", job.attempt, job.max_attempts)),
        ("priority", job.priority.to_string()),
        ("enqueued", time(job.enqueued_at, now)),
    ];
    let mut add = |name, value: Option<String>| fields.extend(value.map(|value| (name, value)));
    add("due", (!job.state.is_final()).then(|| time(job.run_at, now)));
    add("started", job.started_at.map(|at| time(at, now)));
    add("ended", job.finished_at.map(|at| time(at, now)));
    add("snoozes", (job.snoozes > 0).then(|| job.snoozes.to_string()));
    add("lost", (job.lost > 0).then(|| format!("{} under it", counted(job.lost.into(), "node"))));
    add("release", job.release.map(|number| number.to_string()));
    add("retry of", job.retry_of.map(|id| format!("job {id}")));
    add("retried", job.retried_as.map(|id| format!("as job {id}")));
    add("runner", job.runner.map(|id| id.to_string()));
    add("used", job.receipt.as_ref().map(receipt));
    add("metadata", job.metadata.as_ref().filter(|data| !data.is_null()).map(Value::to_string));
    add("options", job.options.as_ref().map(Value::to_string));
    add("payload", Some(content(&job.payload)));
    add("result", job.result.as_ref().map(content));
    add("problem", job.problem.as_ref().map(problem));
    fields
}

/// What went wrong, where and what to do. The text is a stranger's; whoever prints it cleans it.
pub(super) fn problem(problem: &JobProblem) -> String {
    let mut text = problem.message.clone();
    if let Some(code) = &problem.code {
        text.push_str(&format!("\ncode: {}", one_line(code)));
    }
    for frame in &problem.frames {
        text.push_str(&format!("\nat {}", one_line(frame)));
    }
    if let Some(detail) = &problem.detail {
        text.push_str(&format!("\ndetail: {}", content(detail)));
    }
    if let Some(advice) = &problem.advice {
        text.push_str(&format!("\n→ {advice}"));
    }
    block(&text)
}

/// What an attempt used, in one line.
pub(super) fn receipt(receipt: &Receipt) -> String {
    format!(
        "{} wall, {} fuel, {} peak memory, {}",
        units::duration(Duration::from_micros(receipt.wall_us)),
        units::count(receipt.fuel),
        units::bytes(receipt.peak_memory_bytes),
        counted(usize::try_from(receipt.host_calls).unwrap_or(usize::MAX), "host call"),
    )
}

/// A log line, with the time since the attempt began.
pub(super) fn log_line(line: &LogLine) -> String {
    line_of(line.offset_us, line.level, &line.message, &line.fields)
}

/// The parts of a log line, made fit to print.
pub(super) fn line_of(
    offset_us: u64,
    level: stokehold_domain::Level,
    message: &str,
    fields: &[(String, String)],
) -> String {
    let seconds = offset_us as f64 / 1e6;
    let mut text = format!("{seconds:>9.3}s {:<5} {}", level.as_str(), one_line(message));
    for (name, value) in fields {
        text.push_str(&format!(" {}={}", one_line(name), one_line(value)));
    }
    text
}

fn state(job: &Job) -> String {
    match &job.outcome {
        Some(outcome) if outcome != "ok" => format!("{} ({outcome})", job.state),
        _ => job.state.to_string(),
    }
}

fn time(time: DateTime<Utc>, now: DateTime<Utc>) -> String {
    format!("{} ({})", units::relative(time, now), time.format("%F %T UTC"))
}

fn content(content: &Content) -> String {
    let what = format!("{} of {}", units::bytes(content.size_bytes), content.media_type);
    let bytes = content.bytes().unwrap_or_default();
    match std::str::from_utf8(&bytes) {
        Ok(text) if !text.is_empty() && text.len() <= SHOWN_BYTES => text.to_owned(),
        _ => what,
    }
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn job(changes: Value) -> Job {
        let mut job = json!({
            "id": "42", "kind": "report", "queue": "default", "state": "completed", "priority": 0,
            "attempt": 1, "max_attempts": 20, "snoozes": 0, "lost": 0,
            "run_at": "2027-01-01T00:00:00Z", "enqueued_at": "2027-01-01T00:00:00Z",
            "started_at": "2027-01-01T00:00:01Z", "finished_at": "2027-01-01T00:00:02Z",
            "outcome": "ok", "release": 3, "runner": "7",
            "receipt": {"fuel": 1234567, "wall_us": 12300, "peak_memory_bytes": 1114112, "host_calls": 2},
            "payload": {"media_type": "application/json", "size_bytes": 8, "json": {"n": 1}},
        });
        for (name, value) in changes.as_object().unwrap() {
            job[name] = value.clone();
        }
        serde_json::from_str(&job.to_string()).unwrap()
    }

    fn shown(job: &Job) -> String {
        let now = units::parse_time("2027-01-01T00:01:00Z").unwrap();
        let lines = fields(job, now).into_iter().map(|(name, value)| format!("{name}: {value}\n"));
        lines.collect()
    }

    #[test]
    fn a_completed_job_is_told_with_its_receipt() {
        let job = job(json!({}));
        insta::assert_snapshot!(ending(&job));
        insta::assert_snapshot!(shown(&job));
    }

    #[test]
    fn a_failed_job_is_told_with_its_reason_and_its_text_is_made_harmless() {
        let job = job(json!({
            "state": "discarded", "outcome": "handler.panic", "attempt": 3, "lost": 1,
            "metadata": {"customer": "42"},
            "problem": {
                "message": "boom\u{1b}[2J\nsecond line", "code": "E1", "frames": ["a::b", "c\nd"],
                "advice": "Catch it.",
                "detail": {"media_type": "image/png", "size_bytes": 3, "base64": "/wAA"},
            },
        }));
        insta::assert_snapshot!(ending(&job));
        insta::assert_snapshot!(shown(&job));
    }

    #[test]
    fn a_log_line_stays_one_line() {
        let line: LogLine = serde_json::from_value(json!({
            "attempt": 1, "offset_us": 1234567, "level": "warn",
            "message": "two\nlines\u{1b}[31m", "fields": [["user", "ann\n"]],
        }))
        .unwrap();
        assert_eq!(log_line(&line), "    1.235s warn  two lines\u{fffd}[31m user=ann ");
    }
}
