//! The records of claims: what a claim took is known to the database until all of it is answered.

use stokehold_queue::{ClaimNumber, Claimed};

use crate::support::{LEASE, Queue, completed, handed_back, lane, next_claim};

async fn recorded(queue: &Queue) -> Vec<i64> {
    queue
        .value("select coalesce(array_agg(number order by number), '{}') from stokehold.claims")
        .await
}

fn ids(jobs: &[Claimed]) -> Vec<i64> {
    jobs.iter().map(|job| job.id.0).collect()
}

#[tokio::test]
async fn a_claim_whose_answer_was_lost_is_asked_for_again() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    queue.jobs("work", 3).await;
    let number = next_claim();
    let claimed = queue.database.claim(runner, &number, &[lane(kind, 2)]).await.unwrap();
    let again = queue.database.reclaim(runner, number.number).await.unwrap();
    assert_eq!(ids(&again), ids(&claimed));
    assert_eq!(again[0].token, claimed[0].token, "it is the same claim");
    assert_eq!(again[0].payload, claimed[0].payload);
    // What is answered meanwhile, or belongs to others, is not part of it.
    queue.settle(runner, completed(&claimed[0])).await;
    let again = queue.database.reclaim(runner, number.number).await.unwrap();
    assert_eq!(ids(&again), ids(&claimed)[1..]);
    let other = queue.runner().await;
    assert!(queue.database.reclaim(other, number.number).await.unwrap().is_empty());
    assert!(queue.database.reclaim(runner, i64::MAX).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_job_claimed_again_is_no_part_of_the_first_claim() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    queue.job("work").await;
    let first = next_claim();
    let claimed = queue.database.claim(runner, &first, &[lane(kind, 1)]).await.unwrap();
    queue.settle(runner, handed_back(&claimed[0])).await;
    assert!(queue.database.reclaim(runner, first.number).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_claim_is_forgotten_when_its_runner_says_that_all_of_it_is_answered() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    queue.jobs("work", 4).await;
    let (first, second) = (next_claim(), next_claim());
    let taken = queue.database.claim(runner, &first, &[lane(kind, 2)]).await.unwrap();
    queue.database.claim(runner, &second, &[lane(kind, 1)]).await.unwrap();
    assert_eq!(recorded(&queue).await, [first.number, second.number]);
    for job in &taken {
        queue.settle(runner, completed(job)).await;
    }
    let third = ClaimNumber { answered: vec![first.number], ..next_claim() };
    queue.database.claim(runner, &third, &[lane(kind, 1)]).await.unwrap();
    assert_eq!(recorded(&queue).await, [second.number, third.number]);
    // One that gets nothing leaves nothing.
    queue.database.claim(runner, &next_claim(), &[lane(kind, 1)]).await.unwrap();
    assert_eq!(recorded(&queue).await, [second.number, third.number]);
    // Nor does another runner's word count.
    let other = queue.runner().await;
    let liar = ClaimNumber { answered: vec![second.number], ..next_claim() };
    queue.database.claim(other, &liar, &[lane(kind, 1)]).await.unwrap();
    assert_eq!(recorded(&queue).await, [second.number, third.number]);
}

#[tokio::test]
async fn the_sweep_forgets_a_dead_runners_claims_once_nothing_of_them_runs() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let (dead, live) = (queue.runner().await, queue.runner().await);
    queue.jobs("work", 3).await;
    queue.claim(dead, kind, 2).await;
    let kept = next_claim();
    queue.database.claim(live, &kept, &[lane(kind, 1)]).await.unwrap();
    queue.expire(dead, 1.0).await;
    let reaped = queue.database.reap(LEASE).await.unwrap();
    assert_eq!(reaped.available, 2);
    assert_eq!(recorded(&queue).await, [kept.number]);
}
