//! Kinds, their policy, and the releases that a kind points at one of.

use chrono::{DateTime, Utc};
use stokehold_domain::{Backoff, BackoffForm, Digest, KindId, KindLimits, Limits, RetryPolicy};

use crate::claim::count;
use crate::database::bounded;
use crate::limits::Columns;
use crate::modules::digest_of;
use crate::{Database, QueueError, RefusalCode};

/// What a priority may be. The tables and the enqueue function repeat it.
const PRIORITIES: std::ops::RangeInclusive<i16> = -1000..=1000;

/// What a kind says about its jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindPolicy {
    /// The queue its jobs wait in.
    pub queue: String,
    /// The priority of jobs that do not say; lower runs first.
    pub priority: i16,
    /// How often and when to try again.
    pub retry: RetryPolicy,
    /// How many run at a time, and start in a time.
    pub limits: KindLimits,
}

impl Default for KindPolicy {
    fn default() -> Self {
        KindPolicy {
            queue: "default".to_owned(),
            priority: 0,
            retry: RetryPolicy::default(),
            limits: KindLimits::default(),
        }
    }
}

/// A kind as stored.
#[derive(Clone, Debug)]
pub struct Kind {
    /// Its row.
    pub id: KindId,
    /// Its name.
    pub name: String,
    /// Its policy.
    pub policy: KindPolicy,
    /// The release that new attempts run; `None` while there is none, and jobs wait.
    pub active_release: Option<i32>,
    /// It, its queue or everything is paused.
    pub paused: bool,
    /// When it was made.
    pub created_at: DateTime<Utc>,
}

/// One numbered version of a kind.
#[derive(Clone, Debug)]
pub struct Release {
    /// From 1, within the kind.
    pub number: i32,
    /// The module.
    pub digest: Digest,
    /// What an attempt may use.
    pub limits: Limits,
    /// When it was made.
    pub created_at: DateTime<Utc>,
}

/// All that a node needs to run jobs of a release.
#[derive(Clone, Debug)]
pub struct RunnableRelease {
    /// The kind's name.
    pub kind: String,
    /// The queue its jobs wait in.
    pub queue: String,
    /// How retries are spaced.
    pub backoff: Backoff,
    /// The module.
    pub digest: Digest,
    /// What an attempt may use.
    pub limits: Limits,
}

