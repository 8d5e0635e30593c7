//! Settling: what attempts came to, written once and only under the claim they belong to.
//!
//! Many outcomes go in one call. Each gets an answer, and each answer is final: the caller keeps an
//! outcome until it has one, asking again when a commit's fate is unknown.

use std::collections::{HashMap, HashSet};
use std::mem;
use std::time::Duration;

use sqlx::{Connection, PgConnection};
use stokehold_domain::{
    Blob, ClaimToken, JobId, JobState, LogLine, Next, Problem, Receipt, RunnerId, blob,
};

use crate::database::bounded;
use crate::logs::{LogChunk, insert_logs};
use crate::{Database, QueueError};

/// One attempt that has ended, and what follows.
#[derive(Clone, Debug)]
pub struct Ended {
    /// The job.
    pub job_id: JobId,
    /// The claim.
    pub token: ClaimToken,
    /// The claim of this runner that took the job, see [`crate::Claimed`].
    pub claim: i64,
    /// This try, from 1.
    pub attempt: u16,
    /// The release that ran; `None` when none could be found.
    pub release: Option<i32>,
    /// The outcome's stable code.
    pub code: &'static str,
    /// What becomes of the job.
    pub next: Next,
    /// The result, if it succeeded with one.
    pub result: Option<Blob>,
    /// What went wrong, if something did.
    pub problem: Option<Problem>,
    /// What the attempt used; `None` when no handler was started.
    pub receipt: Option<Receipt>,
    /// Log lines not yet stored.
    pub log: Vec<LogLine>,
}

/// What became of one write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It took effect now.
    Applied,
    /// It had taken effect before.
    AlreadyApplied,
    /// The claim is no longer this runner's; nothing changed.
    Stale,
    /// The job no longer lives, and this claim did not end it.
    Gone,
}

/// A job and a token.
type Claim = (i64, i64);

/// How often a write is tried whose row changed under it while the claim stayed good.
const TRIES: u32 = 5;

impl Database {
    /// Writes all outcomes in one transaction and returns what became of each, in the same order.
    ///
    /// # Errors
    /// On any error the fate is unknown: ask again with the same outcomes.
    pub async fn settle(&self, runner: RunnerId, ended: &[Ended]) -> Result<Vec<Fate>, QueueError> {
        // In order of id, so that two flushes that meet in a row wait for, never against each other.
        let mut open: Vec<&Ended> = ended.iter().collect();
        open.sort_by_key(|end| end.job_id);
        let mut fates = HashMap::new();
        for _ in 0..TRIES {
            let applied = self.write(runner, &open).await?;
            if fates.is_empty() && applied.len() == ended.len() {
                return Ok(vec![Fate::Applied; ended.len()]);
            }
            let applied: HashSet<Claim> = applied.into_iter().collect();
            let (done, others): (Vec<&Ended>, Vec<&Ended>) =
                mem::take(&mut open).into_iter().partition(|end| applied.contains(&claim(end)));
            fates.extend(done.into_iter().map(|end| (claim(end), Fate::Applied)));
            let asked = self.fates(runner, &others).await?;
            // Last of all, so that what is tried in vain has an answer too.
            fates.extend(asked.iter().map(|(claim, fate, _)| (*claim, *fate)));
            let held: HashSet<Claim> =
                asked.iter().filter(|(.., held)| *held).map(|(claim, ..)| *claim).collect();
            open = others.into_iter().filter(|end| held.contains(&claim(end))).collect();
            if open.is_empty() {
                break;
            }
        }
        let fate = |end| fates.get(&claim(end)).copied().unwrap_or(Fate::Gone);
        Ok(ended.iter().map(fate).collect())
    }

