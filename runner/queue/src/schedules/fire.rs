//! Firing: by the clock, on request, and of a range that is past.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use sqlx::{Connection, PgConnection};
use stokehold_domain::{JobId, Timing};

use super::{FireRecord, Misfire, Overlap, unknown};
use crate::database::bounded;
use crate::{Database, QueueError, RefusalCode};

/// Fires of one transaction, and of one backfill.
pub const MAX_FIRES: usize = 1_000;
/// A fire that is this late is no misfire: nodes look each second, and may be slow.
const ON_TIME: TimeDelta = TimeDelta::seconds(60);
/// Schedules fired in one go; a tick asks for more.
const MAX_SCHEDULES: usize = 1_000;
/// When a schedule that failed is tried again: if that may help by itself, and if not.
const SOON: Duration = Duration::from_secs(5);
const IN_A_MINUTE: Duration = Duration::from_secs(60);
/// Fires forgotten by one statement.
const PAGE: i64 = 10_000;

/// What firing came to.
#[derive(Clone, Debug, Default)]
pub struct Fired {
    /// Jobs made.
    pub jobs: usize,
    /// Fires that made none.
    pub skipped: usize,
    /// Schedules that could not be fired.
    pub failed: Vec<FailedSchedule>,
}

/// A schedule that could not be fired.
#[derive(Clone, Debug)]
pub struct FailedSchedule {
    /// Which.
    pub name: String,
    /// Why.
    pub problem: String,
}

/// What to do about the times that have come.
struct Plan {
    fires: Vec<(DateTime<Utc>, Option<&'static str>)>,
    next: Option<DateTime<Utc>>,
}

fn plan(
    timing: &Timing,
    from: DateTime<Utc>,
    now: DateTime<Utc>,
    misfire: Misfire,
    window_s: i32,
) -> Plan {
    let late_before = now - ON_TIME;
    let cutoff = late_before.min(now - TimeDelta::seconds(window_s.into()));
    let mut due = timing.fires_from(from).take_while(|fire| *fire <= now);
    let due: Vec<_> = due.by_ref().take(MAX_FIRES).collect();
    let mut next = match due.last() {
        Some(last) => timing.next_after(*last),
        None => timing.next_after(now),
    };
    let is_all = next.is_none_or(|next| next > now);
    if next.is_some_and(|next| next < cutoff) {
        // Of what nobody would run any more, so many are recorded and not all.
        next = timing.fires_from(cutoff).next();
    }
    // The latest makes up for all before it; nothing does if one that is on time follows.
    let latest = due.last().copied().filter(|_| is_all);
    let runs = |fire: DateTime<Utc>| match misfire {
        _ if fire >= late_before => true,
        Misfire::Skip => false,
        Misfire::Once => fire >= cutoff && latest == Some(fire),
        Misfire::All => fire >= cutoff,
    };
    let fires = due.iter().map(|fire| (*fire, (!runs(*fire)).then_some("missed"))).collect();
    Plan { fires, next }
}

impl Database {
    /// Fires every schedule that is due and that nobody else is firing, each in a transaction of its own.
    ///
    /// # Errors
    /// When the database fails. What is wrong with one schedule is recorded in its row, and it is tried again in
    /// a minute.
    pub async fn fire_due_schedules(&self) -> Result<Fired, QueueError> {
        let mut fired = Fired::default();
        for _ in 0..MAX_SCHEDULES {
            let mut found: Option<(i32, String)> = None;
            let one = bounded!(self, "fire a schedule", |conn| fire_one(conn, &mut found));
            match (one, found) {
                (Ok(Some((jobs, skipped))), _) => {
                    fired.jobs += jobs;
                    fired.skipped += skipped;
                }
                (Ok(None), _) => break,
                (Err(error), Some((id, name)))
                    if !matches!(error, QueueError::Unreachable { .. }) =>
                {
                    let problem = match &error {
                        QueueError::Database { source, .. } => match &**source {
                            sqlx::Error::Configuration(error) => error.to_string(),
                            source => source.to_string(),
                        },
                        error => error.to_string(),
                    };
                    // What may pass by itself is tried again soon, but after the others, or it could hold them up.
                    let pause = if error.is_temporary() { SOON } else { IN_A_MINUTE };
                    self.note_problem(id, &problem, pause).await?;
                    fired.failed.push(FailedSchedule { name, problem });
                }
                (Err(error), _) => return Err(error),
            }
        }
        Ok(fired)
    }

