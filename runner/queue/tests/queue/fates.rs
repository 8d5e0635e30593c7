//! The answers to a write: each is final, and only `Applied` changed something.

use std::time::Duration;

use stokehold_domain::{JobId, Next, Problem};
use stokehold_queue::{CancelAnswer, Claimed, Ended, Fate};

use crate::support::{LEASE, Queue, completed, ended, handed_back, retried, under};

const MINUTE: Duration = Duration::from_secs(60);

/// One outcome of every kind for a claim.
fn every_end(job: &Claimed) -> Vec<Ended> {
    vec![
        completed(job),
        retried(job, MINUTE),
        ended(job, "handler.snooze", Next::Snooze(MINUTE)),
        ended(job, "host.fault", Next::HandBack(MINUTE)),
        ended(job, "node.draining", Next::HandBack(Duration::ZERO)),
        handed_back(job),
    ]
}

#[tokio::test]
async fn asked_twice_the_second_answer_is_already_applied_and_nothing_changes() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    queue.jobs("work", 5).await;
    for (n, job) in queue.claim(runner, kind, 5).await.iter().enumerate() {
        let end = every_end(job).swap_remove(n);
        assert_eq!(queue.settle(runner, end.clone()).await, Fate::Applied, "{}", end.code);
        let before = queue.everything().await;
        for _ in 0..3 {
            let fate = queue.settle(runner, end.clone()).await;
            assert_eq!(fate, Fate::AlreadyApplied, "{}", end.code);
        }
        assert_eq!(queue.everything().await, before, "{}", end.code);
    }
}

#[tokio::test]
async fn a_late_result_with_an_old_token_changes_nothing() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    queue.job("work").await;
    let old = queue.claim_one(runner, kind).await;
    queue.settle(runner, handed_back(&old)).await;
    let current = queue.claim_one(runner, kind).await;
    assert_eq!(current.id, old.id);
    let before = queue.everything().await;
    for late in every_end(&old) {
        assert_eq!(queue.settle(runner, late.clone()).await, Fate::Stale, "{}", late.code);
        assert_eq!(queue.everything().await, before, "{}", late.code);
    }
    // Neither does one from the future.
    let early = under(completed(&current), current.token.0 + 1);
    assert_eq!(queue.settle(runner, early).await, Fate::Stale);
    assert_eq!(queue.everything().await, before);
    assert_eq!(queue.settle(runner, completed(&current)).await, Fate::Applied);
    assert_eq!(queue.settle(runner, completed(&old)).await, Fate::Gone);
}

#[tokio::test]
async fn another_runners_result_changes_nothing() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let (owner, other) = (queue.runner().await, queue.runner().await);
    queue.job("work").await;
    let claimed = queue.claim_one(owner, kind).await;
    let before = queue.everything().await;
    for end in every_end(&claimed) {
        assert_eq!(queue.settle(other, end.clone()).await, Fate::Stale, "{}", end.code);
        assert_eq!(queue.everything().await, before, "{}", end.code);
    }
    assert_eq!(queue.settle(owner, completed(&claimed)).await, Fate::Applied);
    assert_eq!(queue.settle(other, completed(&claimed)).await, Fate::Gone);
}

#[tokio::test]
async fn a_result_after_the_sweep_is_stale_and_after_another_runners_end_gone() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let (lost, other) = (queue.runner().await, queue.runner().await);
    let id = queue.job("work").await;
    let old = queue.claim_one(lost, kind).await;
    queue.expire(lost, 1.0).await;
    queue.database.reap(LEASE).await.unwrap();
    let before = queue.everything().await;
    for late in every_end(&old) {
        assert_eq!(queue.settle(lost, late.clone()).await, Fate::Stale, "{}", late.code);
        assert_eq!(queue.everything().await, before, "{}", late.code);
    }
    let current = queue.claim_one(other, kind).await;
    assert_eq!(queue.settle(lost, completed(&old)).await, Fate::Stale);
    assert_eq!(queue.settle(other, completed(&current)).await, Fate::Applied);
    assert_eq!(queue.settle(lost, completed(&old)).await, Fate::Gone);
    assert_eq!(queue.ended(id).await.unwrap()["runner_id"], other.0);
}

#[tokio::test]
async fn a_result_before_the_sweep_counts_even_if_the_lease_is_over() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    queue.job("work").await;
    let claimed = queue.claim_one(runner, kind).await;
    queue.expire(runner, 1.0).await;
    assert_eq!(queue.settle(runner, completed(&claimed)).await, Fate::Applied);
    let reaped = queue.database.reap(LEASE).await.unwrap();
    assert_eq!((reaped.runners, reaped.available, reaped.discarded), (1, 0, 0));
}

