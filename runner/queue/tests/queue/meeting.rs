//! Statements that meet in the middle, where no lock that they wait for shows it.

use std::time::Duration;

use sqlx::{Connection, Executor};
use stokehold_domain::{JobId, RunnerId};
use stokehold_queue::{
    Claimed, Database, DatabaseOptions, Edit, Edited, Ended, Fate, LaneQuota, Plans,
};
use tokio::task::JoinHandle;

use crate::support::{Queue, completed, job, lane, next_claim, retried};

/// A node's connections whose statements stop in the middle, after their snapshot and before they lock
/// anything, while somebody holds the lock 1.
async fn stopping(queue: &Queue) -> Database {
    let role = format!("node_of_{}", queue.value::<String>("select current_database()").await);
    queue
        .run(format!(
            "create role {role}; grant usage on schema stokehold to {role};
             grant all on all tables in schema stokehold to {role};
             grant all on all sequences in schema stokehold to {role};
             create function public.stops() returns boolean language plpgsql as $$
             begin
               perform pg_advisory_lock_shared(1);
               perform pg_advisory_unlock_shared(1);
               return true;
             end $$;
             alter table stokehold.kinds enable row level security;
             create policy stops on stokehold.kinds using (public.stops())"
        ))
        .await;
    let connect = queue.options.clone().options([("role", role)]);
    Database::lazy(DatabaseOptions { plans: Plans::Kept, ..DatabaseOptions::new(connect) })
}

#[tokio::test]
async fn a_claim_that_began_before_a_change_never_runs_the_job_as_it_was() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    let ids = queue.jobs("work", 2).await;
    let node = stopping(&queue).await;
    let mut holds_up = queue.pool.acquire().await.unwrap();
    holds_up.execute("select pg_advisory_lock(1)").await.unwrap();
    let claiming =
        tokio::spawn(async move { node.claim(runner, &next_claim(), &[lane(kind, 5)]).await });
    queue.until_blocked(1).await;

    let change = Edit { max_attempts: Some(3), ..Edit::default() };
    assert_eq!(queue.database.edit(ids[0], &change).await.unwrap(), Edited::Done);
    holds_up.execute("select pg_advisory_unlock(1)").await.unwrap();
    // It knows a ready row that is gone, and leaves the job to the next.
    let claimed = claiming.await.unwrap().unwrap();
    assert_eq!(claimed.iter().map(|job| job.id).collect::<Vec<_>>(), ids[1..]);
    let changed = queue.claim_one(runner, kind).await;
    assert_eq!((changed.id, changed.max_attempts), (ids[0], 3));
    // It kept its place.
    assert!(changed.position < claimed[0].position);
}

/// Two jobs of one runner: the one with the higher id by its first claim.
async fn claimed_backwards(queue: &Queue, runner: RunnerId) -> [Claimed; 2] {
    let kind = queue.kind("work").await;
    let mut jobs = [job("work"), job("work")];
    jobs[0].priority = Some(1);
    queue.database.enqueue(&jobs).await.unwrap();
    let last = queue.claim_one(runner, kind).await;
    let other = [LaneQuota { priority: 1, ..lane(kind, 1) }];
    let mut first = queue.database.claim(runner, &next_claim(), &other).await.unwrap();
    let first = first.pop().unwrap();
    assert!(first.id < last.id && first.claim > last.claim);
    [first, last]
}

/// Lets the call wait for the first job, and says whether the second is free meanwhile.
async fn leaves_the_second_free<T: Send + 'static>(
    queue: &Queue,
    jobs: [JobId; 2],
    call: impl Future<Output = T> + Send + 'static,
) -> (bool, T) {
    let mut holder = queue.pool.acquire().await.unwrap();
    let mut transaction = holder.begin().await.unwrap();
    let lock = format!("select from stokehold.jobs where id = {} for update", jobs[0]);
    transaction.execute(sqlx::AssertSqlSafe(lock)).await.unwrap();
    let calling: JoinHandle<T> = tokio::spawn(call);
    queue.until_blocked(1).await;
    let free: Option<i64> =
        sqlx::query_scalar("select id from stokehold.jobs where id = $1 for update skip locked")
            .bind(jobs[1].0)
            .fetch_optional(&queue.pool)
            .await
            .unwrap();
    transaction.rollback().await.unwrap();
    (free.is_some(), calling.await.unwrap())
}

/// Whoever locks many jobs does it in order of id: cancelling many does too, and nobody waits in a circle.
#[tokio::test]
async fn outcomes_lock_their_jobs_in_order_of_id_whatever_claims_they_belong_to() {
    type Outcome = fn(&Claimed) -> Ended;
    let (finished, released): (Outcome, Outcome) =
        (|job| completed(job), |job| retried(job, Duration::from_secs(60)));
    let both = [
        [finished, finished],
        [released, released],
        // Two statements in one transaction.
        [released, finished],
    ];
    for [of_first, of_last] in both {
        let queue = Queue::new().await;
        let runner = queue.runner().await;
        let [first, last] = claimed_backwards(&queue, runner).await;
        let node = queue.pool_of(2, Duration::from_secs(30));
        let outcomes = [of_last(&last), of_first(&first)];
        let settle = async move { node.settle(runner, &outcomes).await.unwrap() };
        let (free, fates) = leaves_the_second_free(&queue, [first.id, last.id], settle).await;
        assert!(free);
        assert_eq!(fates, [Fate::Applied, Fate::Applied]);
    }
}

#[tokio::test]
async fn a_turn_locks_the_jobs_of_its_outcomes_in_order_of_id_too() {
    let queue = Queue::new().await;
    let runner = queue.runner().await;
    let [first, last] = claimed_backwards(&queue, runner).await;
    let node = queue.pool_of(2, Duration::from_secs(30));
    let outcomes = [completed(&last), completed(&first)];
    let turn = async move { node.turn(runner, &outcomes, &next_claim(), &[]).await.unwrap() };
    let (free, turn) = leaves_the_second_free(&queue, [first.id, last.id], turn).await;
    assert!(free);
    assert_eq!(turn.applied, [true, true]);
}
