//! Whether the database is as it has to be: every invariant, asked in one snapshot.

mod invariants;

use std::time::Duration;

use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection};

pub use invariants::{INVARIANTS, Invariant};

use crate::{Database, QueueError};

/// What came of asking for one.
#[derive(Clone, Debug)]
pub struct Verified {
    /// Which.
    pub invariant: Invariant,
    /// How many things break it; `None` when it took longer than it may.
    pub broken: Option<i64>,
    /// The ids of up to five of these.
    pub examples: Vec<String>,
}

const WHAT: &str = "verify the database";

impl Database {
    /// Asks for every invariant, in one snapshot on a connection of its own; each may take as long as `limit`. Of
    /// history the newest `days` are looked at. Writes nothing.
    pub async fn verify(&self, days: i32, limit: Duration) -> Result<Vec<Verified>, QueueError> {
        let driver = |error| QueueError::from_driver(WHAT, error);
        let options = self.options().connect.clone().application_name("stokehold-verify");
        let asked = async {
            let mut connection: PgConnection = options.connect().await?;
            let verified = ask_all(&mut connection, days, limit).await?;
            // What it answered stands, however it is taken leave of.
            let _ = connection.close().await;
            Ok(verified)
        };
        // The server gives each up by itself; this is for one that is not there any more.
        let whole = limit * u32::try_from(INVARIANTS.len() + 1).unwrap_or(u32::MAX);
        match tokio::time::timeout(whole, asked).await {
            Ok(verified) => verified.map_err(driver),
            Err(_) => Err(QueueError::Timeout { what: WHAT, limit: whole }),
        }
    }
}

async fn ask_all(
    connection: &mut PgConnection,
    days: i32,
    limit: Duration,
) -> Result<Vec<Verified>, sqlx::Error> {
    let begin = format!(
        "begin isolation level repeatable read, read only; set local statement_timeout = {}; set local jit = off",
        limit.as_millis()
    );
    sqlx::raw_sql(AssertSqlSafe(begin)).execute(&mut *connection).await?;
    let mut verified = Vec::with_capacity(INVARIANTS.len());
    for invariant in INVARIANTS {
        sqlx::raw_sql("savepoint one").execute(&mut *connection).await?;
        let sql = format!(
            "with days as (select $1::int), broken(id) as materialized ({})
             select count(*), coalesce((array_agg(id order by id))[1:5], '{{}}') from broken",
            invariant.sql
        );
        let asked: Result<(i64, Vec<String>), sqlx::Error> =
            sqlx::query_as(AssertSqlSafe(sql)).bind(days).fetch_one(&mut *connection).await;
        let (broken, examples) = match asked {
            Ok((broken, examples)) => (Some(broken), examples),
            Err(sqlx::Error::Database(error)) if error.code().as_deref() == Some("57014") => {
                (None, Vec::new())
            }
            Err(error) => return Err(error),
        };
        sqlx::raw_sql("rollback to savepoint one").execute(&mut *connection).await?;
        verified.push(Verified { invariant: *invariant, broken, examples });
    }
    sqlx::raw_sql("commit").execute(&mut *connection).await?;
    Ok(verified)
}
