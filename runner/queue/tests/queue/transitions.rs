//! The domain's table of transitions against what the statements do.

use std::time::Duration;

use stokehold_domain::state::{Actor, TRANSITIONS};
use stokehold_domain::{ClaimToken, JobId, JobState, KindId, Next, RunnerId};
use stokehold_queue::{CancelAnswer, Ended, Fate, Horizon, reaper};

use crate::support::{LEASE, Queue, ended, lane, next_claim};
use JobState::{
    Available, Cancelled, Completed, Discarded, Pending, Retryable, Running, Scheduled,
};

const MINUTE: Duration = Duration::from_secs(60);

/// A job that stands in this state, due and held by the runner if it runs.
async fn job_in(queue: &Queue, kind: KindId, state: JobState, runner: RunnerId) -> JobId {
    let (position, row) = match state {
        Available => ("nextval('stokehold.positions')", Available),
        // To be told by its claim.
        Running => ("1", Available),
        waiting => ("null", waiting),
    };
    let id: i64 = queue
        .value(format!(
            "insert into stokehold.jobs (position, token, run_at, kind_id, state, priority, attempt,
               max_attempts, lost, payload)
             values ({position}, 0, clock_timestamp(), {kind}, '{row}', 0, 0, 3, {lost}, '')
             returning id",
            lost = reaper::MAX_LOST - 1,
        ))
        .await;
    if state == Running {
        queue
            .run(format!(
                "insert into stokehold.claims (runner_id, number, token, job_ids)
                 values ({runner}, 0, 5, array[{id}])"
            ))
            .await;
    }
    if state == Available {
        queue
            .run(format!(
                "insert into stokehold.ready (kind_id, priority, position, job_id)
                 select kind_id, priority, position, id from stokehold.jobs where id = {id}"
            ))
            .await;
    }
    JobId(id)
}

fn end_of(id: JobId, next: Next) -> Ended {
    Ended {
        job_id: id,
        token: ClaimToken(5),
        claim: 0,
        attempt: 1,
        release: Some(1),
        code: "ok",
        next,
        result: None,
        problem: None,
        receipt: None,
        log: Vec::new(),
    }
}

/// What a runner says to make a running job become this; `None` for what no runner can say.
fn next_for(state: JobState) -> Option<Next> {
    match state {
        Completed | Discarded | Cancelled => Some(Next::Finish(state)),
        Retryable => Some(Next::Retry(MINUTE)),
        Scheduled => Some(Next::Snooze(MINUTE)),
        Available => Some(Next::HandBack(Duration::ZERO)),
        Running | Pending => None,
    }
}

#[tokio::test]
async fn the_statements_perform_every_transition_of_the_table() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    for (from, to, actor) in TRANSITIONS {
        // Nothing makes a job pending yet, and so nothing frees one.
        if (*from, *to) == (Pending, Available) {
            continue;
        }
        let runner = queue.runner().await;
        let id = job_in(&queue, kind, *from, runner).await;
        match (from, actor) {
            (_, Actor::Client) => {
                let answer = queue.database.cancel(id, "no").await.unwrap();
                assert_eq!(answer, CancelAnswer::Cancelled);
            }
            (Running, Actor::Runner) => {
                let fate = queue.settle(runner, end_of(id, next_for(*to).unwrap())).await;
                assert_eq!(fate, Fate::Applied);
            }
            (Running, Actor::Sweep) => {
                let suspect = (*to == Discarded).then_some(id);
                queue.database.mark_suspect(runner, suspect).await.unwrap();
                queue.expire(runner, 1.0).await;
                queue.database.reap(LEASE).await.unwrap();
            }
            (_, Actor::Runner) => {
                queue.claim_one(runner, kind).await;
            }
            (_, Actor::Sweep) if *to == Discarded => {
                queue.run("update stokehold.jobs set expires_at = clock_timestamp()").await;
                assert_eq!(queue.database.end_expired().await.unwrap(), 1);
            }
            (_, Actor::Sweep) => {
                queue.database.tick(&mut Horizon::default(), None).await.unwrap();
            }
        }
        assert_eq!(queue.state(id).await, *to, "from {from} by {actor:?}");
        queue.run("truncate stokehold.jobs, stokehold.ready, stokehold.claims").await;
        queue.run("delete from stokehold.runners").await;
    }
}

#[tokio::test]
async fn no_statement_performs_a_transition_that_the_table_lacks() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    for state in [Scheduled, Available, Running, Retryable, Pending] {
        let owner = queue.runner().await;
        let id = job_in(&queue, kind, state, owner).await;
        let allowed = |to| {
            TRANSITIONS
                .iter()
                .filter(|t| t.0 == state && t.2 == to)
                .map(|t| t.1)
                .collect::<Vec<_>>()
        };
        let before = queue.everything().await;

        // A runner settles what it does not run, by the right token.
        let runner = queue.runner().await;
        for next in JobState::ALL.into_iter().filter_map(next_for) {
            if state == Running {
                break;
            }
            let end = Ended { receipt: None, ..end_of(id, next) };
            assert_eq!(queue.settle(runner, end).await, Fate::Stale, "{state} to {next:?}");
        }
        if state != Available {
            assert!(
                queue
                    .database
                    .claim(runner, &next_claim(), &[lane(kind, 9)])
                    .await
                    .unwrap()
                    .is_empty()
            );
        }
        if !allowed(Actor::Client).contains(&Cancelled) {
            let answer = queue.database.cancel(id, "no").await.unwrap();
            assert_eq!(answer, CancelAnswer::Requested);
        }
        // A sweep of a fleet in which nobody died.
        queue.database.reap(LEASE).await.unwrap();
        if !matches!(state, Scheduled | Retryable) {
            queue.database.tick(&mut Horizon::default(), None).await.unwrap();
        }
        assert_eq!(queue.everything().await, before, "{state}");

        // A sweep of one in which a runner died that holds nothing.
        queue.expire(runner, 1.0).await;
        queue.database.reap(LEASE).await.unwrap();
        assert_eq!(queue.everything().await, before, "{state}");
        queue.run("truncate stokehold.jobs, stokehold.ready, stokehold.claims").await;
        queue.run("delete from stokehold.runners").await;
    }
}

#[tokio::test]
async fn an_ended_job_never_changes_again() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    for state in [Completed, Discarded, Cancelled] {
        let id = queue.job("work").await;
        let claimed = queue.claim_one(runner, kind).await;
        queue.settle(runner, ended(&claimed, "ok", Next::Finish(state))).await;
        let before = queue.everything().await;
        for next in JobState::ALL.into_iter().filter_map(next_for) {
            let fate = queue.settle(runner, ended(&claimed, "ok", next)).await;
            assert_eq!(fate, Fate::AlreadyApplied, "{state} to {next:?}");
        }
        assert_eq!(queue.database.cancel(id, "no").await.unwrap(), CancelAnswer::Ended(state));
        assert!(queue.claim(runner, kind, 9).await.is_empty());
        queue.database.tick(&mut Horizon::default(), None).await.unwrap();
        queue.database.reap(LEASE).await.unwrap();
        assert_eq!(queue.everything().await, before, "{state}");
    }
}
