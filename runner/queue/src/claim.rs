//! Claiming: which runner runs which job, decided and committed before the handler starts.

use chrono::{DateTime, Utc};
use serde_json::Value;
use stokehold_domain::{Blob, ClaimToken, JobId, JobOptions, KindId, Problem, RunnerId, blob};

use crate::database::bounded;
use crate::{Database, QueueError};

/// How many jobs to take from one lane, and from where on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneQuota {
    /// The lane's kind.
    pub kind_id: KindId,
    /// The lane's priority.
    pub priority: i16,
    /// Only jobs behind this position; 0 looks from the start of the lane.
    pub after_position: i64,
    /// At most this many.
    pub quota: i32,
}

/// One claim of a runner: which, and what may be forgotten.
#[derive(Clone, Debug, Default)]
pub struct ClaimNumber {
    /// Grows with every claim of this registration; the claim is known to the database by it.
    pub number: i64,
    /// Earlier claims of which every job is answered.
    pub answered: Vec<i64>,
}

/// Who claims.
#[derive(Clone, Copy, Debug)]
pub struct Claimant<'a> {
    /// The runner.
    pub runner: RunnerId,
    /// The queues that it serves; `None` for all.
    pub queues: Option<&'a [String]>,
}

impl From<RunnerId> for Claimant<'_> {
    fn from(runner: RunnerId) -> Self {
        Claimant { runner, queues: None }
    }
}

/// A job that this runner now holds.
#[derive(Clone, Debug)]
pub struct Claimed {
    /// The claim that took it.
    pub claim: i64,
    /// The job.
    pub id: JobId,
    /// Its kind.
    pub kind_id: KindId,
    /// The release that was active at the claim; this attempt runs it.
    pub release: i32,
    /// The lane's priority.
    pub priority: i16,
    /// Where in its lane the job stood.
    pub position: i64,
    /// The fence: every later write about this claim carries it.
    pub token: ClaimToken,
    /// This try, from 1.
    pub attempt: u16,
    /// Tries in all.
    pub max_attempts: u16,
    /// Snoozes so far.
    pub snoozes: u16,
    /// Nodes that died under it. Above 0 the job is a suspect.
    pub lost: u16,
    /// The input.
    pub payload: Blob,
    /// Pairs given at enqueue.
    pub metadata: Option<Value>,
    /// How the previous attempt ended.
    pub last_problem: Option<Problem>,
    /// When it was enqueued.
    pub enqueued_at: DateTime<Utc>,
    /// When it became due.
    pub run_at: DateTime<Utc>,
    /// What it says about itself, if anything.
    pub options: Option<Box<JobOptions>>,
    /// It was not to be started any more when it was claimed.
    pub expired: bool,
}

/// A row as the statements return it.
pub(crate) struct Row {
    pub(crate) id: i64,
    pub(crate) kind_id: i32,
    pub(crate) priority: i16,
    pub(crate) position: i64,
    pub(crate) token: i64,
    pub(crate) attempt: i32,
    pub(crate) max_attempts: i16,
    pub(crate) snoozes: i16,
    pub(crate) lost: i16,
    pub(crate) media_type: Option<String>,
    pub(crate) payload: Vec<u8>,
    pub(crate) metadata: Option<Value>,
    pub(crate) last_problem: Option<Value>,
    pub(crate) enqueued_at: DateTime<Utc>,
    pub(crate) run_at: DateTime<Utc>,
    pub(crate) release: i32,
    pub(crate) options: Option<Value>,
    pub(crate) expired: bool,
}

/// Lanes as the statements take them, one vector for each column.
pub(crate) struct LaneColumns {
    pub(crate) kinds: Vec<i32>,
    pub(crate) priorities: Vec<i16>,
    pub(crate) positions: Vec<i64>,
    pub(crate) quotas: Vec<i32>,
}

