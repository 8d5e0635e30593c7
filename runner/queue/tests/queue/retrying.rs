//! Running ended jobs again: once each, as a new job that is linked to the old one.

use chrono::{TimeDelta, Utc};
use serde_json::json;
use stokehold_domain::{Blob, JobId, JobState, Limits, Next};
use stokehold_queue::{CancelAnswer, EndedFilter, LiveFilter, NewJob, Retried, Retry};

use crate::support::{Queue, completed, ended, job};

impl Queue {
    /// A job that ended this way.
    async fn ended_as(&self, kind: &str, state: JobState, outcome: &'static str) -> JobId {
        let id = self.job(kind).await;
        let kind_id = self.database.kind(kind).await.unwrap().unwrap().id;
        let runner = self.runner().await;
        let claimed = self.claim_one(runner, kind_id).await;
        assert_eq!(claimed.id, id);
        self.settle(runner, ended(&claimed, outcome, Next::Finish(state))).await;
        id
    }

    async fn retry(&self, id: JobId) -> Retried {
        self.database.retry(id, &Retry::default()).await.unwrap()
    }
}

fn retried(answer: Retried) -> JobId {
    match answer {
        Retried::As(id) => id,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_retry_is_a_new_job_like_the_old_one_and_each_tells_of_the_other() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    let spec = NewJob {
        priority: Some(-7),
        max_attempts: Some(3),
        metadata: Some(json!({"customer": 42})),
        payload: Blob { media_type: "a/b".into(), bytes: vec![0, 255] },
        ..job("work")
    };
    let old = queue.database.enqueue(&[spec]).await.unwrap()[0];
    let lanes = [stokehold_queue::LaneQuota { priority: -7, ..crate::support::lane(kind, 1) }];
    let claim = crate::support::next_claim();
    let claimed = queue.database.claim(runner, &claim, &lanes).await.unwrap().remove(0);
    assert_eq!(queue.retry(old).await, Retried::Live);
    let lost = ended(&claimed, "handler.permanent", Next::Finish(JobState::Discarded));
    queue.settle(runner, lost).await;
    let record = queue.ended(old).await;
    let new = retried(queue.retry(old).await);
    assert!(new > old);
    assert_eq!(queue.ended(old).await, record, "the record stays as it was");
    let (old, new) = (
        queue.database.job(old).await.unwrap().unwrap(),
        queue.database.job(new).await.unwrap().unwrap(),
    );
    assert_eq!((old.retried_as, old.retry_of), (Some(new.summary.id), None));
    assert_eq!((new.retried_as, new.retry_of), (None, Some(old.summary.id)));
    assert_eq!((new.summary.state, new.summary.attempt), (JobState::Available, 0));
    assert_eq!((new.summary.priority, new.summary.max_attempts), (-7, 3));
    assert_eq!((&new.payload, &new.metadata), (&old.payload, &old.metadata));
    // Once.
    assert_eq!(queue.retry(old.summary.id).await, Retried::Before(new.summary.id));
    assert_eq!(queue.live_jobs().await, 1);
    // Then it is the new one's turn.
    queue.database.cancel(new.summary.id, "").await.unwrap();
    retried(queue.retry(new.summary.id).await);
}

#[tokio::test]
async fn a_completed_job_is_run_again_only_if_that_is_said() {
    let queue = Queue::new().await;
    queue.kind("work").await;
    let id = queue.ended_as("work", JobState::Completed, "ok").await;
    assert_eq!(queue.retry(id).await, Retried::Completed);
    let even = Retry { even_completed: true, ..Retry::default() };
    retried(queue.database.retry(id, &even).await.unwrap());
    assert_eq!(queue.retry(JobId(999)).await, Retried::Unknown);
}

#[tokio::test]
async fn a_retry_may_have_another_payload_time_and_release() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    let module = queue.module(9).await;
    queue.database.create_release("work", module, &Limits::DEFAULT, false).await.unwrap();
    let id = queue.ended_as("work", JobState::Discarded, "handler.permanent").await;
    let pinned = |release| Retry { release: Some(release), ..Retry::default() };
    assert_eq!(queue.database.retry(id, &pinned(3)).await.unwrap(), Retried::NoRelease);
    let big = Blob { media_type: "a/b".into(), bytes: vec![0; (1 << 20) + 1] };
    let refused = queue.database.retry(id, &Retry { payload: Some(big), ..pinned(2) }).await;
    assert!(refused.unwrap_err().to_string().contains("at most 1048576"));
    assert_eq!(queue.live_jobs().await, 0);
    let later = Utc::now() + TimeDelta::hours(1);
    let wish =
        Retry { payload: Some(Blob::json("{\"n\": 1.0}")), run_at: Some(later), ..pinned(2) };
    let new = retried(queue.database.retry(id, &wish).await.unwrap());
    let record = queue.database.job(new).await.unwrap().unwrap();
    assert_eq!((record.summary.state, record.release), (JobState::Scheduled, Some(2)));
    assert_eq!(record.payload.bytes, b"{\"n\": 1.0}");
    queue.run("update stokehold.jobs set run_at = now() - interval '1 s'").await;
    queue.release_due().await;
    // Whatever is active: in a claim, in a turn and in the answer to a lost claim.
    let claim = crate::support::next_claim();
    let lanes = [crate::support::lane(kind, 1)];
    let turn = queue.database.turn(runner, &[], &claim, &lanes).await.unwrap();
    assert_eq!(turn.claimed[0].release, 2);
    let again = queue.database.reclaim(runner, claim.number).await.unwrap();
    assert_eq!(again[0].release, 2);
    let handed_back = crate::support::handed_back(&turn.claimed[0]);
    queue.settle(runner, handed_back).await;
    assert_eq!(queue.claim_one(runner, kind).await.release, 2);
}

