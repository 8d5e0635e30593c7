//! Claiming: which runner runs which job, decided and committed before the handler starts.

use chrono::{DateTime, Utc};
use serde_json::Value;
use stokehold_domain::{Blob, ClaimToken, JobId, KindId, Problem, RunnerId, blob};

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

/// A job that this runner now holds.
#[derive(Clone, Debug)]
pub struct Claimed {
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
}

impl Database {
    /// Claims what is available in the lanes, up to each lane's quota, in the order in which it is to
    /// be started: by priority, then first in, first out. The claim is committed when this returns. A
    /// runner whose lease is over gets nothing.
    pub async fn claim(
        &self,
        runner: RunnerId,
        lanes: &[LaneQuota],
    ) -> Result<Vec<Claimed>, QueueError> {
        let kinds: Vec<i32> = lanes.iter().map(|lane| lane.kind_id.0).collect();
        let priorities: Vec<i16> = lanes.iter().map(|lane| lane.priority).collect();
        let positions: Vec<i64> = lanes.iter().map(|lane| lane.after_position).collect();
        let quotas: Vec<i32> = lanes.iter().map(|lane| lane.quota).collect();
        let mut rows = bounded!(self, "claim jobs", |conn| sqlx::query_file!(
            "src/sql/claim.sql",
            runner.0,
            &kinds,
            &priorities,
            &positions,
            &quotas
        )
        .fetch_all(conn))?;
        // An update returns its rows in the order in which it came upon them.
        rows.sort_unstable_by_key(|row| (row.priority, row.position));
        Ok(rows
            .into_iter()
            .map(|row| Claimed {
                id: JobId(row.id),
                kind_id: KindId(row.kind_id),
                release: row.release,
                priority: row.priority,
                position: row.position,
                token: ClaimToken(row.token),
                attempt: count(row.attempt),
                max_attempts: count(row.max_attempts),
                snoozes: count(row.snoozes),
                lost: count(row.lost),
                payload: blob(row.media_type, row.payload),
                metadata: row.metadata,
                last_problem: row.last_problem.and_then(problem),
                enqueued_at: row.enqueued_at,
                run_at: row.run_at,
            })
            .collect())
    }
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
