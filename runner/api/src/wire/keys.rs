//! API keys.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A key to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewKey {
    /// A name for people: 1 to 63 of `a-z`, `0-9`, `.`, `_` and `-`.
    #[schema(example = "deploy-bot")]
    pub name: String,
}

/// A key at its making, the only time its text is shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CreatedKey {
    /// Its name.
    pub name: String,
    /// The public part, by which it is told from others.
    pub prefix: String,
    /// The whole key. Only its hash is stored: it cannot be shown again.
    pub key: String,
    /// When it was made.
    pub created_at: DateTime<Utc>,
}

impl std::fmt::Debug for CreatedKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CreatedKey")
            .field("name", &self.name)
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}
