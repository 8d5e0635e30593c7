//! The wake-up hint: LISTEN on a connection of its own.
//!
//! Only a hint. Whatever is lost here, the next tick finds; through a pooler that cannot LISTEN
//! everything works and wakes more slowly.

use sqlx::postgres::{PgListener, PgPoolOptions};

use crate::{Database, QueueError};

/// The channel that enqueueing notifies on.
const CHANNEL: &str = "stokehold_wake";

/// A connection that hears when work arrives.
#[derive(Debug)]
pub struct WakeListener {
    listener: PgListener,
}

impl WakeListener {
    /// Connects and listens.
    pub async fn connect(database: &Database) -> Result<Self, QueueError> {
        const WHAT: &str = "listen for wake-ups";
        let options = database.options().connect.clone().application_name("stokehold-wake");
        let pool = PgPoolOptions::new().max_connections(1).connect_lazy_with(options);
        let listen = async {
            let mut listener = PgListener::connect_with(&pool).await?;
            listener.listen(CHANNEL).await?;
            Ok(listener)
        };
        match tokio::time::timeout(database.deadline(), listen).await {
            Ok(Ok(listener)) => Ok(WakeListener { listener }),
            Ok(Err(source)) => Err(QueueError::from_driver(WHAT, source)),
            Err(_) => Err(QueueError::Timeout { what: WHAT, limit: database.deadline() }),
        }
    }

    /// Waits for a hint. An error means that the connection is gone: connect again, after a look.
    pub async fn heard(&mut self) -> Result<(), QueueError> {
        match self.listener.try_recv().await {
            // `None`: it reconnected by itself, and something may have been missed meanwhile.
            Ok(Some(_) | None) => Ok(()),
            Err(source) => Err(QueueError::from_driver("wait for wake-ups", source)),
        }
    }
}
