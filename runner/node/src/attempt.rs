//! One claimed job, from the wait for a slot to the outcome handed to the settler.
//!
//! No database connection is held while the handler runs.

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;

use stokehold_domain::decide::{History, NODE_FAULT_DELAY};
use stokehold_domain::{
    Attempt, Backoff, ClaimToken, HandBack, JobId, Next, Outcome, Problem, Receipt, decide,
};
use stokehold_queue::{Claimed, Ended, RunnableRelease};
use stokehold_sandbox::{Control, Handler, Report};

use crate::session::{Running, Session};

/// One slot: runs one job after the other until none waits. Runs on the guests' threads.
pub(crate) async fn slot(session: Arc<Session>) {
    while let Some(job) = session.slots.next() {
        let suspect = job.lost > 0;
        let unmoved = Unmoved::of(&session, &job);
        let ended = execute(&session, job).await;
        unmoved.forget();
        deliver(&session, ended).await;
        session.slots.done(suspect);
        // A thread that runs short jobs must let the others have a turn too.
        tokio::task::consume_budget().await;
    }
}

/// Gives jobs back that were not started.
pub(crate) async fn hand_back(session: Arc<Session>, jobs: Vec<Claimed>) {
    session.stats.add_handed_back(jobs.len());
    for job in jobs {
        deliver(&session, not_started(&job, &Backoff::default())).await;
    }
}

/// Ends jobs that were cancelled before they started.
pub(crate) async fn cancel(
    session: Arc<Session>,
    jobs: Vec<Claimed>,
    reasons: HashMap<JobId, String>,
) {
    for job in jobs {
        let reason = reasons.get(&job.id).cloned().unwrap_or_default();
        let outcome = Outcome::Cancelled(Problem::new(reason));
        deliver(&session, ended(&job, outcome, Some(Receipt::default()), &Backoff::default()))
            .await;
    }
}

async fn deliver(session: &Session, ended: Ended) {
    session.stats.add_ended(1);
    // Fails only when the settler is gone, which means that the process is on its way out.
    let _ = session.outcomes.send(ended).await;
}

async fn execute(session: &Arc<Session>, claimed: Claimed) -> Ended {
    let no_receipt = Some(Receipt::default());
    if claimed.expired {
        let outcome = Outcome::Expired(expired(&claimed));
        return ended(&claimed, outcome, no_receipt, &Backoff::default());
    }
    if claimed.lost > 0
        && let Err(reason) = mark_suspect(session, &claimed).await
    {
        let problem = Problem::new(format!("the suspect could not be marked: {reason}"));
        let outcome = Outcome::HandedBack(HandBack::HostFault, problem);
        return ended(&claimed, outcome, no_receipt, &Backoff::default());
    }
    let (release, handler) = match handler(session, &claimed).await {
        Ok(found) => found,
        Err(outcome) => return ended(&claimed, outcome, no_receipt, &Backoff::default()),
    };
    let control = Control::new();
    let running = Running {
        token: claimed.token,
        claim: claimed.claim,
        attempt: claimed.attempt,
        control: control.clone(),
    };
    session.enter(claimed.id, running);
    // The order to stop may have come between the claim and the entry.
    if session.closing.is_cancelled() {
        session.leave(claimed.id);
        return not_started(&claimed, &release.backoff);
    }
    let (claimed, attempt) = split(claimed, &release);
    let mut limits = release.limits;
    let options = claimed.options.as_deref();
    if let Some(timeout_ms) = options.and_then(|options| options.timeout_ms) {
        limits.timeout_ms = limits.timeout_ms.min(timeout_ms);
    }
    let run = session.sandbox.run_here(&handler, attempt, &limits, control);
    let Report { outcome, receipt, log } = run.await;
    session.leave(claimed.id);
    let backoff = options.and_then(|options| options.backoff.as_ref()).unwrap_or(&release.backoff);
    let mut ended = ended(&claimed, outcome, Some(receipt), backoff);
    ended.log = log;
    ended
}

fn expired(claimed: &Claimed) -> Problem {
    let at = claimed.options.as_deref().and_then(|options| options.expires_at);
    let at = at.map(|at| format!(" at {}", at.to_rfc3339())).unwrap_or_default();
    let mut problem = Problem::new(format!("the job was not started before it expired{at}"));
    problem.advice =
        Some("Retry it if it is still wanted: the new job does not expire.".to_owned());
    problem
}

async fn mark_suspect(session: &Session, claimed: &Claimed) -> Result<(), String> {
    let (database, runner, job) = (session.database.clone(), session.runner, claimed.id);
    let mark = async move { database.mark_suspect(runner, Some(job)).await };
    match session.call(mark).await {
        Some(marked) => marked.map_err(|error| error.to_string()),
        None => Err("the node is on its way out".to_owned()),
    }
}

/// The release and its handler, from memory if they are there.
async fn handler(
    session: &Session,
    claimed: &Claimed,
) -> Result<(Arc<RunnableRelease>, Handler), Outcome> {
    let (kind, release) = (claimed.kind_id, claimed.release);
    if let Some(found) = session.releases.ready(kind, release) {
        return Ok(found);
    }
    let releases = Arc::clone(&session.releases);
    let load = async move { releases.handler(kind, release).await };
    match session.call(load).await {
        Some(found) => found,
        None => {
            let problem = Problem::new("the node is on its way out");
            Err(Outcome::HandedBack(HandBack::Draining, problem))
        }
    }
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

/// Gives a job back when a panic of ours takes its slot, and all else that is known of it, away.
/// A future that catches panics would do too, and be copied with all that is in it for each job.
struct Unmoved<'a> {
    session: &'a Session,
    job: JobId,
    token: ClaimToken,
    claim: i64,
    attempt: u16,
    release: i32,
    suspect: bool,
}

impl<'a> Unmoved<'a> {
    fn of(session: &'a Session, job: &Claimed) -> Self {
        Unmoved {
            session,
            job: job.id,
            token: job.token,
            claim: job.claim,
            attempt: job.attempt,
            release: job.release,
            suspect: job.lost > 0,
        }
    }

    fn forget(self) {
        mem::forget(self);
    }
}

impl Drop for Unmoved<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // Dropped with its thread: the process is on its way out.
            return;
        }
        tracing::error!(job.id = %self.job, "the node broke down around an attempt");
        let message = "a fault in the node, not in the handler";
        let outcome = Outcome::HandedBack(HandBack::HostFault, Problem::new(message));
        let ended = Ended {
            job_id: self.job,
            token: self.token,
            claim: self.claim,
            attempt: self.attempt,
            release: Some(self.release),
            code: outcome.code(),
            next: Next::HandBack(NODE_FAULT_DELAY),
            problem: outcome.problem(),
            result: None,
            receipt: Some(Receipt::default()),
            log: Vec::new(),
        };
        self.session.leave(self.job);
        // With no room, or nobody to hear it, the sweep gives the job back when the runner ends.
        let _ = self.session.outcomes.try_send(ended);
        self.session.slots.broke(self.suspect);
    }
}

/// A job that never started is as if it had not been claimed.
fn not_started(claimed: &Claimed, backoff: &Backoff) -> Ended {
    let outcome = Outcome::HandedBack(HandBack::Draining, Problem::new("not started"));
    ended(claimed, outcome, None, backoff)
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
        claim: claimed.claim,
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