impl LaneColumns {
    pub(crate) fn of(lanes: &[LaneQuota]) -> Self {
        LaneColumns {
            kinds: lanes.iter().map(|lane| lane.kind_id.0).collect(),
            priorities: lanes.iter().map(|lane| lane.priority).collect(),
            positions: lanes.iter().map(|lane| lane.after_position).collect(),
            quotas: lanes.iter().map(|lane| lane.quota).collect(),
        }
    }
}

impl Row {
    fn claimed(self, claim: i64) -> Claimed {
        Claimed {
            claim,
            id: JobId(self.id),
            kind_id: KindId(self.kind_id),
            release: self.release,
            priority: self.priority,
            position: self.position,
            token: ClaimToken(self.token),
            attempt: self.attempt.try_into().unwrap_or(u16::MAX),
            max_attempts: count(self.max_attempts),
            snoozes: count(self.snoozes),
            lost: count(self.lost),
            payload: blob(self.media_type, self.payload),
            metadata: self.metadata,
            last_problem: self.last_problem.and_then(problem),
            enqueued_at: self.enqueued_at,
            run_at: self.run_at,
            options: self.options.map(|stored| Box::new(JobOptions::from_json(stored))),
            expired: self.expired,
        }
    }
}

impl Database {
    /// Claims what is available in the lanes, up to each lane's quota, in the order in which it is to
    /// be started: by priority, then first in, first out. The claim is committed when this returns. A
    /// runner whose lease is over gets nothing, and a lane of a queue that it does not serve gives
    /// nothing.
    ///
    /// # Errors
    /// On any error the claim may have been committed all the same: ask with [`Database::reclaim`].
    pub async fn claim(
        &self,
        claimant: impl Into<Claimant<'_>>,
        claim: &ClaimNumber,
        lanes: &[LaneQuota],
    ) -> Result<Vec<Claimed>, QueueError> {
        let Claimant { runner, queues } = claimant.into();
        let LaneColumns { kinds, priorities, positions, quotas } = LaneColumns::of(lanes);
        let rows = bounded!(self, "claim jobs", |conn| sqlx::query_file_as!(
            Row,
            "src/sql/claim.sql",
            runner.0,
            claim.number,
            &kinds,
            &priorities,
            &positions,
            &quotas,
            &claim.answered,
            queues as Option<&[String]>
        )
        .fetch_all(conn))?;
        Ok(in_order(rows, claim.number))
    }

    /// What a claim took whose answer was lost on the way; nothing if it was not committed, or not
    /// yet.
    pub async fn reclaim(&self, runner: RunnerId, number: i64) -> Result<Vec<Claimed>, QueueError> {
        let rows = bounded!(self, "look up a claim", |conn| sqlx::query_file_as!(
            Row,
            "src/sql/reclaim.sql",
            runner.0,
            number
        )
        .fetch_all(conn))?;
        Ok(in_order(rows, number))
    }
}

/// In the order in which they are to be started, and each once: a lane that is named twice gives its
/// jobs twice.
pub(crate) fn in_order(mut rows: Vec<Row>, claim: i64) -> Vec<Claimed> {
    rows.sort_unstable_by_key(|row| (row.priority, row.position));
    rows.dedup_by_key(|row| row.id);
    rows.into_iter().map(|row| row.claimed(claim)).collect()
}

/// A column that a CHECK keeps from being negative.
pub(crate) fn count(value: i16) -> u16 {
    value.try_into().unwrap_or_default()
}

/// Bytes with the media type as stored, where null stands for JSON.
pub(crate) fn blob(media_type: Option<String>, bytes: Vec<u8>) -> Blob {
    Blob { media_type: media_type.unwrap_or_else(|| blob::JSON.to_owned()), bytes }
}

/// A stored problem; one that an older or newer binary wrote in another form is shown as it is.
pub(crate) fn problem(value: Value) -> Option<Problem> {
    Some(serde_json::from_value(value.clone()).unwrap_or_else(|_| Problem::new(value.to_string())))
}
