//! What a job may say about itself beside its payload. Stored as JSON, as it travels; the enqueue function
//! refuses what is wrong, so its limits stand there.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::{Backoff, JobState};

/// Options of a job; what is absent follows the policy of its kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobOptions {
    /// No other job of its kind is to have the same key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unique: Option<Unique>,
    /// No attempt starts after this time: the job ends then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<DateTime<Utc>>,
    /// Words to find it by; at most 20 of 100 bytes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Jobs of its kind with the same key run as many at a time as the kind allows; at most 255 bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency_key: Option<String>,
    /// The release that every attempt runs, whatever is active.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release: Option<i32>,
    /// How long to wait before it is tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Backoff>,
    /// Wall time of one attempt in milliseconds, where that is less than the release has; at most a day.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

impl JobOptions {
    /// As it is stored; nothing for a job that says nothing.
    pub fn to_json(&self) -> Option<serde_json::Value> {
        (*self != JobOptions::default())
            .then(|| serde_json::to_value(self).expect("texts and numbers, which JSON can carry"))
    }

    /// From what was stored. What another version wrote and this one cannot read is left out.
    pub fn from_json(stored: serde_json::Value) -> Self {
        serde_json::from_value(stored).unwrap_or_default()
    }
}

/// Of which other jobs a new one is a duplicate, and what is done about it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Unique {
    /// The key, at most 255 bytes; this or `fields`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Paths into the JSON payload, such as `order.id`, whose values make the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fields: Option<Vec<String>>,
    /// The states in which a job holds its key; all before its end when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub states: Option<Vec<JobState>>,
    /// From its enqueueing it holds the key for this many milliseconds in any case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub for_ms: Option<u64>,
    /// What becomes of a duplicate.
    pub mode: UniqueMode,
}

/// What becomes of a duplicate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UniqueMode {
    /// Nothing is made; the answer is the job that there is.
    #[default]
    Existing,
    /// It is an error.
    Reject,
    /// The job that there is, if it waits, has the new one's input from now on and keeps its time.
    Replace,
    /// As `replace`, and it waits until the new one's time.
    Debounce,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_says_nothing_stores_nothing_and_all_that_is_said_comes_back() {
        assert_eq!(JobOptions::default().to_json(), None);
        let options = JobOptions {
            unique: Some(Unique {
                fields: Some(vec!["order.id".into()]),
                states: Some(vec![JobState::Available]),
                for_ms: Some(60_000),
                mode: UniqueMode::Debounce,
                ..Unique::default()
            }),
            expires_at: DateTime::from_timestamp(1_900_000_000, 0),
            tags: vec!["nightly".into()],
            concurrency_key: Some("customer-7".into()),
            release: Some(3),
            backoff: Some(Backoff::default()),
            timeout_ms: Some(500),
        };
        let stored = options.to_json().unwrap();
        assert_eq!(stored["unique"]["mode"], "debounce");
        assert_eq!(JobOptions::from_json(stored), options);
    }

    #[test]
    fn what_another_version_wrote_does_no_harm() {
        let stored = serde_json::json!({ "tags": ["a"], "colour": "blue" });
        assert_eq!(JobOptions::from_json(stored).tags, ["a"]);
        assert_eq!(JobOptions::from_json(serde_json::json!([1])), JobOptions::default());
    }
}
