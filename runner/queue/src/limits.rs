//! Limits of kinds: claiming within them, and counting anew what they are reckoned by.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::Value;
use stokehold_domain::{KindId, KindLimits, kind_limits::Rate};

use crate::claim::{LaneColumns, Row, in_order};
use crate::database::bounded;
use crate::{ClaimNumber, Claimant, Claimed, Database, Lane, LaneQuota, QueueError};

/// What a claim within limits came to.
#[derive(Clone, Debug, Default)]
pub struct LimitedClaim {
    /// What was claimed, in the order in which it is to be started.
    pub claimed: Vec<Claimed>,
    /// Lanes that may give more after this time; of others there is nothing until a permit comes back.
    pub again: Vec<(Lane, Duration)>,
}

/// One row of the answer: a job, or what is said of a lane.
struct Answer {
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
    again_ms: Option<i32>,
}

impl Answer {
    fn again(&self) -> Option<(Lane, Duration)> {
        let lane = Lane { kind_id: KindId(self.kind_id?), priority: self.priority? };
        Some((lane, Duration::from_millis(u64::try_from(self.again_ms?).unwrap_or_default())))
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
    /// As [`Database::claim`], of kinds that have limits: of others it takes nothing, and that one takes nothing of
    /// these.
    ///
    /// # Errors
    /// As [`Database::claim`].
    pub async fn claim_limited(
        &self,
        claimant: impl Into<Claimant<'_>>,
        claim: &ClaimNumber,
        lanes: &[LaneQuota],
    ) -> Result<LimitedClaim, QueueError> {
        let Claimant { runner, queues } = claimant.into();
        let LaneColumns { kinds, priorities, positions, quotas } = LaneColumns::of(lanes);
        let answers = bounded!(self, "claim jobs within limits", |conn| {
            sqlx::query_as!(
                Answer,
                "select * from stokehold.claim_limited($1, $2, $3, $4, $5, $6, $7, $8)",
                runner.0,
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
        let again = answers.iter().filter_map(Answer::again).collect();
        let jobs = answers.into_iter().filter_map(Answer::job).collect();
        Ok(LimitedClaim { claimed: in_order(jobs, claim.number), again })
    }

    /// Counts the permits of those kinds anew for which it is time: whose limits changed, or for which somebody
    /// [asked](Database::recount_limits). Says of how many; up to 10.
    pub async fn recount_due(&self) -> Result<i32, QueueError> {
        bounded!(self, "count permits", |conn| sqlx::query_scalar!(
            r#"select stokehold.recount_due() as "done!""#
        )
        .fetch_one(conn))
    }

    /// Has the permits of all kinds that have limits counted anew. Nothing makes that needful but a transaction that
    /// freed one and took very long; it is the net under everything else.
    pub async fn recount_limits(&self) -> Result<(), QueueError> {
        bounded!(self, "have permits counted", |conn| {
            sqlx::query!(
            "update stokehold.kinds set recount_at = clock_timestamp() where limited and recount_at is null"
        )
        .execute(conn)
        })?;
        Ok(())
    }
}

/// Limits as their columns have them.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    pub(crate) max_running: Option<i32>,
    pub(crate) max_running_per_key: Option<i32>,
    pub(crate) keeps_order: bool,
    pub(crate) rate: [Option<i32>; 3],
    pub(crate) key_rate: [Option<i32>; 3],
}

impl Columns {
    pub(crate) fn of(limits: &KindLimits) -> Self {
        let small = |number: u32| number.try_into().unwrap_or(i32::MAX);
        let rate = |rate: Option<Rate>| match rate {
            None => [None; 3],
            Some(rate) => {
                [rate.starts, rate.per_ms, rate.bucket()].map(|number| Some(small(number)))
            }
        };
        Columns {
            max_running: limits.max_running.map(small),
            max_running_per_key: limits.max_running_per_key.map(small),
            keeps_order: limits.keeps_order,
            rate: rate(limits.rate),
            key_rate: rate(limits.key_rate),
        }
    }

    pub(crate) fn limits(self) -> KindLimits {
        let count = |number: i32| number.try_into().unwrap_or_default();
        let rate = |[starts, per_ms, burst]: [Option<i32>; 3]| {
            Some(Rate { starts: count(starts?), per_ms: count(per_ms?), burst: count(burst?) })
        };
        KindLimits {
            max_running: self.max_running.map(count),
            max_running_per_key: self.max_running_per_key.map(count),
            keeps_order: self.keeps_order,
            rate: rate(self.rate),
            key_rate: rate(self.key_rate),
        }
    }
}
