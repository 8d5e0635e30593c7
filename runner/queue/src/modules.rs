//! Modules: the bytes of compiled handlers, by their sha256, immutable.

use chrono::{DateTime, Utc};
use serde_json::Value;
use stokehold_domain::Digest;

use crate::database::bounded;
use crate::{Database, QueueError};

/// A module to be stored.
#[derive(Clone, Copy, Debug)]
pub struct NewModule<'a> {
    /// The sha256 of `bytes`.
    pub digest: Digest,
    /// The module as it will be compiled.
    pub bytes: &'a [u8],
    /// What admission found.
    pub report: &'a Value,
}

/// A stored module without its bytes.
#[derive(Clone, Debug)]
pub struct ModuleRecord {
    /// Its name.
    pub digest: Digest,
    /// Its size in bytes.
    pub size_bytes: i64,
    /// What admission found.
    pub report: Value,
    /// When it was first uploaded.
    pub created_at: DateTime<Utc>,
    /// Releases that use it.
    pub releases: i64,
}

impl Database {
    /// Stores a module unless it is there; `true` when it was new.
    pub async fn put_module(&self, module: NewModule<'_>) -> Result<bool, QueueError> {
        let done = bounded!(self, "store a module", |conn| sqlx::query!(
            r#"insert into stokehold.modules (digest, bytes, report) values ($1, $2, $3)
               on conflict (digest) do nothing"#,
            &module.digest.0[..],
            module.bytes,
            module.report
        )
        .execute(conn))?;
        Ok(done.rows_affected() == 1)
    }

    /// A module's bytes.
    pub async fn module_bytes(&self, digest: Digest) -> Result<Option<Vec<u8>>, QueueError> {
        bounded!(self, "read a module", |conn| sqlx::query_scalar!(
            "select bytes from stokehold.modules where digest = $1",
            &digest.0[..]
        )
        .fetch_optional(conn))
    }

    /// A module without its bytes.
    pub async fn module(&self, digest: Digest) -> Result<Option<ModuleRecord>, QueueError> {
        let row = bounded!(self, "read a module", |conn| {
            sqlx::query!(
            r#"select digest, octet_length(bytes)::bigint as "size_bytes!", report, created_at,
                 (select count(*) from stokehold.releases r where r.digest = m.digest) as "releases!"
               from stokehold.modules m where digest = $1"#,
            &digest.0[..]
        )
        .fetch_optional(conn)
        })?;
        Ok(row.map(|row| ModuleRecord {
            digest: digest_of(&row.digest),
            size_bytes: row.size_bytes,
            report: row.report,
            created_at: row.created_at,
            releases: row.releases,
        }))
    }

    /// Modules, newest first, at most 1,000.
    pub async fn modules(&self) -> Result<Vec<ModuleRecord>, QueueError> {
        let rows = bounded!(self, "list modules", |conn| {
            sqlx::query!(
            r#"select digest, octet_length(bytes)::bigint as "size_bytes!", report, created_at,
                 (select count(*) from stokehold.releases r where r.digest = m.digest) as "releases!"
               from stokehold.modules m order by created_at desc, digest limit 1000"#
        )
        .fetch_all(conn)
        })?;
        Ok(rows
            .into_iter()
            .map(|row| ModuleRecord {
                digest: digest_of(&row.digest),
                size_bytes: row.size_bytes,
                report: row.report,
                created_at: row.created_at,
                releases: row.releases,
            })
            .collect())
    }

    /// Modules that no release uses and that are older than `age_s` seconds; deletes them unless
    /// `dry_run`. Returns which.
    pub async fn prune_modules(
        &self,
        age_s: f64,
        dry_run: bool,
    ) -> Result<Vec<Digest>, QueueError> {
        // A release that is being made for one of them holds a lock on its row and so wins. Should it
        // commit just between the look and the lock, the whole is refused and may be tried again.
        let digests = if dry_run {
            bounded!(self, "find unused modules", |conn| sqlx::query_scalar!(
                r#"select digest from stokehold.modules m
                   where created_at < clock_timestamp() - $1::float8 * interval '1 second'
                     and not exists (select from stokehold.releases r where r.digest = m.digest)"#,
                age_s
            )
            .fetch_all(conn))?
        } else {
            bounded!(self, "delete unused modules", |conn| sqlx::query_scalar!(
                r#"delete from stokehold.modules where digest in (
                     select digest from stokehold.modules m
                     where created_at < clock_timestamp() - $1::float8 * interval '1 second'
                       and not exists (select from stokehold.releases r where r.digest = m.digest)
                     for update skip locked)
                   returning digest"#,
                age_s
            )
            .fetch_all(conn))?
        };
        Ok(digests.iter().map(|digest| digest_of(digest)).collect())
    }
}

pub(crate) fn digest_of(bytes: &[u8]) -> Digest {
    Digest::try_from(bytes).expect("a CHECK keeps stored digests at 32 bytes")
}