    /// One transaction with all of them; returns those that took effect.
    async fn write(&self, runner: RunnerId, ended: &[&Ended]) -> Result<Vec<Claim>, QueueError> {
        let (finished, released): (Vec<&Ended>, Vec<&Ended>) =
            ended.iter().partition(|end| matches!(end.next, Next::Finish(_)));
        let logs: Vec<LogChunk> = ended
            .iter()
            .filter(|end| !end.log.is_empty())
            .map(|end| LogChunk::new(end.job_id, end.token, end.claim, end.attempt, &end.log))
            .collect();
        bounded!(self, "settle attempts", |conn| async {
            if released.is_empty() && logs.is_empty() {
                return finish(conn, runner, &finished).await;
            }
            if finished.is_empty() && logs.is_empty() {
                return release(conn, runner, &released).await;
            }
            let mut transaction = conn.begin().await?;
            if !finished.is_empty() && !released.is_empty() {
                lock_in_order(&mut transaction, ended).await?;
            }
            // Logs first: their guard wants the row as it is before.
            insert_logs(&mut transaction, runner, &logs).await?;
            let mut applied = finish(&mut transaction, runner, &finished).await?;
            applied.extend(release(&mut transaction, runner, &released).await?);
            transaction.commit().await?;
            Ok(applied)
        })
    }

    /// Why these were not applied, and whether the claim is as good as before.
    async fn fates(
        &self,
        runner: RunnerId,
        ended: &[&Ended],
    ) -> Result<Vec<(Claim, Fate, bool)>, QueueError> {
        let ids: Vec<i64> = ended.iter().map(|end| end.job_id.0).collect();
        let tokens: Vec<i64> = ended.iter().map(|end| end.token.0).collect();
        let claims: Vec<i64> = ended.iter().map(|end| end.claim).collect();
        let rows = bounded!(self, "look up the fate of attempts", |conn| sqlx::query_file!(
            "src/sql/fate.sql",
            runner.0,
            &ids,
            &tokens,
            &claims
        )
        .fetch_all(conn))?;
        let fate = |already, live| match (already, live) {
            (true, _) => Fate::AlreadyApplied,
            (false, true) => Fate::Stale,
            (false, false) => Fate::Gone,
        };
        let answer = rows
            .into_iter()
            .map(|row| ((row.job_id, row.token), fate(row.already, row.live), row.held));
        Ok(answer.collect())
    }
}

fn claim(end: &Ended) -> Claim {
    (end.job_id.0, end.token.0)
}

/// Locks the jobs of all outcomes, in order of id, before two statements write some of them each: whoever
/// locks many jobs does it in this order, or two could wait for each other.
async fn lock_in_order(conn: &mut PgConnection, ended: &[&Ended]) -> Result<(), sqlx::Error> {
    let ids: Vec<i64> = ended.iter().map(|end| end.job_id.0).collect();
    sqlx::query!(
        "select from unnest($1::bigint[]) as ended(id)
         cross join lateral (select from stokehold.jobs where id = ended.id limit 1 for update) job",
        &ids
    )
    .execute(conn)
    .await?;
    Ok(())
}

async fn finish(
    conn: &mut PgConnection,
    runner: RunnerId,
    ended: &[&Ended],
) -> Result<Vec<Claim>, sqlx::Error> {
    if ended.is_empty() {
        return Ok(Vec::new());
    }
    let columns = Columns::of(ended);
    let Finals { states, results, media_types } = Finals::of(ended);
    sqlx::query_file!(
        "src/sql/finish.sql",
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
    )
    .fetch_all(conn)
    .await
    .map(|rows| rows.into_iter().map(|row| (row.id, row.token)).collect())
}