impl Database {
    /// Makes the kind or changes its policy; `true` when it was new.
    pub async fn put_kind(
        &self,
        name: &str,
        policy: &KindPolicy,
    ) -> Result<(Kind, bool), QueueError> {
        for (what, text) in [("kind", name), ("queue", &policy.queue)] {
            stokehold_domain::check_name(what, text).map_err(|error| {
                QueueError::refused(RefusalCode::Invalid, error.to_string(), "")
            })?;
        }
        let attempts = policy.retry.max_attempts;
        if !(1..=RetryPolicy::MAX_ATTEMPTS).contains(&attempts) {
            let why =
                format!("max_attempts {attempts} is not within 1 to {}", RetryPolicy::MAX_ATTEMPTS);
            return Err(QueueError::refused(RefusalCode::Invalid, why, ""));
        }
        if !PRIORITIES.contains(&policy.priority) {
            let why = format!("priority {} is not within -1000 to 1000", policy.priority);
            let hint = "Lower numbers run first; 0 is usual.";
            return Err(QueueError::refused(RefusalCode::Invalid, why, hint));
        }
        let backoff = &policy.retry.backoff;
        backoff.check().map_err(|error| {
            QueueError::refused(RefusalCode::Invalid, format!("backoff: {error}"), "")
        })?;
        let delays: Vec<i64> = backoff.delays_ms.iter().copied().map(big).collect();
        let delays = (!delays.is_empty()).then_some(delays);
        policy
            .limits
            .check()
            .map_err(|error| QueueError::refused(RefusalCode::Invalid, error.to_string(), ""))?;
        let limits = Columns::of(&policy.limits);
        let row = bounded!(self, "store a kind", |conn| {
            sqlx::query!(
            r#"insert into stokehold.kinds (name, queue, priority, max_attempts, backoff_base_ms, backoff_cap_ms,
                 backoff_form, backoff_delays_ms, backoff_jitter_percent, max_running, max_running_per_key,
                 keeps_order, rate_starts, rate_per_ms, rate_burst, key_rate_starts, key_rate_per_ms, key_rate_burst)
               values ($1::text, $2::text, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)
               on conflict (name) do update set queue = excluded.queue, priority = excluded.priority,
                 max_attempts = excluded.max_attempts, backoff_base_ms = excluded.backoff_base_ms,
                 backoff_cap_ms = excluded.backoff_cap_ms, backoff_form = excluded.backoff_form,
                 backoff_delays_ms = excluded.backoff_delays_ms,
                 backoff_jitter_percent = excluded.backoff_jitter_percent,
                 max_running = excluded.max_running, max_running_per_key = excluded.max_running_per_key,
                 keeps_order = excluded.keeps_order, rate_starts = excluded.rate_starts,
                 rate_per_ms = excluded.rate_per_ms, rate_burst = excluded.rate_burst,
                 key_rate_starts = excluded.key_rate_starts, key_rate_per_ms = excluded.key_rate_per_ms,
                 key_rate_burst = excluded.key_rate_burst
               returning id, active_release, created_at, (xmax = 0) as "is_new!",
                 coalesce(paused_until > clock_timestamp(), false) as "paused!""#,
            name,
            policy.queue,
            policy.priority,
            small(policy.retry.max_attempts),
            big(backoff.base_ms),
            big(backoff.cap_ms),
            backoff.form.as_str(),
            delays.as_deref() as Option<&[i64]>,
            i16::from(backoff.jitter_percent),
            limits.max_running,
            limits.max_running_per_key,
            limits.keeps_order,
            limits.rate[0],
            limits.rate[1],
            limits.rate[2],
            limits.key_rate[0],
            limits.key_rate[1],
            limits.key_rate[2],
        )
        .fetch_one(conn)
        })?;
        let kind = Kind {
            id: KindId(row.id),
            name: name.to_owned(),
            policy: policy.clone(),
            active_release: row.active_release,
            paused: row.paused,
            created_at: row.created_at,
        };
        Ok((kind, row.is_new))
    }

    /// Makes the kind with the default policy unless it is there.
    pub async fn ensure_kind(&self, name: &str) -> Result<Kind, QueueError> {
        match self.kind(name).await? {
            Some(kind) => Ok(kind),
            None => self.put_kind(name, &KindPolicy::default()).await.map(|(kind, _)| kind),
        }
    }

    /// One kind by its name.
    pub async fn kind(&self, name: &str) -> Result<Option<Kind>, QueueError> {
        Ok(self.find_kinds(Some(name)).await?.pop())
    }

    /// All kinds by name, at most 10,000.
    pub async fn kinds(&self) -> Result<Vec<Kind>, QueueError> {
        self.find_kinds(None).await
    }

    async fn find_kinds(&self, name: Option<&str>) -> Result<Vec<Kind>, QueueError> {
        let rows = bounded!(self, "read kinds", |conn| {
            sqlx::query!(
            r#"select id, name as "name!: String", queue as "queue!: String", priority, max_attempts,
                 backoff_base_ms, backoff_cap_ms, backoff_form, backoff_delays_ms, backoff_jitter_percent,
                 active_release, created_at, max_running, max_running_per_key, keeps_order, rate_starts,
                 rate_per_ms, rate_burst, key_rate_starts, key_rate_per_ms, key_rate_burst,
                 coalesce(paused_until > clock_timestamp(), false) as "paused!"
               from stokehold.kinds where $1::text is null or name = $1 order by name limit 10000"#,
            name
        )
        .fetch_all(conn)
        })?;
        Ok(rows
            .into_iter()
            .map(|row| Kind {
                id: KindId(row.id),
                name: row.name,
                policy: KindPolicy {
                    queue: row.queue,
                    priority: row.priority,
                    retry: RetryPolicy {
                        max_attempts: count(row.max_attempts),
                        backoff: Stored {
                            form: &row.backoff_form,
                            base_ms: row.backoff_base_ms,
                            cap_ms: row.backoff_cap_ms,
                            delays_ms: row.backoff_delays_ms,
                            jitter_percent: row.backoff_jitter_percent,
                        }
                        .backoff(),
                    },
                    limits: Columns {
                        max_running: row.max_running,
                        max_running_per_key: row.max_running_per_key,
                        keeps_order: row.keeps_order,
                        rate: [row.rate_starts, row.rate_per_ms, row.rate_burst],
                        key_rate: [row.key_rate_starts, row.key_rate_per_ms, row.key_rate_burst],
                    }
                    .limits(),
                },
                active_release: row.active_release,
                paused: row.paused,
                created_at: row.created_at,
            })
            .collect())
    }

    /// Makes the next release of a kind, and activates it if asked to. The number is one more than
    /// the highest; the kind's row is locked meanwhile, so numbers have no gaps and no twins.
    pub async fn create_release(
        &self,
        kind: &str,
        digest: Digest,
        limits: &Limits,
        activate: bool,
    ) -> Result<Release, QueueError> {
        limits
            .check()
            .map_err(|error| QueueError::refused(RefusalCode::Invalid, error.to_string(), ""))?;
        let limits_json =
            serde_json::to_value(limits).expect("limits are numbers, which JSON can carry");
        let made = bounded!(self, "make a release", |conn| async {
            use sqlx::Connection;
            let mut transaction = conn.begin().await?;
            let kind_id = sqlx::query_scalar!(
                "select id from stokehold.kinds where name = $1::text for no key update",
                kind
            )
            .fetch_optional(&mut *transaction)
            .await?;
            let module = sqlx::query_scalar!(
                "select digest from stokehold.modules where digest = $1 for key share",
                &digest.0[..]
            )
            .fetch_optional(&mut *transaction)
            .await?;
            let (Some(kind_id), Some(_)) = (kind_id, module) else {
                return Ok(Err(kind_id.is_none()));
            };
            let row = sqlx::query!(
                r#"insert into stokehold.releases (kind_id, number, digest, limits)
                   select $1, coalesce(max(number), 0) + 1, $2, $3
                   from stokehold.releases where kind_id = $1
                   returning number, created_at"#,
                kind_id,
                &digest.0[..],
                limits_json
            )
            .fetch_one(&mut *transaction)
            .await?;
            if activate {
                sqlx::query!(
                    "update stokehold.kinds set active_release = $2 where id = $1",
                    kind_id,
                    row.number
                )
                .execute(&mut *transaction)
                .await?;
            }
            transaction.commit().await?;
            Ok(Ok((row.number, row.created_at)))
        })?;
        match made {
            Ok((number, created_at)) => Ok(Release { number, digest, limits: *limits, created_at }),
            Err(true) => Err(no_kind(kind)),
            Err(false) => Err(QueueError::refused(
                RefusalCode::NotFound,
                format!("there is no module {digest}"),
                "Upload it first.",
            )),
        }
    }

    /// Points the kind at another release, older or newer. Running attempts go on with theirs.
    pub async fn activate_release(&self, kind: &str, number: i32) -> Result<(), QueueError> {
        let updated = bounded!(self, "activate a release", |conn| sqlx::query!(
            r#"update stokehold.kinds k set active_release = r.number
               from stokehold.releases r
               where k.name = $1::text and r.kind_id = k.id and r.number = $2"#,
            kind,
            number
        )
        .execute(conn))?;
        if updated.rows_affected() == 1 {
            return Ok(());
        }
        if self.kind(kind).await?.is_none() {
            return Err(no_kind(kind));
        }
        Err(QueueError::refused(
            RefusalCode::NotFound,
            format!("kind '{kind}' has no release {number}"),
            "List its releases to see which there are.",
        ))
    }

    /// The releases of a kind, newest first.
    pub async fn releases(&self, kind: &str) -> Result<Vec<Release>, QueueError> {
        let rows = bounded!(self, "list releases", |conn| sqlx::query!(
            r#"select r.number, r.digest, r.limits, r.created_at
               from stokehold.releases r join stokehold.kinds k on k.id = r.kind_id
               where k.name = $1::text order by r.number desc limit 1000"#,
            kind
        )
        .fetch_all(conn))?;
        if rows.is_empty() && self.kind(kind).await?.is_none() {
            return Err(no_kind(kind));
        }
        Ok(rows
            .into_iter()
            .map(|row| Release {
                number: row.number,
                digest: digest_of(&row.digest),
                limits: limits(row.limits),
                created_at: row.created_at,
            })
            .collect())
    }

    /// What a node needs to run a release.
    pub async fn runnable_release(
        &self,
        kind: KindId,
        number: i32,
    ) -> Result<Option<RunnableRelease>, QueueError> {
        let row = bounded!(self, "read a release", |conn| sqlx::query!(
            r#"select k.name as "name!: String", k.queue as "queue!: String", k.backoff_base_ms,
                 k.backoff_cap_ms, k.backoff_form, k.backoff_delays_ms, k.backoff_jitter_percent,
                 r.digest, r.limits
               from stokehold.releases r join stokehold.kinds k on k.id = r.kind_id
               where r.kind_id = $1 and r.number = $2"#,
            kind.0,
            number
        )
        .fetch_optional(conn))?;
        Ok(row.map(|row| RunnableRelease {
            kind: row.name,
            queue: row.queue,
            backoff: Stored {
                form: &row.backoff_form,
                base_ms: row.backoff_base_ms,
                cap_ms: row.backoff_cap_ms,
                delays_ms: row.backoff_delays_ms,
                jitter_percent: row.backoff_jitter_percent,
            }
            .backoff(),
            digest: digest_of(&row.digest),
            limits: limits(row.limits),
        }))
    }
}

