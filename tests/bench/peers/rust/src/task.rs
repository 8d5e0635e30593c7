//! What one run has to do, as the driver says it.

use std::time::Duration;

use anyhow::Context;
use serde::Deserialize;

#[derive(Deserialize)]
pub(crate) struct Task {
    pub(crate) system: String,
    pub(crate) phase: Phase,
    pub(crate) jobs: usize,
    pub(crate) handler: Handler,
    /// The file with the order that each job carries.
    pub(crate) payload_file: String,
    /// Pauses before the single jobs of a latency run.
    #[serde(default)]
    pub(crate) pauses_ms: Vec<u64>,
    #[serde(default)]
    pub(crate) settings: Settings,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Phase {
    Burn,
    Latency,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Handler {
    Noop,
    Order,
}

/// Settings of both systems; each reads its own.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    /// Jobs in one claim.
    pub(crate) batch: Option<usize>,
    /// Bare SQL: connections that claim and complete.
    pub(crate) connections: Option<usize>,
    /// apalis: whether a job is marked as running beside being marked as fetched.
    pub(crate) lock_tasks: Option<bool>,
    /// apalis: the pause between looks.
    pub(crate) poll_ms: Option<u64>,
}

impl Task {
    pub(crate) fn pauses(&self) -> impl Iterator<Item = Duration> {
        self.pauses_ms.iter().copied().map(Duration::from_millis)
    }

    /// What each job carries, as JSON text.
    pub(crate) fn payload(&self) -> anyhow::Result<String> {
        match self.handler {
            Handler::Noop => Ok(r#"{"n":1}"#.to_owned()),
            Handler::Order => std::fs::read_to_string(&self.payload_file)
                .with_context(|| format!("reading {}", self.payload_file)),
        }
    }
}
