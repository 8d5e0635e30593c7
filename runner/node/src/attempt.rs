//! One claimed job, from the wait for a slot to the outcome handed to the settler.
//!
//! No database connection is held while the handler runs.

use std::sync::Arc;
use std::time::Duration;

use stokehold_domain::decide::History;
use stokehold_domain::{Attempt, Backoff, HandBack, Outcome, Problem, Receipt, decide};
use stokehold_queue::{Claimed, Ended, RunnableRelease};
use stokehold_sandbox::{Control, Report};

use crate::session::{Running, Session};

/// A job that found no slot within this time goes back for others to take. It was held in advance
/// because jobs were short; now they are not.
const SLOT_WAIT: Duration = Duration::from_secs(2);

/// Runs a claimed job and hands its outcome on.
pub(crate) async fn run(session: Arc<Session>, claimed: Claimed) {
    let ended = match wait_for_slot(&session, &claimed).await {
        Some(_permits) => execute(&session, claimed).await,
        None => {
            session.stats.add_handed_back(1);
            let outcome = Outcome::HandedBack(HandBack::Draining, Problem::new("not started"));
            ended(&claimed, outcome, None, &Backoff::default())
        }
    };
    session.stats.add_ended(1);
    // Fails only when the settler is gone, which means that the process is on its way out.
    let _ = session.outcomes.send(ended).await;
    session.room.notify_one();
}

/// A slot, and for a suspect the node's one place for suspects before it; `None` to hand the job back.
async fn wait_for_slot<'a>(
    session: &'a Session,
    claimed: &Claimed,
) -> Option<(tokio::sync::SemaphorePermit<'a>, Option<tokio::sync::SemaphorePermit<'a>>)> {
    let permits = async {
        let suspect = match claimed.lost {
            0 => None,
            _ => Some(session.suspect.acquire().await.ok()?),
        };
        Some((session.slots.acquire().await.ok()?, suspect))
    };
    tokio::select! {
        biased;
        () = session.closing.cancelled() => None,
        permits = tokio::time::timeout(SLOT_WAIT, permits) => permits.ok().flatten(),
    }
}

async fn execute(session: &Session, claimed: Claimed) -> Ended {
    let no_receipt = Some(Receipt::default());
    if claimed.lost > 0
        && let Err(error) = session.database.mark_suspect(session.runner, Some(claimed.id)).await
    {
        let problem = Problem::new(format!("the suspect could not be marked: {error}"));
        let outcome = Outcome::HandedBack(HandBack::HostFault, problem);
        return ended(&claimed, outcome, no_receipt, &Backoff::default());
    }
    let (release, handler) = match session.releases.handler(claimed.kind_id, claimed.release).await
    {
        Ok(found) => found,
        Err(outcome) => return ended(&claimed, outcome, no_receipt, &Backoff::default()),
    };
    let control = Control::new();
    let running =
        Running { token: claimed.token, attempt: claimed.attempt, control: control.clone() };
    session.enter(claimed.id, running);
    // The order to stop may have come between the claim and the entry.
    if session.closing.is_cancelled() {
        session.leave(claimed.id);
        let outcome = Outcome::HandedBack(HandBack::Draining, Problem::new("not started"));
        return ended(&claimed, outcome, None, &release.backoff);
    }
    let (claimed, attempt) = split(claimed, &release);
    let Report { outcome, receipt, log } =
        session.sandbox.run(&handler, attempt, &release.limits, control.clone()).await;
    session.leave(claimed.id);
    let mut ended = ended(&claimed, outcome, Some(receipt), &release.backoff);
    ended.log = log;
    ended
}

/// Moves payload and metadata into the attempt and keeps the rest of the claim.
fn split(mut claimed: Claimed, release: &RunnableRelease) -> (Claimed, Attempt) {
    let attempt = Attempt {
        job_id: claimed.id,
        token: claimed.token,
        kind: release.kind.clone(),
        queue: release.queue.clone(),
        attempt: claimed.attempt,
        max_attempts: claimed.max_attempts,
        payload: std::mem::replace(
            &mut claimed.payload,
            stokehold_domain::Blob { media_type: String::new(), bytes: Vec::new() },
        ),
        metadata: pairs(claimed.metadata.take()),
        enqueued_at_ms: unix_ms(claimed.enqueued_at),
        scheduled_at_ms: unix_ms(claimed.run_at),
        last_problem: claimed.last_problem.take(),
    };
    (claimed, attempt)
}

/// Metadata as a handler sees it: text stays, other JSON is written out.
fn pairs(metadata: Option<serde_json::Value>) -> Vec<(String, String)> {
    let Some(serde_json::Value::Object(map)) = metadata else { return Vec::new() };
    let text = |value| match value {
        serde_json::Value::String(text) => text,
        other => other.to_string(),
    };
    map.into_iter().map(|(key, value)| (key, text(value))).collect()
}

fn unix_ms(time: chrono::DateTime<chrono::Utc>) -> u64 {
    time.timestamp_millis().try_into().unwrap_or_default()
}

fn ended(
    claimed: &Claimed,
    outcome: Outcome,
    receipt: Option<Receipt>,
    backoff: &Backoff,
) -> Ended {
    let history = History {
        attempt: claimed.attempt,
        max_attempts: claimed.max_attempts,
        snoozes: claimed.snoozes,
    };
    Ended {
        job_id: claimed.id,
        token: claimed.token,
        attempt: claimed.attempt,
        release: Some(claimed.release),
        code: outcome.code(),
        next: decide(&outcome, history, backoff, rand::random()),
        // A job handed back unstarted keeps what its last real attempt said.
        problem: receipt.and_then(|_| outcome.problem()),
        result: match outcome {
            Outcome::Completed(result) => result,
            _ => None,
        },
        receipt,
        log: Vec::new(),
    }
}