async fn release(
    conn: &mut PgConnection,
    runner: RunnerId,
    ended: &[&Ended],
) -> Result<Vec<Claim>, sqlx::Error> {
    if ended.is_empty() {
        return Ok(Vec::new());
    }
    let columns = Columns::of(ended);
    let mut states = Vec::with_capacity(ended.len());
    let mut delays = Vec::with_capacity(ended.len());
    let mut counted = Vec::with_capacity(ended.len());
    for end in ended {
        let (state, delay, counts) = match end.next {
            Next::Retry(delay) => (JobState::Retryable, delay, true),
            Next::Snooze(delay) => (JobState::Scheduled, delay, false),
            Next::HandBack(delay) if delay > Duration::ZERO => (JobState::Retryable, delay, false),
            Next::HandBack(_) | Next::Finish(_) => (JobState::Available, Duration::ZERO, false),
        };
        states.push(state.as_str());
        delays.push(i64::try_from(delay.as_millis()).unwrap_or(i64::MAX));
        counted.push(counts);
    }
    // A job handed back before its handler started leaves no trace of an attempt.
    let recorded: Vec<bool> = ended.iter().map(|end| end.receipt.is_some()).collect();
    sqlx::query_file!(
        "src/sql/release.sql",
        runner.0,
        &columns.ids,
        &columns.tokens,
        &columns.claims,
        &columns.releases as &[Option<i32>],
        &states as &[&str],
        &delays,
        &counted,
        &recorded,
        &columns.codes as &[&str],
        &columns.problems as &[Option<String>],
        &columns.fuel as &[Option<i64>],
        &columns.wall_us as &[Option<i64>],
        &columns.peak_memory_bytes as &[Option<i64>],
        &columns.host_calls as &[Option<i64>],
    )
    .fetch_all(conn)
    .await
    .map(|rows| rows.into_iter().map(|row| (row.id, row.token)).collect())
}

/// The columns that all statements share, one vector each.
pub(crate) struct Columns {
    pub(crate) ids: Vec<i64>,
    pub(crate) tokens: Vec<i64>,
    pub(crate) claims: Vec<i64>,
    pub(crate) releases: Vec<Option<i32>>,
    pub(crate) codes: Vec<&'static str>,
    pub(crate) problems: Vec<Option<String>>,
    pub(crate) fuel: Vec<Option<i64>>,
    pub(crate) wall_us: Vec<Option<i64>>,
    pub(crate) peak_memory_bytes: Vec<Option<i64>>,
    pub(crate) host_calls: Vec<Option<i64>>,
}

/// The columns of outcomes that end their jobs.
pub(crate) struct Finals<'a> {
    pub(crate) states: Vec<&'static str>,
    pub(crate) results: Vec<Option<&'a [u8]>>,
    pub(crate) media_types: Vec<Option<&'a str>>,
}

impl<'a> Finals<'a> {
    pub(crate) fn of(ended: &[&'a Ended]) -> Self {
        let result = |end: &&'a Ended| end.result.as_ref();
        Finals {
            states: ended.iter().map(|end| final_state(end.next).as_str()).collect(),
            results: ended.iter().map(|end| result(end).map(|blob| &blob.bytes[..])).collect(),
            media_types: ended.iter().map(|end| result(end).and_then(stored_media_type)).collect(),
        }
    }
}

impl Columns {
    pub(crate) fn of(ended: &[&Ended]) -> Self {
        let used = |of: fn(&Receipt) -> u64| {
            let number = |end: &&Ended| end.receipt.as_ref().map(of).map(saturating);
            ended.iter().map(number).collect()
        };
        Columns {
            ids: ended.iter().map(|end| end.job_id.0).collect(),
            tokens: ended.iter().map(|end| end.token.0).collect(),
            claims: ended.iter().map(|end| end.claim).collect(),
            releases: ended.iter().map(|end| end.release).collect(),
            codes: ended.iter().map(|end| end.code).collect(),
            problems: ended.iter().map(|end| end.problem.as_ref().map(problem_text)).collect(),
            fuel: used(|receipt| receipt.fuel),
            wall_us: used(|receipt| receipt.wall_us),
            peak_memory_bytes: used(|receipt| receipt.peak_memory_bytes),
            host_calls: used(|receipt| receipt.host_calls),
        }
    }
}

fn saturating(number: u64) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}

fn problem_text(problem: &Problem) -> String {
    serde_json::to_string(problem).expect("a problem is strings and bytes, which JSON can carry")
}

fn stored_media_type(blob: &Blob) -> Option<&str> {
    Some(blob.media_type.as_str()).filter(|media_type| *media_type != blob::JSON)
}

fn final_state(next: Next) -> JobState {
    match next {
        Next::Finish(state) if state.is_final() => state,
        // The caller sorted: anything else went to `release`.
        _ => JobState::Discarded,
    }
}
