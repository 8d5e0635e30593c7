//! The counters that PostgreSQL keeps of its own work, and where its processes are.

use std::path::PathBuf;

use crate::database::bounded;
use crate::{Database, DatabaseOptions, QueueError};

/// Counters of the database at one moment; only differences of two mean anything.
#[derive(Clone, Copy, Debug)]
pub struct DatabaseGauges {
    /// Bytes of write-ahead log, of the whole server.
    pub wal_bytes: i64,
    /// Transactions that ended, of this database, as all that follows.
    pub transactions: i64,
    /// Rows inserted.
    pub rows_inserted: i64,
    /// Rows updated.
    pub rows_updated: i64,
    /// Rows deleted.
    pub rows_deleted: i64,
    /// Statements from clients; `None` without `pg_stat_statements`.
    pub statements: Option<i64>,
}

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// On a Unix socket.
    Socket(PathBuf),
    /// On a host and port.
    Tcp(String, u16),
}

impl DatabaseOptions {
    /// Where the server listens, for whoever stands in between.
    pub fn endpoint(&self) -> Endpoint {
        let port = self.connect.get_port();
        match self.connect.get_socket() {
            Some(folder) => Endpoint::Socket(folder.join(format!(".s.PGSQL.{port}"))),
            None => Endpoint::Tcp(self.connect.get_host().to_owned(), port),
        }
    }
}

impl Database {
    /// Reads the counters. A session hands its share in within a second while it works, at the
    /// latest ten seconds after, and at once when it ends.
    pub async fn gauges(&self) -> Result<DatabaseGauges, QueueError> {
        let statements = self.statements().await?;
        let row = bounded!(self, "read the counters", |conn| sqlx::query!(
            r#"select (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint as "wal_bytes!",
                 xact_commit + xact_rollback as "transactions!", tup_inserted as "inserted!",
                 tup_updated as "updated!", tup_deleted as "deleted!"
               from pg_stat_database where datname = current_database()"#
        )
        .fetch_one(conn))?;
        Ok(DatabaseGauges {
            wal_bytes: row.wal_bytes,
            transactions: row.transactions,
            rows_inserted: row.inserted,
            rows_updated: row.updated,
            rows_deleted: row.deleted,
            statements,
        })
    }

    /// Makes `pg_stat_statements` count from here on, on a server that has loaded it.
    pub async fn count_statements(&self) -> Result<(), QueueError> {
        bounded!(self, "count statements", |conn| sqlx::query(
            "create extension if not exists pg_stat_statements"
        )
        .execute(conn))?;
        Ok(())
    }

    async fn statements(&self) -> Result<Option<i64>, QueueError> {
        // Not checked when compiled: the extension need not be there, then or now.
        let installed = bounded!(self, "look for pg_stat_statements", |conn| sqlx::query_scalar!(
            r#"select exists (select from pg_extension where extname = 'pg_stat_statements')
                 and current_setting('shared_preload_libraries') ~ 'pg_stat_statements' as "is!""#
        )
        .fetch_one(conn))?;
        if !installed {
            return Ok(None);
        }
        bounded!(self, "read the number of statements", |conn| sqlx::query_scalar(
            "select sum(calls)::bigint from pg_stat_statements
             where dbid = (select oid from pg_database where datname = current_database())"
        )
        .fetch_one(conn))
    }

    /// The process that serves a connection, when the server says that it is reached without a
    /// network; whether that is a process of this machine is for the caller to see.
    pub async fn local_backend(&self) -> Result<Option<i32>, QueueError> {
        let row = bounded!(self, "find the server's processes", |conn| {
            sqlx::query!(
            r#"select pg_backend_pid() as "pid!",
                 coalesce(inet_server_addr() <<= '127.0.0.0/8' or inet_server_addr() = '::1', true) as "is_local!""#
        )
        .fetch_one(conn)
        })?;
        Ok(row.is_local.then_some(row.pid))
    }

    /// The server's version in words, and settings that a figure depends on.
    pub async fn server_facts(&self) -> Result<Vec<(String, String)>, QueueError> {
        let rows = bounded!(self, "read the server's settings", |conn| sqlx::query!(
            r#"select name as "name!", current_setting(name) as "value!" from pg_settings
               where name in ('server_version', 'shared_buffers', 'fsync', 'synchronous_commit',
                 'full_page_writes', 'max_wal_size', 'wal_compression')
               order by name"#
        )
        .fetch_all(conn))?;
        Ok(rows.into_iter().map(|row| (row.name, row.value)).collect())
    }
}