#[tokio::test]
async fn two_retries_of_one_job_at_once_make_one() {
    let queue = Queue::new().await;
    queue.kind("work").await;
    let id = queue.ended_as("work", JobState::Cancelled, "cancelled").await;
    let mut both = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let database = queue.database.clone();
        both.spawn(async move { database.retry(id, &Retry::default()).await.unwrap() });
    }
    let answers = both.join_all().await;
    let made: Vec<JobId> = answers
        .iter()
        .filter_map(|answer| match answer {
            Retried::As(id) => Some(*id),
            _ => None,
        })
        .collect();
    assert_eq!(made.len(), 1);
    let told = answers.iter().filter(|answer| **answer == Retried::Before(made[0])).count();
    assert_eq!((told, queue.live_jobs().await), (7, 1));
}

#[tokio::test]
async fn a_filter_finds_what_did_not_complete_and_was_not_retried() {
    use JobState::{Cancelled, Completed, Discarded};
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    queue.kind("other").await;
    queue.ended_as("work", Completed, "ok").await;
    let fuel = queue.ended_as("work", Discarded, "limit.fuel").await;
    let time = queue.ended_as("work", Discarded, "limit.time").await;
    let limits = queue.ended_as("work", Discarded, "limits").await;
    let gone = queue.ended_as("work", Cancelled, "cancelled").await;
    queue.ended_as("other", Discarded, "limit.fuel").await;
    queue.job("work").await;
    let work = || EndedFilter { kind: Some(kind), ..EndedFilter::default() };
    let outcome = |code: &str| EndedFilter { outcome: Some(code.to_owned()), ..work() };
    let now = Utc::now() + TimeDelta::minutes(1);
    for (filter, found) in [
        (EndedFilter::default(), 5),
        (work(), 4),
        (EndedFilter { states: vec![Discarded], ..work() }, 3),
        (EndedFilter { states: vec![Cancelled], ..work() }, 1),
        (outcome("limit"), 2),
        (outcome("limit.fuel"), 1),
        (outcome("%"), 0),
        (EndedFilter { ended_from: Some(now), ..work() }, 0),
        (EndedFilter { ended_before: Some(now), ..work() }, 4),
    ] {
        assert_eq!(queue.database.count_ended(&filter, 100).await.unwrap(), found, "{filter:?}");
    }
    assert_eq!(queue.database.count_ended(&work(), 2).await.unwrap(), 2);
    // Page by page.
    let retry = Retry::default();
    let filter = work();
    let page = |after| queue.database.retry_ended(&filter, &retry, after, 3);
    let (retried, last) = page_of(page(JobId(0)).await);
    assert_eq!((retried, last), (3, Some(limits)));
    let (retried, last) = page_of(page(limits).await);
    assert_eq!((retried, last), (1, Some(gone)));
    assert_eq!(page_of(page(gone).await), (0, None));
    assert_eq!(queue.database.count_ended(&work(), 100).await.unwrap(), 0);
    for id in [fuel, time, limits, gone] {
        assert!(queue.database.job(id).await.unwrap().unwrap().retried_as.is_some());
    }
}

fn page_of<E: std::fmt::Debug>(answer: Result<(i64, Option<JobId>), E>) -> (i64, Option<JobId>) {
    answer.unwrap()
}

