//! The database away, silent or slow: every call ends in time, and the pool lives on.

use std::time::{Duration, Instant};

use sqlx::postgres::PgConnectOptions;
use sqlx::{Postgres, Transaction};
use stokehold_domain::JobId;
use stokehold_queue::{Claimed, Database, DatabaseOptions, Fate, Plans, QueueError};
use tokio::net::TcpListener;

use crate::support::{PATIENCE, Queue, completed};

/// Short enough to wait for, long enough for a busy machine to answer within.
const DEADLINE: Duration = Duration::from_millis(400);

fn options(port: u16) -> DatabaseOptions {
    let connect = PgConnectOptions::new_without_pgpass().host("127.0.0.1").port(port).username("x");
    DatabaseOptions { call_deadline: DEADLINE, ..DatabaseOptions::new(connect) }
}

/// A running job whose row another session has locked.
async fn locked_job(queue: &Queue) -> (Claimed, Transaction<'static, Postgres>) {
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    let id = queue.job("work").await;
    let claimed = queue.claim_one(runner, kind).await;
    (claimed, lock(queue, id).await)
}

async fn lock(queue: &Queue, id: JobId) -> Transaction<'static, Postgres> {
    let mut holder = queue.pool.begin().await.unwrap();
    sqlx::query("select from stokehold.jobs where id = $1 for update")
        .bind(id.0)
        .execute(&mut *holder)
        .await
        .unwrap();
    holder
}

/// The connection that the pool of one uses now.
async fn backend(database: &Database, queue: &Queue) -> i32 {
    database.ping().await.unwrap();
    queue
        .value(
            "select pid from pg_stat_activity where datname = current_database()
               and application_name = 'stokehold-one' and wait_event_type is distinct from 'Lock'",
        )
        .await
}

#[tokio::test]
async fn a_port_where_nobody_listens_is_unreachable_and_said_so_in_time() {
    let port = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap().port()
    };
    let begun = Instant::now();
    let patient = DatabaseOptions { call_deadline: PATIENCE, ..options(port) };
    let error = Database::connect(patient).await.unwrap_err();
    assert!(matches!(error, QueueError::Unreachable { .. }), "{error:?}");
    assert!(error.is_temporary());
    let why = std::error::Error::source(&error).unwrap().to_string();
    assert!(why.contains("refused"), "{why}");
    assert!(begun.elapsed() < DEADLINE * 5, "took {:?}", begun.elapsed());
    // A pool that was open before waits for the server to come back, up to its deadline.
    let error = Database::lazy(options(port)).ping().await.unwrap_err();
    assert!(matches!(error, QueueError::Unreachable { .. }), "{error:?}");
    assert!(begun.elapsed() < DEADLINE * 10, "took {:?}", begun.elapsed());
}

#[tokio::test]
async fn a_server_that_accepts_and_never_answers_is_unreachable_in_time() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let silent = tokio::spawn(async move {
        let mut kept = Vec::new();
        while let Ok(connection) = listener.accept().await {
            kept.push(connection);
        }
    });
    let begun = Instant::now();
    let error = Database::connect(options(port)).await.unwrap_err();
    assert!(error.is_temporary(), "{error:?}");
    assert!(begun.elapsed() < DEADLINE * 5, "took {:?}", begun.elapsed());
    silent.abort();
}

#[tokio::test]
async fn a_call_dropped_midway_takes_its_connection_with_it_and_the_pool_lives_on() {
    let queue = Queue::new().await;
    let (claimed, holder) = locked_job(&queue).await;
    let connect = DatabaseOptions::new(queue.options.clone()).connect;
    let one = Database::lazy(DatabaseOptions {
        connect: connect.application_name("stokehold-one"),
        max_connections: 1,
        call_deadline: PATIENCE,
        plans: Plans::Kept,
    });
    let before = backend(&one, &queue).await;
    let call = tokio::spawn({
        let one = one.clone();
        async move { one.settle(stokehold_domain::RunnerId(1), &[completed(&claimed)]).await }
    });
    queue.until_blocked(1).await;
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    // Only one fits into the pool, so a new one means that the old one is gone.
    let after = backend(&one, &queue).await;
    assert_ne!(before, after);
    holder.rollback().await.unwrap();
    queue
        .until(format!("select not exists (select from pg_stat_activity where pid = {before})"))
        .await;
}

