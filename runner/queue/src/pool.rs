//! The connections that are kept open, each lent to one call at a time.
//!
//! Not the driver's own pool: that one asks the server after every use whether the connection still
//! works, which makes two round trips of each call (a node 5 ms away from its database did 0.54 of what
//! one beside it does, instead of 0.46), and lends its connections in turn, so that every one of many
//! sessions comes to the processor cold (jobs claimed one by one: 0.78 of bare SQL instead of 0.62). Here
//! a connection is asked before it is lent, and only after a rest.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use deadpool::managed::{
    Manager, Metrics, Object, Pool, PoolError, QueueMode, RecycleError, RecycleResult,
};
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor, PgConnection};

/// A connection is replaced after this time: servers behind a load balancer change, and a session keeps
/// some memory for every plan and table that it has ever touched.
const LIFETIME: Duration = Duration::from_secs(30 * 60);
/// One that was not needed for this time is closed.
const IDLE: Duration = Duration::from_secs(10 * 60);
/// How often idle ones are looked for.
const PRUNE: Duration = Duration::from_secs(60);

/// How connections are made and looked after.
#[derive(Debug)]
pub(crate) struct Maker {
    pub(crate) connect: PgConnectOptions,
    /// SQL that each one begins with.
    pub(crate) settings: String,
    /// How long one may rest before it is asked whether it still works.
    pub(crate) ask_after: Duration,
}

/// The connections of one process to one database, cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Connections {
    pool: Pool<Maker>,
    pruning: Arc<Pruning>,
}

#[derive(Debug)]
struct Pruning {
    since: Instant,
    /// Milliseconds after `since` from which it is time again.
    due_ms: AtomicU64,
}

impl Manager for Maker {
    type Type = PgConnection;
    type Error = sqlx::Error;

    async fn create(&self) -> Result<PgConnection, sqlx::Error> {
        let mut connection = self.connect.connect().await?;
        connection.execute(sqlx::raw_sql(AssertSqlSafe(self.settings.clone()))).await?;
        Ok(connection)
    }

    async fn recycle(
        &self,
        connection: &mut PgConnection,
        metrics: &Metrics,
    ) -> RecycleResult<sqlx::Error> {
        if metrics.created.elapsed() >= LIFETIME {
            return Err(RecycleError::message("old enough"));
        }
        if metrics.last_used() >= self.ask_after {
            connection.ping().await?;
        }
        Ok(())
    }
}

impl Connections {
    /// At most so many; they are made when they are needed.
    pub(crate) fn new(maker: Maker, most: u32) -> Self {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let pool = Pool::builder(maker)
            .max_size(most)
            // The one used last, whose session has its plans in the processor's cache; and what is not
            // needed stays idle and can be closed.
            .queue_mode(QueueMode::Lifo)
            .build()
            .expect("a pool without timeouts of its own needs no runtime");
        let due_ms = AtomicU64::new(millis(PRUNE));
        Connections { pool, pruning: Pruning { since: Instant::now(), due_ms }.into() }
    }

    /// Lends one, once it is free. Dropped before it is given back, it is closed.
    pub(crate) async fn lend(&self) -> Result<Lent, sqlx::Error> {
        self.prune();
        match self.pool.get().await {
            Ok(connection) => Ok(Lent(Some(connection))),
            Err(PoolError::Backend(error)) => Err(error),
            Err(PoolError::Closed) => Err(sqlx::Error::PoolClosed),
            Err(PoolError::Timeout(_) | PoolError::NoRuntimeSpecified) => {
                Err(sqlx::Error::PoolTimedOut)
            }
            Err(PoolError::PostCreateHook(_)) => Err(sqlx::Error::WorkerCrashed),
        }
    }

    /// Closes those that have not been needed for long, now and then.
    fn prune(&self) {
        let Pruning { since, due_ms } = &*self.pruning;
        let (now, due) = (millis(since.elapsed()), due_ms.load(Ordering::Relaxed));
        let mine = || {
            let next = now + millis(PRUNE);
            due_ms.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        };
        if now >= due && mine() {
            self.pool.retain(|_, metrics| metrics.last_used() < IDLE);
        }
    }

    /// Lends no more, and closes what is not lent. What is lent is closed when it is given back.
    pub(crate) async fn close(&self) {
        let free = self.pool.retain(|_, _| false).removed;
        self.pool.close();
        for connection in free {
            // The server ends the session either way.
            let _ = connection.close().await;
        }
    }
}

/// A connection on loan.
#[derive(Debug)]
pub(crate) struct Lent(Option<Object<Maker>>);

impl Lent {
    pub(crate) fn connection(&mut self) -> &mut PgConnection {
        self.0.as_mut().expect("it is taken out only when the loan ends")
    }

    /// Gives it back for others to use.
    pub(crate) fn give_back(mut self) {
        self.0.take();
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // Whatever was under way on it is nobody's any more: the socket closes, without waiting for a
        // server that may have gone.
        if let Some(connection) = self.0.take() {
            drop(Object::take(connection));
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
