//! How the process is.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The process turns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// Always `ok`.
    #[schema(example = "ok")]
    pub status: String,
    /// The version of the binary.
    pub version: String,
}

/// The database answers and has the schema that this binary needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Readiness {
    /// Always `ready`; anything else is a problem with status 503.
    #[schema(example = "ready")]
    pub status: String,
    /// The version of the schema.
    pub schema_version: i64,
}
