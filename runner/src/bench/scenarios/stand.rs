//! What every scenario stands on: a bed, the size of the run, and the ways of measuring that several
//! of them share.

use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};
use stokehold_domain::Blob;

use super::Found;
use crate::bench::bed::Bed;
use crate::bench::handler::Handler;
use crate::bench::percentiles::median;
use crate::bench::repetition::{self, Repetition};
use crate::bench::workload::{BATCH_JOBS, Entrance, Features, Shape, Singles, Workload};

/// A bed for a scenario, and how large it is to be.
pub(crate) struct Stand {
    pub(crate) bed: Bed,
    /// Another one on the same server, if the scenario needs it.
    pub(crate) sibling: Option<Bed>,
    pub(crate) quick: bool,
    pub(crate) slots: usize,
    pub(crate) duration: Option<Duration>,
}

/// How bare SQL takes jobs, to compare with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Yardstick {
    /// Jobs in one statement.
    pub(crate) batch: u32,
    /// Connections that claim and complete.
    pub(crate) connections: i32,
}

impl Stand {
    /// The number for a run in full or in small.
    pub(crate) fn size(&self, full: usize, quick: usize) -> usize {
        if self.quick { quick } else { full }
    }

    /// How long to go on: as told, else the time for a run in full or in small.
    pub(crate) fn time(&self, full_s: u64, quick_s: u64) -> Duration {
        self.duration.unwrap_or(Duration::from_secs(if self.quick { quick_s } else { full_s }))
    }

    /// No-op jobs with small payloads, by SQL, on one node: what a scenario varies.
    pub(crate) fn workload(&self, shape: Shape) -> Workload {
        Workload {
            shape,
            handler: Handler::noop(),
            payload: Blob::json("\"xxxxxxxx\""),
            entrance: Entrance::Sql,
            clients: 1,
            batch_jobs: BATCH_JOBS,
            slots: self.slots,
            nodes: 1,
            node_flags: Vec::new(),
            node_url: None,
            features: Features::default(),
            warm_up: 0,
            singles: Singles { jobs: 0, spacing: Duration::ZERO },
        }
    }

    /// A burn-down of no-op jobs.
    pub(crate) fn burn_down(&self, jobs: usize) -> Workload {
        self.workload(Shape::BurnDown { jobs })
    }

    /// Runs a workload once.
    pub(crate) async fn run(&self, workload: &Workload) -> anyhow::Result<Repetition> {
        repetition::run(&self.bed, workload).await
    }

    /// Runs a workload on the bed and on its empty sibling in turn, so that a machine that slows down
    /// does so for both, and compares the rates.
    pub(crate) async fn against_sibling(
        &self,
        workload: &Workload,
        times: usize,
    ) -> anyhow::Result<Found> {
        let sibling = self.sibling.as_ref().context("the scenario has asked for no sibling")?;
        let (mut with, mut without) = (Vec::new(), Vec::new());
        for _ in 0..times {
            without.push(repetition::run(sibling, workload).await?.jobs_per_s);
            with.push(repetition::run(&self.bed, workload).await?.jobs_per_s);
        }
        Ok(Found::ratio(&with, &without))
    }

    /// Runs a workload and the same number of jobs in bare SQL in turn, and compares the rates.
    pub(crate) async fn against_bare_sql(
        &self,
        workload: &Workload,
        yardstick: Yardstick,
        times: usize,
    ) -> anyhow::Result<Found> {
        let Yardstick { batch, connections } = yardstick;
        let jobs = i32::try_from(workload.shape.jobs())?;
        let (mut ours, mut bare) = (Vec::new(), Vec::new());
        for _ in 0..times {
            let payload = &workload.payload.bytes;
            bare.push(self.bed.database.yardstick(jobs, payload, batch, connections).await?);
            ours.push(self.run(workload).await?.jobs_per_s);
        }
        let mut found = Found::ratio(&ours, &bare);
        found.details = json!({ "jobs_per_s": ours, "bare_sql_jobs_per_s": bare });
        Ok(found)
    }

    /// Takes everything away.
    pub(crate) async fn close(self) -> anyhow::Result<()> {
        let sibling = match self.sibling {
            Some(sibling) => sibling.close().await,
            None => Ok(()),
        };
        self.bed.close().await?;
        sibling
    }
}

impl Found {
    /// The median of some rates over the median of others.
    pub(crate) fn ratio(with: &[f64], without: &[f64]) -> Found {
        let middle = |rates: &[f64]| median(rates.iter().copied()).unwrap_or(f64::NAN);
        Found {
            figures: vec![middle(with) / middle(without)],
            details: json!({ "with_jobs_per_s": with, "without_jobs_per_s": without }),
        }
    }

    /// One number.
    pub(crate) fn one(figure: f64, details: Value) -> Found {
        Found { figures: vec![figure], details }
    }
}
