//! Cancelling: what waits ends at once, for what runs a request is left.

use std::time::Duration;

use stokehold_domain::{JobId, JobState, Next};
use stokehold_queue::{CancelAnswer, CancelRequest, Fate, Hint, Horizon, NewJob, WakeListener};

use crate::support::{PATIENCE, Queue, completed, ended, job, lane, next_claim, retried};

#[tokio::test]
async fn every_waiting_state_is_cancelled_at_once() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    let later = chrono::Utc::now() + chrono::TimeDelta::hours(1);
    let scheduled =
        queue.database.enqueue(&[NewJob { run_at: Some(later), ..job("work") }]).await.unwrap()[0];
    let retryable = queue.job("work").await;
    let claimed = queue.claim_one(runner, kind).await;
    queue.settle(runner, retried(&claimed, Duration::from_secs(60))).await;
    let pending = queue.job("work").await;
    queue
        .run(format!(
            "with parked as (delete from stokehold.ready where job_id = {pending})
             update stokehold.jobs set state = 'pending', position = null where id = {pending}"
        ))
        .await;
    let available = queue.job("work").await;
    for (id, state) in [
        (scheduled, JobState::Scheduled),
        (retryable, JobState::Retryable),
        (pending, JobState::Pending),
        (available, JobState::Available),
    ] {
        assert_eq!(queue.state(id).await, state);
        let before = queue.live(id).await.unwrap();
        let answer = queue.database.cancel(id, "not wanted\0").await.unwrap();
        assert_eq!(answer, CancelAnswer::Cancelled, "{state}");
        assert_eq!(queue.live(id).await, None);
        let history = queue.ended(id).await.unwrap();
        assert_eq!(history["state"], "cancelled");
        assert_eq!(history["outcome"], "cancelled");
        assert_eq!(history["problem"]["message"], "not wanted\u{fffd}");
        for column in ["token", "attempt", "payload", "enqueued_at", "kind_id"] {
            assert_eq!(history[column], before[column], "{state} {column}");
        }
        let again = queue.database.cancel(id, "not wanted").await.unwrap();
        assert_eq!(again, CancelAnswer::Ended(JobState::Cancelled));
        assert_eq!(queue.ended(id).await.unwrap(), history);
    }
    // No attempt was made of the cancelling.
    assert!(queue.database.attempts(available).await.unwrap().is_empty());
}

/// Requests that stand.
async fn requests(queue: &Queue) -> Vec<i64> {
    let requests = queue.database.cancel_requests().await.unwrap();
    requests.into_iter().map(|request| request.job_id.0).collect()
}

/// What a look says of them.
async fn cancels_seen(queue: &Queue) -> bool {
    queue.database.tick(&mut Horizon::default(), None).await.unwrap().cancels
}

#[tokio::test]
async fn for_a_running_job_a_request_is_left_until_it_has_ended() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    let id = queue.job("work").await;
    let claimed = queue.claim_one(runner, kind).await;
    let mut waking = WakeListener::connect(&queue.database).await.unwrap();
    for _ in 0..2 {
        assert_eq!(queue.database.cancel(id, "no").await.unwrap(), CancelAnswer::Requested);
    }
    let heard = tokio::time::timeout(PATIENCE, waking.heard()).await.unwrap().unwrap();
    assert_eq!(heard, Hint::Cancel);
    let asked = queue.database.cancel_requests().await.unwrap();
    assert_eq!(asked, [CancelRequest { job_id: id, reason: "no".to_owned() }]);
    assert!(cancels_seen(&queue).await);
    // It runs: there is nothing to follow.
    assert_eq!(queue.database.follow_cancels().await.unwrap(), 0);
    assert_eq!(requests(&queue).await, [id.0]);
    assert_eq!(queue.settle(runner, completed(&claimed)).await, Fate::Applied);
    assert_eq!(queue.database.follow_cancels().await.unwrap(), 0);
    assert!(requests(&queue).await.is_empty());
    assert!(!cancels_seen(&queue).await);
    assert_eq!(queue.state(id).await, JobState::Completed);
}

#[tokio::test]
async fn a_job_that_comes_to_wait_while_it_is_to_be_cancelled_is_not_tried_again() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    for delay in [Duration::ZERO, Duration::from_secs(60)] {
        let id = queue.job("work").await;
        let claimed = queue.claim_one(runner, kind).await;
        assert_eq!(queue.database.cancel(id, "no").await.unwrap(), CancelAnswer::Requested);
        queue.settle(runner, retried(&claimed, delay)).await;
        assert_eq!(queue.database.follow_cancels().await.unwrap(), 1);
        assert_eq!(queue.state(id).await, JobState::Cancelled);
        assert_eq!(queue.ended(id).await.unwrap()["problem"]["message"], "no");
        assert!(requests(&queue).await.is_empty());
    }
    assert_eq!(queue.value::<i64>("select count(*) from stokehold.ready").await, 0);
}

