//! Log lines of attempts: stored in chunks, under the claim that wrote them.

use chrono::{DateTime, Utc};
use sqlx::PgConnection;
use stokehold_domain::{ClaimToken, JobId, LogLine, RunnerId};

use crate::claim::count;
use crate::database::bounded;
use crate::{Database, QueueError};

/// Lines of one attempt to be stored together.
#[derive(Clone, Debug)]
pub struct LogChunk {
    job_id: JobId,
    token: ClaimToken,
    claim: i64,
    attempt: u16,
    lines: String,
}

impl LogChunk {
    /// The lines of one attempt since its last chunk. `claim` is the number of the claim that took
    /// the job, see [`crate::Claimed`].
    pub fn new(
        job_id: JobId,
        token: ClaimToken,
        claim: i64,
        attempt: u16,
        lines: &[LogLine],
    ) -> Self {
        let lines = serde_json::to_string(lines)
            .expect("log lines are strings and numbers, which JSON can carry");
        LogChunk { job_id, token, claim, attempt, lines }
    }
}

/// A stored line with the attempt it belongs to.
#[derive(Clone, Debug)]
pub struct StoredLog {
    /// The attempt, from 1.
    pub attempt: u16,
    /// When the attempt began.
    pub started_at: Option<DateTime<Utc>>,
    /// The line; its offset counts from the attempt's beginning.
    pub line: LogLine,
}

impl Database {
    /// Stores lines of running attempts. Chunks whose claim is over are dropped; returns how many
    /// were stored.
    pub async fn append_logs(
        &self,
        runner: RunnerId,
        chunks: &[LogChunk],
    ) -> Result<u64, QueueError> {
        bounded!(self, "store log lines", |conn| insert_logs(conn, runner, chunks))
    }

    /// The stored lines of a job in order, the newest `limit` of them.
    pub async fn logs(&self, job: JobId, limit: usize) -> Result<Vec<StoredLog>, QueueError> {
        let rows = bounded!(self, "read log lines", |conn| sqlx::query!(
            r#"select attempt, started_at, lines from stokehold.job_logs
               where job_id = $1 order by token, flushed_at"#,
            job.0
        )
        .fetch_all(conn))?;
        let mut logs = Vec::new();
        for row in rows {
            let lines: Vec<LogLine> = serde_json::from_value(row.lines).unwrap_or_default();
            let stored =
                |line| StoredLog { attempt: count(row.attempt), started_at: row.started_at, line };
            logs.extend(lines.into_iter().map(stored));
        }
        let surplus = logs.len().saturating_sub(limit);
        logs.drain(..surplus);
        Ok(logs)
    }
}

/// Inserts chunks whose claim is current.
pub(crate) async fn insert_logs(
    conn: &mut PgConnection,
    runner: RunnerId,
    chunks: &[LogChunk],
) -> Result<u64, sqlx::Error> {
    if chunks.is_empty() {
        return Ok(0);
    }
    let ids: Vec<i64> = chunks.iter().map(|chunk| chunk.job_id.0).collect();
    let tokens: Vec<i64> = chunks.iter().map(|chunk| chunk.token.0).collect();
    let claims: Vec<i64> = chunks.iter().map(|chunk| chunk.claim).collect();
    let attempts: Vec<i16> =
        chunks.iter().map(|chunk| chunk.attempt.try_into().unwrap_or(i16::MAX)).collect();
    let lines: Vec<&str> = chunks.iter().map(|chunk| chunk.lines.as_str()).collect();
    let done = sqlx::query_file!(
        "src/sql/insert_logs.sql",
        runner.0,
        &ids,
        &tokens,
        &claims,
        &attempts,
        &lines as &[&str],
    )
    // Planned each time, as every outcome is.
    .persistent(false)
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}
