//! How many jobs of one kind wait, told at once and cheaply while they come and go.

use stokehold_domain::KindId;

use crate::database::bounded;
use crate::{Database, QueueError};

/// Follows the jobs of one kind. Exact while jobs of no other kind are enqueued and none is retried.
#[derive(Debug)]
pub struct Backlog {
    kind: KindId,
    /// Positions drawn before it began.
    from: i64,
    /// Everything at or below this was claimed when it looked last.
    claimed: i64,
}

/// What stood at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    /// Jobs that nobody has claimed.
    pub jobs: i64,
    /// Jobs claimed since the beginning.
    pub claimed: i64,
}

impl Backlog {
    /// Begins now.
    pub async fn follow(database: &Database, kind: KindId) -> Result<Backlog, QueueError> {
        let from = bounded!(database, "read the last position", |conn| {
            sqlx::query_scalar!(
            r#"select case when is_called then last_value else 0 end as "last!" from stokehold.positions"#
        )
        .fetch_one(conn)
        })?;
        Ok(Backlog { kind, from, claimed: from })
    }

    /// Looks. It starts where it has found the first job the last time: however old a snapshot others
    /// hold, it walks over no more than was claimed since.
    pub async fn waiting(&mut self, database: &Database) -> Result<Waiting, QueueError> {
        let row = bounded!(database, "read the backlog", |conn| {
            sqlx::query!(
            r#"select case when is_called then last_value else 0 end as "last!", (
                 select position from stokehold.ready
                 where kind_id = $1 and priority = (select priority from stokehold.kinds where id = $1)
                   and position > $2
                 order by position limit 1
               ) as first
               from stokehold.positions"#,
            self.kind.0,
            self.claimed
        )
        .fetch_one(conn)
        })?;
        self.claimed = row.first.map_or(row.last, |first| first - 1).max(self.claimed);
        Ok(Waiting { jobs: row.last - self.claimed, claimed: self.claimed - self.from })
    }
}
