//! Brings the schema up to this binary's version, and refuses to work on another.

use std::borrow::Cow;

use sqlx::Connection;
use sqlx::migrate::{MigrateError, Migrator};

use crate::database::bounded;
use crate::{Database, QueueError};

/// The oldest server that has what the statements use, as `server_version_num` counts.
const OLDEST_SERVER: i32 = 140_000;

fn migrator() -> Migrator {
    Migrator {
        table_name: Cow::Borrowed("stokehold.migrations"),
        create_schemas: Cow::Borrowed(&[Cow::Borrowed("stokehold")]),
        ..sqlx::migrate!("../../migrations")
    }
}

/// The schema version that this binary works on.
pub fn newest_version() -> i64 {
    migrator().iter().map(|migration| migration.version).max().unwrap_or_default()
}

/// What a run of migrations did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migrated {
    /// The version before; 0 for an empty database.
    pub from: i64,
    /// The version now.
    pub to: i64,
}

impl Database {
    /// Applies what is missing, one transaction a migration, under an advisory lock so that processes
    /// which start together do it once. Refuses a server that is too old and a schema that is newer
    /// than this binary.
    pub async fn migrate(&self) -> Result<Migrated, QueueError> {
        const WHAT: &str = "migrate the schema";
        let server = bounded!(self, WHAT, |conn| sqlx::query_scalar!(
            r#"select current_setting('server_version_num')::int as "version!""#
        )
        .fetch_one(conn))?;
        if server < OLDEST_SERVER {
            return Err(QueueError::Schema(format!(
                "the server is PostgreSQL {}: version 14 or newer is needed",
                server / 10_000
            )));
        }
        let from = self.schema_version().await?;
        let to = newest_version();
        if from > to {
            return Err(QueueError::Schema(format!(
                "the schema has version {from}, this binary knows versions up to {to}: run a newer stokehold"
            )));
        }
        // Migrations may take longer than a call: a connection of their own, without the deadline.
        let driver = |source| QueueError::from_driver(WHAT, source);
        let mut conn =
            sqlx::PgConnection::connect_with(&self.options().connect).await.map_err(driver)?;
        let applied = migrator().run_direct(None, &mut conn, false).await;
        conn.close().await.map_err(driver)?;
        match applied {
            Ok(()) => Ok(Migrated { from, to }),
            Err(MigrateError::VersionMismatch(version)) => Err(QueueError::Schema(format!(
                "migration {version} was applied in another form than this binary has: \
                 the database belongs to a development build"
            ))),
            Err(MigrateError::Execute(source)) => Err(driver(source)),
            Err(MigrateError::ExecuteMigration(source, version)) => {
                tracing::error!(schema.version = version, "migration failed");
                Err(driver(source))
            }
            Err(other) => {
                Err(QueueError::Schema(format!("the schema could not be migrated: {other}")))
            }
        }
    }

    /// Refuses a schema that is not exactly at this binary's version or newer by additions only.
    pub async fn check_schema(&self) -> Result<(), QueueError> {
        let (found, wanted) = (self.schema_version().await?, newest_version());
        if found < wanted {
            return Err(QueueError::Schema(format!(
                "the schema has version {found}, this binary needs {wanted}: run `stokehold migrate` first"
            )));
        }
        Ok(())
    }

    /// The newest applied migration; 0 when there is none.
    pub async fn schema_version(&self) -> Result<i64, QueueError> {
        const WHAT: &str = "read the schema version";
        let exists = bounded!(self, WHAT, |conn| sqlx::query_scalar!(
            r#"select to_regclass('stokehold.migrations') is not null as "exists!""#
        )
        .fetch_one(conn))?;
        if !exists {
            return Ok(0);
        }
        // Not checked at compile time: the driver makes this table, no migration does.
        let version = bounded!(self, WHAT, |conn| sqlx::query_scalar::<_, Option<i64>>(
            "select max(version) from stokehold.migrations where success"
        )
        .fetch_one(conn))?;
        Ok(version.unwrap_or_default())
    }
}
