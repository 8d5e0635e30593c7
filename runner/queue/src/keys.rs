//! API keys: shown once, stored as a hash.
//!
//! A key reads `sth_<prefix>_<secret>`: the prefix finds the row, the secret is 256 random bits of
//! which only the sha256 is stored. The fixed beginning lets secret scanners find leaked ones.

use chrono::{DateTime, Utc};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq;

use crate::database::bounded;
use crate::{Database, QueueError, RefusalCode};

const PREFIX_CHARS: usize = 10;
const SECRET_CHARS: usize = 52;
/// 32 letters and digits, so five bits a character: 52 of them hold 260 bits.
const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";

/// A stored key, as listed: never the secret.
#[derive(Clone, Debug)]
pub struct ApiKey {
    /// Its id.
    pub id: i64,
    /// Its name.
    pub name: String,
    /// The public part.
    pub prefix: String,
    /// When it was made.
    pub created_at: DateTime<Utc>,
}

/// A key at its making: the only time its text is known.
#[derive(Clone)]
pub struct NewKey {
    /// The stored part.
    pub key: ApiKey,
    /// The whole key; show it once.
    pub text: String,
}

impl std::fmt::Debug for NewKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewKey").field("key", &self.key).finish_non_exhaustive()
    }
}

impl Database {
    /// Makes a key.
    pub async fn create_key(&self, name: &str) -> Result<NewKey, QueueError> {
        let (prefix, secret) = (random_text(PREFIX_CHARS), random_text(SECRET_CHARS));
        let text = format!("sth_{prefix}_{secret}");
        let key = self.store_key(name, &prefix, &secret).await?.ok_or_else(|| {
            QueueError::refused(RefusalCode::Conflict, "the prefix drawn is taken", "Try again.")
        })?;
        Ok(NewKey { key, text })
    }

    /// Stores a key whose text was made before, unless it is there; for a key kept in a file.
    pub async fn adopt_key(&self, name: &str, text: &str) -> Result<(), QueueError> {
        if self.find_key(text).await?.is_some() {
            return Ok(());
        }
        let (prefix, secret) = parts(text).ok_or_else(|| {
            QueueError::refused(RefusalCode::Invalid, "the key does not have the form of one", "")
        })?;
        // Another process may have adopted it in between.
        if self.store_key(name, prefix, secret).await?.is_some()
            || self.find_key(text).await?.is_some()
        {
            return Ok(());
        }
        Err(QueueError::refused(
            RefusalCode::Conflict,
            format!("the key {prefix} is revoked, or another one begins like it"),
            "Make a new key.",
        ))
    }

    /// Makes up the text of a key without storing it.
    pub fn new_key_text() -> String {
        format!("sth_{}_{}", random_text(PREFIX_CHARS), random_text(SECRET_CHARS))
    }

    /// The key that this text is, if it is one and not revoked. Takes the same time to compare
    /// whether or not the prefix is known.
    pub async fn find_key(&self, text: &str) -> Result<Option<ApiKey>, QueueError> {
        let Some((prefix, secret)) = parts(text) else { return Ok(None) };
        let row = bounded!(self, "look up an API key", |conn| sqlx::query!(
            r#"select id, name as "name!: String", prefix, secret_hash, created_at
               from stokehold.api_keys where prefix = $1 and revoked_at is null"#,
            prefix
        )
        .fetch_optional(conn))?;
        let stored = row.as_ref().map_or(&[0; 32][..], |row| &row.secret_hash);
        let matches = bool::from(hash(secret).as_slice().ct_eq(stored));
        Ok(row.filter(|_| matches).map(|row| ApiKey {
            id: row.id,
            name: row.name,
            prefix: row.prefix,
            created_at: row.created_at,
        }))
    }

    /// Stores a key unless its prefix is taken.
    async fn store_key(
        &self,
        name: &str,
        prefix: &str,
        secret: &str,
    ) -> Result<Option<ApiKey>, QueueError> {
        stokehold_domain::check_name("key", name)
            .map_err(|error| QueueError::refused(RefusalCode::Invalid, error.to_string(), ""))?;
        let row = bounded!(self, "store an API key", |conn| {
            sqlx::query!(
            r#"insert into stokehold.api_keys (name, prefix, secret_hash) values ($1::text, $2, $3)
               on conflict (prefix) do nothing returning id, created_at"#,
            name,
            prefix,
            &hash(secret)[..]
        )
        .fetch_optional(conn)
        })?;
        Ok(row.map(|row| ApiKey {
            id: row.id,
            name: name.to_owned(),
            prefix: prefix.to_owned(),
            created_at: row.created_at,
        }))
    }
}

fn parts(text: &str) -> Option<(&str, &str)> {
    let (prefix, secret) = text.strip_prefix("sth_")?.split_once('_')?;
    let fits = prefix.len() == PREFIX_CHARS && secret.len() == SECRET_CHARS;
    // As the table demands.
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    (fits && prefix.bytes().all(plain)).then_some((prefix, secret))
}

fn hash(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

fn random_text(chars: usize) -> String {
    // The generator of `rand::random` is cryptographic and seeded by the system.
    (0..chars).map(|_| char::from(ALPHABET[usize::from(rand::random::<u8>() % 32)])).collect()
}