    async fn note_problem(
        &self,
        id: i32,
        problem: &str,
        pause: Duration,
    ) -> Result<(), QueueError> {
        bounded!(self, "record why a schedule failed", |conn| {
            sqlx::query!(
                "update stokehold.schedules set problem = left($2, 2000),
               due_at = clock_timestamp() + make_interval(secs => $3)
             where id = $1 and due_at is not null",
                id,
                problem,
                pause.as_secs_f64()
            )
            .execute(conn)
        })?;
        Ok(())
    }

    /// Makes a job of a schedule now, paused or not, whatever runs.
    ///
    /// # Errors
    /// [`QueueError::Refused`] when there is no such schedule.
    pub async fn run_schedule(&self, name: &str) -> Result<FireRecord, QueueError> {
        let made = bounded!(self, "run a schedule now", |conn| async {
            let mut transaction = conn.begin().await?;
            // Never a whole second, which a fire by the clock may have.
            let row = sqlx::query!(
                r#"select id, case when date_trunc('second', clock_timestamp()) = clock_timestamp()
                     then clock_timestamp() + interval '1 microsecond' else clock_timestamp() end as "now!"
                   from stokehold.schedules where name = $1::text for update"#,
                name
            )
            .fetch_optional(&mut *transaction)
            .await?;
            let Some(row) = row else { return Ok(None) };
            let jobs = fire(&mut transaction, row.id, &[(row.now, None)], "asked").await?;
            transaction.commit().await?;
            Ok(jobs.first().copied())
        })?;
        let (fire_at, job) = made.ok_or_else(|| unknown(name))?;
        Ok(FireRecord { fire_at, cause: "asked".to_owned(), job: Some(job), skipped: None })
    }

    /// Fires the times in `from..to` that have not been fired, whatever misfire and overlap say; what it would
    /// do with `dry_run`. The times that have a job stay out.
    ///
    /// # Errors
    /// [`QueueError::Refused`] for more than [`MAX_FIRES`] times, with their number, for a range that is not past,
    /// and for a schedule that is not there.
    pub async fn backfill(
        &self,
        name: &str,
        from: DateTime<Utc>,
        to: DateTime<Utc>,
        dry_run: bool,
    ) -> Result<Vec<FireRecord>, QueueError> {
        let invalid = |why: String, hint| QueueError::refused(RefusalCode::Invalid, why, hint);
        let schedule = self.schedule(name).await?.ok_or_else(|| unknown(name))?;
        let timing = Timing::read(&schedule.said.cron, &schedule.said.timezone)
            .map_err(|error| invalid(error.to_string(), ""))?;
        let now = self.now().await?;
        if from >= to || to > now {
            let why = format!("from {from} to {to} is no range that is past");
            return Err(invalid(why, "Times to come fire by themselves."));
        }
        let fires = timing
            .fires_between(from, to, MAX_FIRES)
            .map_err(|error| invalid(error.to_string(), "Backfill a shorter range."))?;
        let made = bounded!(self, "backfill a schedule", |conn| async {
            let mut transaction = conn.begin().await?;
            let id = sqlx::query_scalar!(
                "select id from stokehold.schedules where name = $1::text for update",
                name
            )
            .fetch_one(&mut *transaction)
            .await?;
            // What was missed or skipped is made up for now.
            sqlx::query!(
                "delete from stokehold.schedule_fires
                 where schedule_id = $1 and fire_at = any($2) and job_id is null",
                id,
                &fires
            )
            .execute(&mut *transaction)
            .await?;
            let fires: Vec<_> = fires.iter().map(|fire| (*fire, None)).collect();
            let made = fire(&mut transaction, id, &fires, "backfill").await?;
            if dry_run {
                transaction.rollback().await?;
            } else {
                transaction.commit().await?;
            }
            Ok(made)
        })?;
        let record = made.into_iter().map(|(fire_at, job)| FireRecord {
            fire_at,
            cause: "backfill".to_owned(),
            job: (!dry_run).then_some(job),
            skipped: None,
        });
        Ok(record.collect())
    }

    /// Forgets fires of more than 14 days ago; says how many.
    pub async fn forget_fires(&self) -> Result<u64, QueueError> {
        let mut forgotten = 0;
        loop {
            let gone = bounded!(self, "forget fires", |conn| sqlx::query!(
                "delete from stokehold.schedule_fires where ctid = any(array(
               select ctid from stokehold.schedule_fires
               where made_at < clock_timestamp() - interval '14 days' order by made_at limit $1))",
                PAGE
            )
            .execute(conn))?
            .rows_affected();
            forgotten += gone;
            if gone < PAGE.unsigned_abs() {
                return Ok(forgotten);
            }
        }
    }
}

