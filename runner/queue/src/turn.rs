//! A turn: settling and claiming in one round trip and one commit.
//!
//! For a node whose slots come free one by one this halves what it asks of the database. Under a load of
//! short jobs, settling and claiming go on beside each other in batches, and a turn would only join them.

use std::collections::HashSet;

use chrono::{DateTime, Utc};
use serde_json::Value;
use stokehold_domain::Next;

use crate::claim::{LaneColumns, Row, in_order};
use crate::database::bounded;
use crate::settle::{Columns, Finals};
use crate::{ClaimNumber, Claimant, Claimed, Database, Ended, LaneQuota, QueueError};

/// What came of a turn.
#[derive(Clone, Debug)]
pub struct Turn {
    /// For each outcome, in order, whether it took effect now. What did not has to be settled by itself,
    /// which says why.
    pub applied: Vec<bool>,
    /// What was claimed, in the order in which it is to be started.
    pub claimed: Vec<Claimed>,
}

impl Ended {
    /// Whether this outcome can be part of a turn: it ends its job and brings no log along.
    pub fn fits_a_turn(&self) -> bool {
        matches!(self.next, Next::Finish(_)) && self.log.is_empty()
    }
}

/// One row of the answer: an outcome that took effect, or a job.
struct Answer {
    settled_id: Option<i64>,
    settled_token: Option<i64>,
    id: Option<i64>,
    kind_id: Option<i32>,
    priority: Option<i16>,
    position: Option<i64>,
    token: Option<i64>,
    attempt: Option<i32>,
    max_attempts: Option<i16>,
    snoozes: Option<i16>,
    lost: Option<i16>,
    media_type: Option<String>,
    payload: Option<Vec<u8>>,
    metadata: Option<Value>,
    last_problem: Option<Value>,
    enqueued_at: Option<DateTime<Utc>>,
    run_at: Option<DateTime<Utc>>,
    release: Option<i32>,
    options: Option<Value>,
    expired: Option<bool>,
}

impl Answer {
    fn settled(&self) -> Option<(i64, i64)> {
        self.settled_id.zip(self.settled_token)
    }

    fn job(self) -> Option<Row> {
        Some(Row {
            id: self.id?,
            kind_id: self.kind_id?,
            priority: self.priority?,
            position: self.position?,
            token: self.token?,
            attempt: self.attempt?,
            max_attempts: self.max_attempts?,
            snoozes: self.snoozes?,
            lost: self.lost?,
            media_type: self.media_type,
            payload: self.payload?,
            metadata: self.metadata,
            last_problem: self.last_problem,
            enqueued_at: self.enqueued_at?,
            run_at: self.run_at?,
            release: self.release?,
            options: self.options,
            expired: self.expired?,
        })
    }
}

impl Database {
    /// Writes the outcomes, of which each [fits](Ended::fits_a_turn), and claims as [`Database::claim`]
    /// does. Both are committed when this returns.
    ///
    /// # Errors
    /// On any error the fate of both is unknown: settle the outcomes by themselves, and ask for the claim
    /// with [`Database::reclaim`].
    pub async fn turn(
        &self,
        claimant: impl Into<Claimant<'_>>,
        ended: &[Ended],
        claim: &ClaimNumber,
        lanes: &[LaneQuota],
    ) -> Result<Turn, QueueError> {
        let Claimant { runner, queues } = claimant.into();
        // In order of id, as settling does.
        let mut sorted: Vec<&Ended> = ended.iter().collect();
        sorted.sort_by_key(|end| end.job_id);
        let columns = Columns::of(&sorted);
        let Finals { states, results, media_types } = Finals::of(&sorted);
        let LaneColumns { kinds, priorities, positions, quotas } = LaneColumns::of(lanes);
        let answers = bounded!(self, "settle and claim", |conn| {
            sqlx::query_as!(
            Answer,
            "select * from stokehold.take_turn($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14,
               $15, $16, $17, $18, $19, $20, $21)",
            runner.0,
            &columns.ids,
            &columns.tokens,
            &columns.claims,
            &columns.releases as &[Option<i32>],
            &states as &[&str],
            &columns.codes as &[&str],
            &results as &[Option<&[u8]>],
            &media_types as &[Option<&str>],
            &columns.problems as &[Option<String>],
            &columns.fuel as &[Option<i64>],
            &columns.wall_us as &[Option<i64>],
            &columns.peak_memory_bytes as &[Option<i64>],
            &columns.host_calls as &[Option<i64>],
            claim.number,
            &kinds,
            &priorities,
            &positions,
            &quotas,
            &claim.answered,
            queues as Option<&[String]>
        )
        .fetch_all(conn)
        })?;
        let settled: HashSet<(i64, i64)> = answers.iter().filter_map(Answer::settled).collect();
        let applied = ended.iter().map(|end| settled.contains(&(end.job_id.0, end.token.0)));
        Ok(Turn {
            applied: applied.collect(),
            claimed: in_order(answers.into_iter().filter_map(Answer::job).collect(), claim.number),
        })
    }
}
