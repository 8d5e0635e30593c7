//! Kinds and their releases.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Deserializer, Serialize};
use stokehold_domain::kind_limits::Rate;
use stokehold_domain::{BackoffForm, Digest};
use utoipa::ToSchema;

/// A kind as stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KindInfo {
    /// Its name.
    #[schema(example = "image.resize")]
    pub name: String,
    /// The queue its jobs wait in.
    pub queue: String,
    /// The priority of jobs that do not say; lower runs first.
    pub priority: i16,
    /// Tries in all, for jobs that do not say.
    pub max_attempts: u16,
    /// Delay after the first failure, in milliseconds; doubles with each.
    pub backoff_base_ms: u64,
    /// No delay is longer, in milliseconds.
    pub backoff_cap_ms: u64,
    /// How the delay grows: `exponential`, `linear`, `fixed` or `list`.
    #[schema(value_type = String, example = "exponential")]
    pub backoff_form: BackoffForm,
    /// The delays of the form `list`, in milliseconds: one for each try, the last for all further ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub backoff_delays_ms: Vec<u64>,
    /// How many hundredths of each delay are random.
    pub backoff_jitter_percent: u8,
    /// The most jobs of it that run at a time, on all nodes together; no limit when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_running: Option<u32>,
    /// The most of those that share a concurrency key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_running_per_key: Option<u32>,
    /// Jobs that share a key run in order, and one that failed is tried again before the next.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keeps_order: bool,
    /// How fast jobs start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<StartRate>,
    /// How fast those that share a key start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_rate: Option<StartRate>,
    /// The release that new attempts run; none while there is none, and jobs wait.
    #[serde(default)]
    pub active_release: Option<i32>,
    /// It, its queue or everything is paused: nothing of it is started.
    #[serde(default)]
    pub paused: bool,
    /// When it was made.
    pub created_at: DateTime<Utc>,
}

/// What to change of a kind. What is absent stays, or has its default in a new kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct KindChange {
    /// The queue its jobs wait in; `default` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The priority of jobs that do not say, −1000 to 1000; lower runs first; 0 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = -1000, maximum = 1000)]
    pub priority: Option<i32>,
    /// Tries in all, 1 to 1000; 20 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000)]
    pub max_attempts: Option<u32>,
    /// Delay after the first failure, in milliseconds; 1000 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff_base_ms: Option<u64>,
    /// No delay is longer, in milliseconds; an hour by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff_cap_ms: Option<u64>,
    /// How the delay grows: `exponential` (the default), `linear`, `fixed` or `list`, which needs delays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub backoff_form: Option<BackoffForm>,
    /// The delays of the form `list`, in milliseconds; 1 to 100 of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff_delays_ms: Option<Vec<u64>>,
    /// How many hundredths of each delay are random, 0 to 100; 50 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 100)]
    pub backoff_jitter_percent: Option<u32>,
    /// The most jobs of it that run at a time, on all nodes together; null takes the limit away.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 1000000)]
    pub max_running: Option<Option<u32>>,
    /// The most of those that share a concurrency key; null takes the limit away.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 1000000)]
    pub max_running_per_key: Option<Option<u32>>,
    /// Jobs that share a key run in order, and one that failed is tried again before the next; wants
    /// `max_running_per_key` 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keeps_order: Option<bool>,
    /// How fast jobs start; null takes the limit away.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    #[schema(value_type = Option<StartRate>)]
    pub rate: Option<Option<StartRate>>,
    /// How fast those that share a key start; null takes the limit away.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    #[schema(value_type = Option<StartRate>)]
    pub key_rate: Option<Option<StartRate>>,
}

/// A bucket of `burst` tokens, one for each start, into which `starts` come back in `per_ms`, evenly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StartRate {
    /// Starts in a period.
    #[schema(minimum = 1, maximum = 1000000)]
    pub starts: u32,
    /// The period in milliseconds.
    #[schema(minimum = 1, maximum = 86400000)]
    pub per_ms: u32,
    /// The most starts at once after a rest; as many as `starts` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000000)]
    pub burst: Option<u32>,
}

impl From<StartRate> for Rate {
    fn from(StartRate { starts, per_ms, burst }: StartRate) -> Self {
        Rate { starts, per_ms, burst: burst.unwrap_or(starts) }
    }
}

impl From<Rate> for StartRate {
    fn from(rate: Rate) -> Self {
        StartRate { starts: rate.starts, per_ms: rate.per_ms, burst: Some(rate.bucket()) }
    }
}

/// Tells null from what is absent.
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// A release to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewRelease {
    /// The module it runs, by its digest.
    #[schema(value_type = String, example = "sha256 as 64 hexadecimal digits")]
    pub digest: Digest,
    /// Limits other than the defaults.
    #[serde(default)]
    pub limits: LimitsChange,
    /// Whether new attempts run it from now on.
    #[serde(default = "yes")]
    #[schema(default = true)]
    pub activate: bool,
}

fn yes() -> bool {
    true
}

/// A numbered, immutable version of a kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReleaseInfo {
    /// The kind.
    pub kind: String,
    /// From 1, within the kind.
    pub number: i32,
    /// The module it runs.
    #[schema(value_type = String)]
    pub digest: Digest,
    /// What an attempt may use.
    pub limits: Limits,
    /// New attempts run it.
    pub active: bool,
    /// When it was made.
    pub created_at: DateTime<Utc>,
}

/// Which release new attempts are to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Activation {
    /// The release's number, older or newer than the active one.
    pub release: i32,
}

macro_rules! limits {
    ($($(#[$doc:meta])* $field:ident),+ $(,)?) => {
        /// What one attempt may use.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
        pub struct Limits { $($(#[$doc])* pub $field: u64),+ }

        /// Limits to set; what is absent has its default.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
        #[serde(deny_unknown_fields)]
        pub struct LimitsChange {
            $($(#[$doc])*
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub $field: Option<u64>),+
        }

        impl From<stokehold_domain::Limits> for Limits {
            fn from(limits: stokehold_domain::Limits) -> Self {
                let stokehold_domain::Limits { $($field),+ } = limits;
                Limits { $($field),+ }
            }
        }

        impl LimitsChange {
            /// The limits with what is set here changed.
            pub fn apply(self, limits: stokehold_domain::Limits) -> stokehold_domain::Limits {
                stokehold_domain::Limits { $($field: self.$field.unwrap_or(limits.$field)),+ }
            }
        }
    };
}

limits! {
    /// Fuel: executed work, about one per instruction.
    fuel,
    /// Wall time, in milliseconds.
    timeout_ms,
    /// Linear memory, in bytes, summed over all memories.
    memory_bytes,
    /// The largest result, in bytes.
    result_bytes,
    /// Log text kept, in bytes: the first quarter and the last three.
    log_bytes,
    /// Calls of host functions.
    host_calls,
}
