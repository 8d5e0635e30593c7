//! The database, and the rule that every call to it has a deadline.
//!
//! A connection whose call timed out, or whose caller went away in the middle, is closed and never
//! returned to the pool: after a silent network failure a pool of such connections stays dead for
//! good (seen with sqlx 0.9).

use std::str::FromStr;
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Connection, PgConnection};
use tokio::time::{Instant, timeout_at};

use crate::QueueError;
use crate::pool::{Connections, Lent, Maker};

/// How to reach the database.
#[derive(Clone, Debug)]
pub struct DatabaseOptions {
    /// Where: a parsed `postgres://` URL.
    pub connect: PgConnectOptions,
    /// Connections kept at most.
    pub max_connections: u32,
    /// How long one call may take, waiting for a connection included. The server gives a statement
    /// up soon after ([`SERVER_GRACE`]), so that none goes on for a caller who has left.
    pub call_deadline: Duration,
    /// How statements are planned.
    pub plans: Plans,
}

/// How much longer than the caller the server works on a statement: who waits hears of the caller's
/// own deadline and not of the server's.
pub const SERVER_GRACE: Duration = Duration::from_millis(500);

/// How the statements of a pool are planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plans {
    /// Each time anew, for its arguments. For reads whose best plan depends on what was asked.
    ForEachCall,
    /// Once for each connection, with no choice but to look rows up one by one through an index. For
    /// claiming and settling: planning takes longer than claiming one job (measured: 0.7 and 0.9 ms,
    /// against 0.05 ms for a plan that is kept), and a plan that was chosen by the statistics of an
    /// empty table scans the whole of it once it is full (measured: 50,000 jobs, a claim took 10 ms
    /// instead of 0.2 ms).
    Kept,
}

impl Plans {
    /// How long a connection may rest before it is asked whether it still works. One that broke within
    /// this time costs a call: a node makes its calls again by itself, others should not have to.
    fn ask_after(self) -> Duration {
        match self {
            Plans::ForEachCall => Duration::ZERO,
            Plans::Kept => Duration::from_secs(1),
        }
    }

    /// What a connection is told when it opens.
    pub fn settings(self) -> &'static str {
        match self {
            Plans::ForEachCall => "set plan_cache_mode = force_custom_plan",
            Plans::Kept => {
                "set plan_cache_mode = force_generic_plan; set enable_seqscan = off; \
                 set enable_bitmapscan = off; set enable_hashjoin = off; \
                 set enable_mergejoin = off; set enable_material = off; \
                 set enable_memoize = off; set jit = off"
            }
        }
    }
}

impl DatabaseOptions {
    /// Ten connections and calls of at most 10 s, which is longer than any statement here needs and
    /// shorter than anybody wants to wait.
    pub fn from_url(url: &str) -> Result<Self, QueueError> {
        let connect = PgConnectOptions::from_str(url).map_err(|source| QueueError::Database {
            what: "read the database URL",
            source: source.into(),
        })?;
        Ok(Self::new(connect))
    }

    /// The same defaults for options made elsewhere.
    pub fn new(connect: PgConnectOptions) -> Self {
        DatabaseOptions {
            connect: connect.application_name("stokehold"),
            max_connections: 10,
            call_deadline: Duration::from_secs(10),
            plans: Plans::ForEachCall,
        }
    }
}

/// The database, by a pool of connections. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Database {
    connections: Connections,
    options: DatabaseOptions,
}

impl Database {
    /// Opens the pool and makes sure that the server answers.
    pub async fn connect(options: DatabaseOptions) -> Result<Self, QueueError> {
        const WHAT: &str = "reach the database";
        // Once by hand: the pool would try until the deadline, and then not say why it could not.
        let limit = options.call_deadline;
        let first = async { options.connect.connect().await?.close().await };
        match tokio::time::timeout(limit, first).await {
            Ok(Ok(())) => Ok(Self::lazy(options)),
            Ok(Err(source)) => Err(QueueError::from_driver(WHAT, source)),
            Err(_) => Err(QueueError::Timeout { what: WHAT, limit }),
        }
    }