fn no_kind(name: &str) -> QueueError {
    QueueError::refused(
        RefusalCode::UnknownKind,
        format!("there is no kind '{name}'"),
        "Create it first, or push a handler for it.",
    )
}

/// Limits as stored. Those of another version may lack some, which then have their defaults.
fn limits(value: serde_json::Value) -> Limits {
    serde_json::from_value(value).unwrap_or_default()
}

/// A backoff as its columns have it.
struct Stored<'a> {
    form: &'a str,
    base_ms: i64,
    cap_ms: i64,
    delays_ms: Option<Vec<i64>>,
    jitter_percent: i16,
}

impl Stored<'_> {
    fn backoff(self) -> Backoff {
        let ms = |ms: i64| ms.try_into().unwrap_or_default();
        Backoff {
            // One that a newer binary knows is taken for the usual one.
            form: self.form.parse().unwrap_or(BackoffForm::Exponential),
            base_ms: ms(self.base_ms),
            cap_ms: ms(self.cap_ms),
            delays_ms: self.delays_ms.unwrap_or_default().into_iter().map(ms).collect(),
            jitter_percent: self.jitter_percent.try_into().unwrap_or_default(),
        }
    }
}

fn small(value: u16) -> i16 {
    value.try_into().unwrap_or(i16::MAX)
}

fn big(value: u64) -> i64 {
    value.try_into().unwrap_or(i64::MAX)
}