#[tokio::test]
async fn calls_that_wait_for_a_lock_end_at_the_deadline_and_leave_the_pool_usable() {
    let queue = Queue::new().await;
    let (claimed, holder) = locked_job(&queue).await;
    let runner = queue.database.runners().await.unwrap()[0].id;
    let two = queue.pool_of(2, DEADLINE);
    for round in 0..10 {
        let begun = Instant::now();
        let batch = [completed(&claimed)];
        let (a, b) = tokio::join!(two.settle(runner, &batch), two.settle(runner, &batch));
        for error in [a.unwrap_err(), b.unwrap_err()] {
            assert!(matches!(error, QueueError::Timeout { .. }), "round {round}: {error:?}");
        }
        assert!(begun.elapsed() < DEADLINE * 5, "round {round} took {:?}", begun.elapsed());
        let (a, b) = tokio::join!(two.ping(), two.ping());
        a.unwrap();
        b.unwrap();
    }
    // Whether any of them took effect is unknown: asked again, one outcome it is.
    holder.rollback().await.unwrap();
    let fate = queue.settle(runner, completed(&claimed)).await;
    assert!(matches!(fate, Fate::Applied | Fate::AlreadyApplied), "{fate:?}");
    assert_eq!(queue.settle(runner, completed(&claimed)).await, Fate::AlreadyApplied);
    assert!(queue.ended(claimed.id).await.is_some());
}

#[tokio::test]
async fn waiting_for_a_connection_counts_against_the_deadline() {
    let queue = Queue::new().await;
    let (claimed, holder) = locked_job(&queue).await;
    let runner = queue.database.runners().await.unwrap()[0].id;
    // The second call waits for the first, then for the lock.
    let (first, second) = (queue.pool_of(1, DEADLINE * 3), DEADLINE * 3);
    let batch = [completed(&claimed)];
    let begun = Instant::now();
    let late = async {
        queue.until_blocked(1).await;
        let begun = Instant::now();
        first.settle(runner, &batch).await.unwrap_err();
        begun.elapsed()
    };
    let (error, waited) = tokio::join!(first.settle(runner, &batch), late);
    error.unwrap_err();
    assert!(waited < second + DEADLINE, "waited {waited:?} of {:?}", begun.elapsed());
    holder.rollback().await.unwrap();
}

#[tokio::test]
async fn a_statement_timeout_a_lock_timeout_and_a_killed_session_are_temporary() {
    let queue = Queue::new().await;
    let (claimed, holder) = locked_job(&queue).await;
    let runner = queue.database.runners().await.unwrap()[0].id;
    for setting in [("statement_timeout", "50"), ("lock_timeout", "50")] {
        let connect = queue.options.clone().options([setting]);
        let database = Database::lazy(DatabaseOptions::new(connect));
        let error = database.settle(runner, &[completed(&claimed)]).await.unwrap_err();
        assert!(error.is_temporary(), "{setting:?}: {error:?}");
        database.ping().await.unwrap();
        database.close().await;
    }
    let batch = [completed(&claimed)];
    let (error, ()) = tokio::join!(queue.database.settle(runner, &batch), async {
        queue.until_blocked(1).await;
        queue
            .run(
                "select pg_terminate_backend(pid) from pg_stat_activity
                 where datname = current_database() and wait_event_type = 'Lock'",
            )
            .await;
    });
    let error = error.unwrap_err();
    assert!(matches!(error, QueueError::Unreachable { .. }), "{error:?}");
    queue.database.ping().await.unwrap();
    holder.rollback().await.unwrap();
    assert_eq!(queue.settle(runner, completed(&claimed)).await, Fate::Applied);
}

#[tokio::test]
async fn every_session_killed_at_once_is_survived_by_the_next_calls() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    queue.job("work").await;
    let ping = || queue.database.ping();
    let (a, b, c) = tokio::join!(ping(), ping(), ping());
    a.and(b).and(c).unwrap();
    queue
        .run(
            "select pg_terminate_backend(pid) from pg_stat_activity
             where datname = current_database() and pid <> pg_backend_pid()",
        )
        .await;
    let claimed = queue.claim_one(runner, kind).await;
    assert_eq!(queue.settle(runner, completed(&claimed)).await, Fate::Applied);
}

#[tokio::test]
async fn a_transaction_that_a_refusal_leaves_is_over_when_the_call_is() {
    let queue = Queue::new().await;
    let digest = queue.module(1).await;
    let one = queue.pool_of(1, PATIENCE);
    for _ in 0..2 {
        let limits = &stokehold_domain::Limits::DEFAULT;
        let refused = one.create_release("nobody", digest, limits, true).await.unwrap_err();
        assert!(matches!(refused, QueueError::Refused { .. }), "{refused:?}");
        let left = "select count(*) from pg_stat_activity where datname = current_database()
                    and state like 'idle in transaction%'";
        assert_eq!(queue.value::<i64>(left).await, 0);
    }
    one.ping().await.unwrap();
    one.close().await;
    one.ping().await.unwrap_err();
}