#[tokio::test]
async fn many_are_cancelled_by_a_filter_and_each_once() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    queue.kind("other").await;
    let ids = queue.jobs("work", 5).await;
    let other = queue.job("other").await;
    let running = queue.claim(runner, kind, 1).await.remove(0);
    let work = LiveFilter { kind: Some(kind), ..LiveFilter::default() };
    let of = |states: &[JobState]| LiveFilter { states: states.to_vec(), ..work.clone() };
    let elsewhere = LiveFilter { queue: Some("media".to_owned()), ..work.clone() };
    let early = Some(Utc::now() - TimeDelta::hours(1));
    let old = LiveFilter { enqueued_before: early, ..work.clone() };
    for (filter, found) in [
        (&work, 5),
        (&of(&[JobState::Available]), 4),
        (&of(&[JobState::Running]), 1),
        (&of(&[JobState::Scheduled, JobState::Retryable]), 0),
        (&elsewhere, 0),
        (&old, 0),
    ] {
        assert_eq!(queue.database.count_live(filter, 100).await.unwrap(), found, "{filter:?}");
    }
    let done = queue.database.cancel_live(&work, "all of it", JobId(0), 3).await.unwrap();
    assert_eq!((done.cancelled, done.requested, done.last), (2, 1, Some(ids[2])));
    let done = queue.database.cancel_live(&work, "all of it", ids[2], 3).await.unwrap();
    assert_eq!((done.cancelled, done.requested, done.last), (2, 0, Some(ids[4])));
    // What was asked for is not asked for again.
    assert_eq!(queue.database.count_live(&work, 100).await.unwrap(), 0);
    assert_eq!(queue.database.cancel_requests().await.unwrap()[0].reason, "all of it");
    assert_eq!(queue.state(other).await, JobState::Available);
    queue.settle(runner, completed(&running)).await;
    let again = queue.database.cancel(ids[1], "").await.unwrap();
    assert_eq!(again, CancelAnswer::Ended(JobState::Cancelled));
}

#[tokio::test]
async fn retrying_is_part_of_the_sql_contract_and_a_right_of_its_own() {
    let queue = Queue::new().await;
    queue.kind("work").await;
    let id = queue.ended_as("work", JobState::Discarded, "handler.permanent").await;
    let done = queue.ended_as("work", JobState::Completed, "ok").await;
    queue
        .run(
            "create role retry_app; grant usage on schema stokehold to retry_app;
             grant execute on function stokehold.enqueue to retry_app",
        )
        .await;
    let (code, _) =
        queue.refused(format!("set local role retry_app; select stokehold.retry({id})")).await;
    assert_eq!(code, "42501");
    queue.run("grant execute on function stokehold.retry to retry_app").await;
    // In the caller's transaction: rolled back it never was.
    let mut transaction = queue.pool.begin().await.unwrap();
    sqlx::query("select stokehold.retry($1)").bind(id.0).execute(&mut *transaction).await.unwrap();
    transaction.rollback().await.unwrap();
    assert_eq!(queue.live_jobs().await, 0);
    let with = format!(
        "set local role retry_app; select stokehold.retry({id}, payload => '\"new\"', release => 1)"
    );
    queue.run(with).await;
    let new: i64 = queue.value("select max(id) from stokehold.jobs").await;
    let payload = queue.database.job(JobId(new)).await.unwrap().unwrap().payload;
    assert_eq!(payload, Blob::json("\"new\""));
    for (sql, state, words) in [
        (format!("select stokehold.retry({id})"), "SH409", format!("retried before, as job {new}")),
        (format!("select stokehold.retry({new})"), "SH409", "has not ended".to_owned()),
        (format!("select stokehold.retry({done})"), "SH409", "is completed".to_owned()),
        ("select stokehold.retry(999)".to_owned(), "SH404", "there is no job 999".to_owned()),
        (
            format!("select stokehold.retry({done}, release => 7, even_completed => true)"),
            "SH404",
            "no release 7".to_owned(),
        ),
    ] {
        let (code, message) = queue.refused(sql).await;
        assert_eq!(code, state, "{message}");
        assert!(message.contains(&words), "{message}");
    }
    queue.run("drop owned by retry_app; drop role retry_app").await;
}

#[tokio::test]
async fn links_from_records_that_are_gone_are_forgotten() {
    let queue = Queue::new().await;
    queue.kind("work").await;
    let kept = queue.ended_as("work", JobState::Cancelled, "cancelled").await;
    retried(queue.retry(kept).await);
    queue
        .run(
            "update stokehold.retries set retried_at = now() - interval '2 days';
             insert into stokehold.retries values (-1, -2, now() - interval '2 days'), (-3, -4, now())",
        )
        .await;
    queue.database.keep_partitions().await.unwrap();
    let links = queue.rows("select of_job from stokehold.retries order by 1").await;
    assert_eq!(links, [json!({"of_job": -3}), json!({"of_job": kept.0})]);
}
