//! The wake-up hint: LISTEN on a connection of its own.
//!
//! Only a hint. Whatever is lost here, the next tick finds; through a pooler that cannot LISTEN
//! everything works and wakes more slowly.

use sqlx::postgres::{PgListener, PgPoolOptions};

use stokehold_domain::KindId;

use crate::{Database, Lane, QueueError};

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
    pub async fn heard(&mut self) -> Result<Hint, QueueError> {
        match self.listener.try_recv().await {
            Ok(Some(notification)) => Ok(Hint::read(notification.payload())),
            // It reconnected by itself, and something may have been missed meanwhile.
            Ok(None) => Ok(Hint::Look),
            Err(source) => Err(QueueError::from_driver("wait for wake-ups", source)),
        }
    }
}

/// What a notification says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hint {
    /// These lanes have work.
    Lanes(Vec<Lane>),
    /// Something has changed.
    Look,
    /// A running job is to be cancelled.
    Cancel,
}

impl Hint {
    /// Lanes as `kind:priority`, separated by commas. Anybody may notify on the channel: what cannot
    /// be read is a reason to look, and no more.
    fn read(payload: &str) -> Hint {
        if payload == "cancel" {
            return Hint::Cancel;
        }
        let lane = |text: &str| {
            let (kind, priority) = text.split_once(':')?;
            Some(Lane { kind_id: KindId(kind.parse().ok()?), priority: priority.parse().ok()? })
        };
        payload.split(',').map(lane).collect::<Option<Vec<Lane>>>().map_or(Hint::Look, Hint::Lanes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_names_lanes_or_else_asks_for_a_look() {
        let lane = |kind, priority| Lane { kind_id: KindId(kind), priority };
        assert_eq!(Hint::read("7:0,8:-5"), Hint::Lanes(vec![lane(7, 0), lane(8, -5)]));
        assert_eq!(Hint::read("cancel"), Hint::Cancel);
        for other in ["", "7", "7:0,", "x:0", "7:99999"] {
            assert_eq!(Hint::read(other), Hint::Look, "{other}");
        }
    }
}
