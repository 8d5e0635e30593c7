//! What the tables hold, as the model says and as it is.

use serde_json::{Value, json};
use stokehold_model::{Final, Lease, Queue as Model, Waits};

use crate::support::Queue;

/// Begins anew, with ids and tokens from 1.
pub(crate) async fn clear(queue: &Queue) {
    queue
        .run(
            "delete from stokehold.jobs; delete from stokehold.ready; delete from stokehold.claims;
             delete from stokehold.job_history; delete from stokehold.job_attempts;
             delete from stokehold.cancels; delete from stokehold.retries; delete from stokehold.runners;
             delete from stokehold.pauses; update stokehold.kinds set paused_until = null;
             alter table stokehold.jobs alter column id restart;
             alter table stokehold.runners alter column id restart;
             select setval('stokehold.claim_tokens', 1, false)",
        )
        .await;
}

const TABLES: &str = "
  select jsonb_build_object(
    'jobs', (select coalesce(jsonb_agg(jsonb_build_array(
        id, state, token, attempt, max_attempts, lost, priority) order by id), '[]') from stokehold.jobs),
    'claims', (select coalesce(jsonb_agg(jsonb_build_array(runner_id, number, token, job_ids)
      order by runner_id, number), '[]') from stokehold.claims),
    'ended', (select coalesce(jsonb_agg(jsonb_build_array(id, token, runner_id, attempt, state)
      order by id), '[]') from stokehold.job_history),
    'attempts', (select coalesce(jsonb_agg(jsonb_build_array(
        job_id, token, runner_id, attempt, outcome = 'node.lost') order by job_id, token), '[]')
      from stokehold.job_attempts),
    'cancels', (select coalesce(jsonb_agg(job_id order by job_id), '[]') from stokehold.cancels),
    'retries', (select coalesce(jsonb_agg(jsonb_build_array(of_job, job_id) order by of_job), '[]')
      from stokehold.retries),
    'live', (select coalesce(jsonb_agg(state = 'live' order by id), '[]') from stokehold.runners),
    'suspects', (select coalesce(jsonb_agg(suspect_job order by id), '[]') from stokehold.runners),
    'ready', (select coalesce(jsonb_agg(job_id order by position), '[]') from stokehold.ready))";

fn waits(state: Waits) -> &'static str {
    match state {
        Waits::Scheduled => "scheduled",
        Waits::Available => "available",
        Waits::Retryable => "retryable",
    }
}

fn ended(state: Final) -> &'static str {
    match state {
        Final::Completed => "completed",
        Final::Discarded => "discarded",
        Final::Cancelled => "cancelled",
    }
}

/// The number that the database gave.
fn id(place: u8) -> u16 {
    u16::from(place) + 1
}

fn ids(places: &[u8]) -> Vec<u16> {
    places.iter().copied().map(id).collect()
}

fn as_the_model_says(model: &Model) -> Value {
    let (mut jobs, mut history, mut attempts, mut retries) = (vec![], vec![], vec![], vec![]);
    for (job, place) in model.jobs.iter().zip(0u8..) {
        if let Some(row) = job.row {
            jobs.push(json!([
                id(place),
                waits(row.state),
                row.token,
                row.attempt,
                row.max_attempts,
                row.lost,
                row.priority
            ]));
        }
        for end in &job.history {
            let state = end.ended.map(ended);
            history.push(json!([id(place), end.token, end.runner.map(id), end.attempt, state]));
        }
        let mut records = job.attempts.clone();
        records.sort_unstable_by_key(|record| record.token);
        for record in records {
            let (runner, lost) = (record.runner.map(id), record.lost.is_some());
            attempts.push(json!([id(place), record.token, runner, record.attempt, lost]));
        }
        retries.extend(job.retried_as.map(|new| json!([id(place), id(new)])));
    }
    let mut claims: Vec<_> = model.claims.iter().collect();
    claims.sort_unstable_by_key(|claim| (claim.runner, claim.number));
    let claims: Vec<Value> = claims
        .into_iter()
        .map(|claim| json!([id(claim.runner), claim.number, claim.token, ids(&claim.jobs)]))
        .collect();
    let live = model.leases.iter().map(|lease| matches!(lease, Lease::Live | Lease::Over));
    json!({
        "jobs": jobs, "claims": claims, "ended": history, "attempts": attempts,
        "cancels": ids(&model.cancels), "retries": retries, "live": live.collect::<Vec<bool>>(),
        "suspects": model.suspects.iter().map(|job| job.map(id)).collect::<Vec<_>>(),
        "ready": ids(&model.ready),
    })
}

/// Compares, and takes over in which order several jobs became ready in one statement, which is nobody's
/// business.
pub(crate) async fn compare(queue: &Queue, model: &mut Model, before: &[u8], done: &[String]) {
    let found: Value = queue.value(TABLES).await;
    let ready: Vec<u8> = found["ready"].as_array().unwrap().iter().map(place).collect();
    let is_new = |job: &u8| !before.contains(job);
    let (kept, new) = model.ready.split_at(model.ready.partition_point(|job| !is_new(job)));
    if ready.starts_with(kept) && new.iter().all(is_new) {
        let (mut came, mut expected) = (ready[kept.len()..].to_vec(), new.to_vec());
        came.sort_unstable();
        expected.sort_unstable();
        if came == expected {
            model.ready = ready;
        }
    }
    let expected = as_the_model_says(model);
    for (table, expected) in expected.as_object().unwrap() {
        assert_eq!(&found[table], expected, "{table} after\n{}", done.join("\n"));
    }
}

/// What the model calls the job.
fn place(id: &Value) -> u8 {
    u8::try_from(id.as_u64().unwrap() - 1).unwrap()
}
