//! A session that holds an old snapshot, as a long report or a forgotten console does.

use sqlx::{ConnectOptions, Connection, PgConnection};

use crate::{Database, QueueError};

/// While this lives no vacuum can remove a row that was there when it was taken.
#[derive(Debug)]
pub struct HeldSnapshot {
    connection: PgConnection,
}

impl HeldSnapshot {
    /// Opens a session of its own and takes the snapshot.
    pub async fn take(database: &Database) -> Result<HeldSnapshot, QueueError> {
        const WHAT: &str = "hold a snapshot";
        let driver = |source| QueueError::from_driver(WHAT, source);
        let mut connection = database.options().connect.connect().await.map_err(driver)?;
        sqlx::query("begin isolation level repeatable read")
            .execute(&mut connection)
            .await
            .map_err(driver)?;
        // The snapshot is taken by the first statement that reads.
        sqlx::query("select count(*) from stokehold.kinds")
            .execute(&mut connection)
            .await
            .map_err(driver)?;
        Ok(HeldSnapshot { connection })
    }

    /// Lets go of it.
    pub async fn release(self) -> Result<(), QueueError> {
        self.connection
            .close()
            .await
            .map_err(|source| QueueError::from_driver("let go of a snapshot", source))
    }
}