/// Fires the schedule that is due first, and says how many jobs and skipped fires that made; which it is stands in
/// `found` from the start.
async fn fire_one(
    conn: &mut PgConnection,
    found: &mut Option<(i32, String)>,
) -> Result<Option<(usize, usize)>, sqlx::Error> {
    let mut transaction = conn.begin().await?;
    let row =
        sqlx::query_file!("src/sql/due_schedule.sql").fetch_optional(&mut *transaction).await?;
    let Some(row) = row else { return Ok(None) };
    *found = Some((row.id, row.name));
    let timing = Timing::read(&row.cron, &row.timezone)
        .map_err(|error| sqlx::Error::Configuration(error.into()))?;
    let misfire = Misfire::read(&row.misfire);
    let mut plan = plan(&timing, row.next_fire_at, row.now, misfire, row.misfire_window_s);
    if Overlap::read(&row.overlap) == Overlap::Skip {
        let mut runs = row.overlaps;
        for (_, skip) in plan.fires.iter_mut().filter(|(_, skip)| skip.is_none()) {
            // The first that runs is in the way of those behind it.
            *skip = std::mem::replace(&mut runs, true).then_some("overlap");
        }
    }
    let jobs = fire(&mut transaction, row.id, &plan.fires, "cron").await?;
    sqlx::query!(
        "update stokehold.schedules set next_fire_at = $2, due_at = $2, problem = null where id = $1",
        row.id,
        plan.next
    )
    .execute(&mut *transaction)
    .await?;
    transaction.commit().await?;
    let skipped = plan.fires.iter().filter(|(_, skip)| skip.is_some()).count();
    Ok(Some((jobs.len(), skipped)))
}

async fn fire(
    conn: &mut PgConnection,
    schedule: i32,
    fires: &[(DateTime<Utc>, Option<&'static str>)],
    cause: &str,
) -> Result<Vec<(DateTime<Utc>, JobId)>, sqlx::Error> {
    let times: Vec<DateTime<Utc>> = fires.iter().map(|(at, _)| *at).collect();
    let skips: Vec<Option<&str>> = fires.iter().map(|(_, skip)| *skip).collect();
    let rows = sqlx::query!(
        r#"select fire_at as "fire_at!", job_id as "job_id!" from stokehold.fire_schedule($1, $2, $3, $4)"#,
        schedule,
        &times,
        &skips as &[Option<&str>],
        cause
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| (row.fire_at, JobId(row.job_id))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    /// An hourly schedule since nine, looked at half a minute past noon.
    fn hourly(misfire: Misfire, window_s: i32) -> Vec<bool> {
        let timing = Timing::read("0 * * * *", "UTC").unwrap();
        let (from, now) = (at("2024-05-01T09:00:00Z"), at("2024-05-01T12:00:30Z"));
        let plan = plan(&timing, from, now, misfire, window_s);
        assert_eq!(plan.next, Some(at("2024-05-01T13:00:00Z")));
        plan.fires.iter().map(|(_, skip)| skip.is_none()).collect()
    }

    #[test]
    fn one_on_time_always_runs_and_makes_up_for_those_before_it() {
        assert_eq!(hourly(Misfire::Skip, 7200), [false, false, false, true]);
        assert_eq!(hourly(Misfire::Once, 7200), [false, false, false, true]);
        assert_eq!(hourly(Misfire::All, 7200), [false, false, true, true]);
        assert_eq!(hourly(Misfire::All, 0), [false, false, false, true]);
    }

    #[test]
    fn the_latest_of_many_runs_once_and_what_is_long_past_is_passed_over() {
        let timing = Timing::read("* * * * * *", "UTC").unwrap();
        let now = at("2024-05-01T12:00:00Z");
        let long_past = plan(&timing, at("2024-04-01T00:00:00Z"), now, Misfire::Once, 3600);
        assert_eq!(long_past.fires.len(), MAX_FIRES);
        assert!(long_past.fires.iter().all(|(_, skip)| *skip == Some("missed")));
        assert_eq!(long_past.next, Some(at("2024-05-01T11:00:00Z")));
        // A full step of late ones is not the last of them.
        let within = plan(&timing, at("2024-05-01T11:00:00Z"), now, Misfire::Once, 3600);
        assert!(within.fires.iter().all(|(_, skip)| skip.is_some()));
        assert_eq!(within.next, Some(at("2024-05-01T11:16:40Z")));
    }
}
