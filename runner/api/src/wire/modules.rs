//! Modules: uploaded handlers, by their digest.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use stokehold_domain::Digest;
use utoipa::ToSchema;

/// A stored module without its bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ModuleInfo {
    /// The sha256 of the stored bytes, as 64 hexadecimal digits.
    #[schema(value_type = String)]
    pub digest: Digest,
    /// The contract that it follows: `component` or `command`.
    #[schema(example = "component")]
    pub abi: String,
    /// The size of the stored bytes.
    pub size_bytes: u64,
    /// Releases that run it.
    pub releases: u64,
    /// The admission report: imports, toolchain, what was found.
    #[schema(value_type = Object)]
    pub report: Value,
    /// When it was first uploaded.
    pub created_at: DateTime<Utc>,
}

/// The answer to an upload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UploadedModule {
    /// The module as stored. A core module that carries component metadata is stored as the
    /// component made of it, under that component's digest; the same upload always has the same
    /// digest.
    #[serde(flatten)]
    pub module: ModuleInfo,
    /// Nobody had uploaded it before.
    pub new: bool,
}

/// Which unused modules to delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PruneRequest {
    /// Only modules uploaded longer ago than this, in seconds.
    #[schema(example = 604800)]
    pub older_than_s: u64,
    /// Only say which; delete nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// Modules that no release used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Pruned {
    /// Their digests.
    #[schema(value_type = Vec<String>)]
    pub digests: Vec<Digest>,
    /// They are still there: nothing was deleted.
    pub dry_run: bool,
}