#[tokio::test]
async fn a_result_for_a_job_that_was_cancelled_or_never_was_is_gone() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    let id = queue.job("work").await;
    let claimed = queue.claim_one(runner, kind).await;
    queue.settle(runner, handed_back(&claimed)).await;
    assert_eq!(queue.database.cancel(id, "no").await.unwrap(), CancelAnswer::Cancelled);
    let before = queue.everything().await;
    for late in every_end(&claimed) {
        assert_eq!(queue.settle(runner, late.clone()).await, Fate::Gone, "{}", late.code);
        let unknown = Ended { job_id: JobId(i64::MAX), ..late };
        assert_eq!(queue.settle(runner, unknown).await, Fate::Gone);
    }
    assert_eq!(queue.everything().await, before);
}

#[tokio::test]
async fn a_mixed_batch_is_answered_in_its_own_order() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let (runner, other) = (queue.runner().await, queue.runner().await);
    queue.jobs("work", 6).await;
    let jobs = queue.claim(runner, kind, 5).await;
    let theirs = queue.claim_one(other, kind).await;
    queue.settle(runner, completed(&jobs[0])).await;
    queue.settle(runner, retried(&jobs[1], MINUTE)).await;
    let batch = [
        completed(&theirs),
        retried(&jobs[4], MINUTE),
        Ended { job_id: JobId(i64::MAX), ..completed(&jobs[2]) },
        completed(&jobs[3]),
        completed(&jobs[0]),
        under(completed(&jobs[2]), 99),
        retried(&jobs[1], MINUTE),
    ];
    use Fate::{AlreadyApplied, Applied, Gone, Stale};
    assert_eq!(
        queue.database.settle(runner, &batch).await.unwrap(),
        [Stale, Applied, Gone, Applied, AlreadyApplied, Stale, AlreadyApplied]
    );
}

#[tokio::test]
async fn two_claims_of_one_job_in_a_batch_are_each_answered_for_themselves() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    for (first, wanted) in [
        (handed_back as fn(&Claimed) -> Ended, Fate::Stale),
        (|job: &Claimed| retried(job, Duration::ZERO), Fate::AlreadyApplied),
    ] {
        queue.run("truncate stokehold.jobs, stokehold.ready, stokehold.claims").await;
        queue.job("work").await;
        let old = queue.claim_one(runner, kind).await;
        queue.settle(runner, first(&old)).await;
        queue.release_due().await;
        let current = queue.claim_one(runner, kind).await;
        assert_eq!(current.id, old.id);
        // While the newer one is applied, then with neither.
        let batch = [retried(&old, MINUTE), retried(&current, MINUTE)];
        let fates = queue.database.settle(runner, &batch).await.unwrap();
        assert_eq!(fates, [wanted, Fate::Applied]);
        let fates = queue.database.settle(runner, &batch).await.unwrap();
        assert_eq!(fates, [wanted, Fate::AlreadyApplied]);
        let never = [under(batch[0].clone(), 77), batch[1].clone(), batch[0].clone()];
        let fates = queue.database.settle(runner, &never).await.unwrap();
        assert_eq!(fates, [Fate::Stale, Fate::AlreadyApplied, wanted]);
    }
}

#[tokio::test]
async fn a_started_job_handed_back_by_a_runner_that_lost_its_lease_is_answered_like_any_other() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    queue.job("work").await;
    let claimed = queue.claim_one(runner, kind).await;
    let lost = Ended {
        problem: Some(Problem::new("the lease was lost")),
        ..ended(&claimed, "node.lost", Next::HandBack(Duration::ZERO))
    };
    assert_eq!(queue.settle(runner, lost.clone()).await, Fate::Applied);
    // Told from what the sweep writes by the release that ran.
    assert_eq!(queue.settle(runner, lost).await, Fate::AlreadyApplied);
}

#[tokio::test]
async fn of_many_that_write_the_same_outcome_one_is_applied() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    for round in 0..20 {
        let id = queue.job("work").await;
        let claimed = queue.claim_one(runner, kind).await;
        let end = if round % 2 == 0 { completed(&claimed) } else { retried(&claimed, MINUTE) };
        let batch = [end];
        let settle = || queue.database.settle(runner, &batch);
        let (a, b, c, d) = tokio::join!(settle(), settle(), settle(), settle());
        let mut fates = [a, b, c, d].map(|fates| fates.unwrap()[0]);
        fates.sort_by_key(|fate| *fate != Fate::Applied);
        use Fate::{AlreadyApplied, Applied};
        assert_eq!(fates, [Applied, AlreadyApplied, AlreadyApplied, AlreadyApplied]);
        let records = queue.database.attempts(id).await.unwrap();
        assert_eq!(records.len(), 1);
    }
}