    /// Connects when first used, so that a process can start before its database.
    pub fn lazy(options: DatabaseOptions) -> Self {
        let settings = format!(
            "{}; set statement_timeout = {}",
            options.plans.settings(),
            (options.call_deadline + SERVER_GRACE).as_millis()
        );
        let ask_after = options.plans.ask_after();
        let maker = Maker { connect: options.connect.clone(), settings, ask_after };
        let connections = Connections::new(maker, options.max_connections);
        Database { connections, options }
    }

    /// The options it was opened with.
    pub fn options(&self) -> &DatabaseOptions {
        &self.options
    }

    /// Asks the server for nothing, to see whether it answers.
    pub async fn ping(&self) -> Result<(), QueueError> {
        bounded!(self, "reach the database", |conn| sqlx::query!("select 1 as one")
            .fetch_one(conn))?;
        Ok(())
    }

    /// Closes every connection that no call uses, and lets no further call begin.
    pub async fn close(&self) {
        self.connections.close().await;
    }

    pub(crate) fn deadline(&self) -> Duration {
        self.options.call_deadline
    }

    /// A connection for one call that ends by then.
    pub(crate) async fn acquire(
        &self,
        what: &'static str,
        until: Instant,
    ) -> Result<Borrowed, QueueError> {
        match timeout_at(until, self.connections.lend()).await {
            Ok(Ok(lent)) => Ok(Borrowed { lent, what, limit: self.deadline(), until }),
            Ok(Err(source)) => Err(QueueError::from_driver(what, source)),
            Err(_) => Err(QueueError::Timeout { what, limit: self.deadline() }),
        }
    }
}

/// A connection on loan to one call. Unless the call comes to an end, it is closed.
pub(crate) struct Borrowed {
    lent: Lent,
    what: &'static str,
    limit: Duration,
    until: Instant,
}

impl Borrowed {
    pub(crate) fn connection(&mut self) -> &mut PgConnection {
        self.lent.connection()
    }

    /// Ends the loan with what the call came to.
    pub(crate) async fn settle<T>(
        mut self,
        outcome: Result<Result<T, sqlx::Error>, tokio::time::error::Elapsed>,
    ) -> Result<T, QueueError> {
        let Borrowed { what, limit, until, .. } = self;
        let answer = match outcome {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(source)) => Err(QueueError::from_driver(what, source)),
            Err(_) => Err(QueueError::Timeout { what, limit }),
        };
        let broken =
            matches!(answer, Err(QueueError::Unreachable { .. } | QueueError::Timeout { .. }));
        // A transaction that was left is rolled back now, and not when somebody comes to use this.
        let left = !broken && self.connection().should_flush();
        if !broken
            && (!left || matches!(timeout_at(until, self.connection().ping()).await, Ok(Ok(()))))
        {
            self.lent.give_back();
        }
        answer
    }
}

/// Runs one call on one connection within the deadline, waiting for the connection included:
/// `bounded!(db, "what it does", |conn| future)`.
macro_rules! bounded {
    ($database:expr, $what:expr, |$connection:ident| $call:expr) => {{
        let until = tokio::time::Instant::now() + $database.deadline();
        let mut borrowed = $database.acquire($what, until).await?;
        let outcome = tokio::time::timeout_at(until, async {
            let $connection = borrowed.connection();
            $call.await
        })
        .await;
        borrowed.settle(outcome).await
    }};
}
pub(crate) use bounded;

/// Makes a database unless it is there, through a connection to another one on the same server.
pub async fn ensure_database(server_url: &str, name: &str) -> Result<(), QueueError> {
    const WHAT: &str = "make the database";
    let driver = |source| QueueError::from_driver(WHAT, source);
    let options = DatabaseOptions::from_url(server_url)?.connect;
    let mut connection = options.connect().await.map_err(driver)?;
    let exists = sqlx::query_scalar!(
        r#"select exists (select from pg_database where datname = $1) as "exists!""#,
        name
    )
    .fetch_one(&mut connection)
    .await
    .map_err(driver)?;
    if !exists {
        // A utility statement takes no parameters; the name is ours and quoted all the same.
        let statement = format!("create database \"{}\"", name.replace('"', "\"\""));
        sqlx::query(sqlx::AssertSqlSafe(statement))
            .execute(&mut connection)
            .await
            .map_err(driver)?;
    }
    connection.close().await.map_err(driver)
}