#[tokio::test]
async fn the_sql_contract_cancels_in_the_callers_transaction_and_only_for_whom_it_is_granted() {
    let queue = Queue::new().await;
    queue.kind("work").await;
    let id = queue.job("work").await;
    let cancel = async |connection: &mut sqlx::PgConnection, id: JobId| -> String {
        let call = sqlx::query_scalar("select stokehold.cancel($1, 'by hand')").bind(id.0);
        call.fetch_one(connection).await.unwrap()
    };
    let mut caller = queue.pool.begin().await.unwrap();
    assert_eq!(cancel(&mut caller, id).await, "cancelled");
    caller.rollback().await.unwrap();
    assert_eq!(queue.state(id).await, JobState::Available);
    let mut caller = queue.pool.acquire().await.unwrap();
    assert_eq!(cancel(&mut caller, id).await, "cancelled");
    assert_eq!(cancel(&mut caller, id).await, "was-cancelled");
    assert_eq!(cancel(&mut caller, JobId(-1)).await, "unknown");
    assert_eq!(queue.ended(id).await.unwrap()["problem"]["message"], "by hand");
    // The other function works with the caller's own rights, so that it gives none away.
    let safe =
        "select not has_function_privilege('public', 'stokehold.cancel(bigint, text)', 'execute')
                and not (select prosecdef from pg_proc
                  where oid = 'stokehold.cancel_job(bigint, jsonb)'::regprocedure)";
    assert!(queue.value::<bool>(safe).await);
}

#[tokio::test]
async fn what_has_ended_or_never_was_is_named() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    for (state, code) in [
        (JobState::Completed, "ok"),
        (JobState::Discarded, "handler.permanent"),
        (JobState::Cancelled, "handler.cancel"),
    ] {
        let id = queue.job("work").await;
        let claimed = queue.claim_one(runner, kind).await;
        queue.settle(runner, ended(&claimed, code, Next::Finish(state))).await;
        let before = queue.everything().await;
        let answer = queue.database.cancel(id, "no").await.unwrap();
        assert_eq!(answer, CancelAnswer::Ended(state));
        assert_eq!(queue.everything().await, before);
    }
    for id in [0, -1, i64::MAX] {
        let answer = queue.database.cancel(JobId(id), "no").await.unwrap();
        assert_eq!(answer, CancelAnswer::Unknown);
    }
}

#[tokio::test]
async fn of_a_cancel_and_a_claim_that_race_exactly_one_wins() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    let mut cancelled = 0;
    for _ in 0..150 {
        let id = queue.job("work").await;
        let lanes = [lane(kind, 1)];
        let number = next_claim();
        let (answer, claimed) = tokio::join!(
            queue.database.cancel(id, "no"),
            queue.database.claim(runner, &number, &lanes)
        );
        let (answer, claimed) = (answer.unwrap(), claimed.unwrap());
        match answer {
            CancelAnswer::Cancelled => {
                assert!(claimed.is_empty(), "job {id} was cancelled and claimed");
                assert_eq!(queue.state(id).await, JobState::Cancelled);
                cancelled += 1;
            }
            CancelAnswer::Requested => {
                assert_eq!(claimed.len(), 1);
                assert_eq!(queue.settle(runner, completed(&claimed[0])).await, Fate::Applied);
                assert_eq!(queue.state(id).await, JobState::Completed);
            }
            other => panic!("job {id}: {other:?}"),
        }
        assert!(queue.ended(id).await.is_some());
        assert_eq!(queue.live_jobs().await, 0);
    }
    println!("{cancelled} of 150 were cancelled");
}

#[tokio::test]
async fn a_cancel_that_waits_for_a_claim_finds_the_job_running() {
    let queue = Queue::new().await;
    queue.kind("work").await;
    let runner = queue.runner().await;
    let id = queue.job("work").await;
    // A claim that is not committed yet, held open by hand.
    let mut claim = queue.pool.begin().await.unwrap();
    sqlx::query(
        "with taken as (delete from stokehold.ready where job_id = $1)
         insert into stokehold.claims (runner_id, number, job_ids) values ($2, 0, array[$1::bigint])",
    )
    .bind(id.0)
    .bind(runner.0)
    .execute(&mut *claim)
    .await
    .unwrap();
    let (answer, ()) = tokio::join!(queue.database.cancel(id, "no"), async {
        queue.until_blocked(1).await;
        claim.commit().await.unwrap();
    });
    assert_eq!(answer.unwrap(), CancelAnswer::Requested);
    assert_eq!(queue.state(id).await, JobState::Running);
}

#[tokio::test]
async fn a_cancel_that_waits_for_a_tick_finds_the_job_available_and_cancels_it() {
    let queue = Queue::new().await;
    queue.kind("work").await;
    let later = chrono::Utc::now() + chrono::TimeDelta::hours(1);
    let scheduled = NewJob { run_at: Some(later), ..job("work") };
    let id = queue.database.enqueue(&[scheduled]).await.unwrap()[0];
    // A tick that releases the job and is not committed yet, held open by hand.
    let mut tick = queue.pool.begin().await.unwrap();
    sqlx::query(
        "with released as (
           update stokehold.jobs set state = 'available', position = nextval('stokehold.positions')
           where id = $1 returning id, kind_id, priority, position)
         insert into stokehold.ready (kind_id, priority, position, job_id)
         select kind_id, priority, position, id from released",
    )
    .bind(id.0)
    .execute(&mut *tick)
    .await
    .unwrap();
    let (answer, ()) = tokio::join!(queue.database.cancel(id, "no"), async {
        queue.until_blocked(1).await;
        tick.commit().await.unwrap();
    });
    assert_eq!(answer.unwrap(), CancelAnswer::Cancelled);
    assert_eq!(queue.value::<i64>("select count(*) from stokehold.ready").await, 0);
}
