//! What a piece of work cost: processor time by whose it was, and what the database counts.

use std::time::Duration;

use serde::Serialize;
use stokehold_queue::bench::DatabaseGauges;

use super::api::Api;
use super::bed::Bed;
use super::cpu::{self, Machine};
use super::fleet::Fleet;

/// Knows where the server's processes are, if they are on this machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meter {
    postmaster: Option<i32>,
}

/// Processor times at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CpuReading {
    postgres: Option<Duration>,
    nodes: Duration,
    bench: Duration,
    api: Option<Duration>,
    machine: Option<Machine>,
}

/// The cost of a piece of work, by the job.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Work {
    /// Of the server and all its processes; nothing when they are not on this machine.
    pub(crate) postgres_cpu_us_per_job: Option<f64>,
    pub(crate) node_cpu_us_per_job: f64,
    /// Of this process: it enqueues, and watches.
    pub(crate) bench_cpu_us_per_job: f64,
    /// Of the API process, if there is one.
    pub(crate) api_cpu_us_per_job: Option<f64>,
    /// Of all processor time there was, what others took.
    pub(crate) foreign_cpu_share: Option<f64>,
    pub(crate) wal_bytes_per_job: f64,
    pub(crate) transactions_per_job: f64,
    /// Nothing without `pg_stat_statements`.
    pub(crate) statements_per_job: Option<f64>,
    pub(crate) rows_inserted_per_job: f64,
    pub(crate) rows_updated_per_job: f64,
    pub(crate) rows_deleted_per_job: f64,
}

impl Meter {
    /// Finds the server's processes.
    pub(crate) async fn find(bed: &Bed) -> anyhow::Result<Meter> {
        let backend = bed.database.local_backend().await?;
        let postmaster = backend.and_then(|pid| cpu::parent_of(pid, "postgres"));
        Ok(Meter { postmaster })
    }

    /// Reads all clocks.
    pub(crate) fn read(&self, fleet: Option<&Fleet>, api: Option<&Api>) -> CpuReading {
        let me = std::process::id().try_into().unwrap_or_default();
        CpuReading {
            postgres: self.postmaster.and_then(cpu::of_tree),
            nodes: fleet.map(Fleet::cpu).unwrap_or_default(),
            bench: cpu::of_process(me).unwrap_or_default(),
            api: api.map(Api::cpu),
            machine: Machine::read(),
        }
    }
}

impl Work {
    /// What was done between two readings of the clocks and two of the counters, for so many jobs.
    pub(crate) fn between(
        clocks: (&CpuReading, &CpuReading),
        counters: (&DatabaseGauges, &DatabaseGauges),
        jobs: usize,
    ) -> Work {
        let (cpu, gauges) = (clocks, counters);
        let jobs = jobs.max(1) as f64;
        let us = |from: Duration, to: Duration| to.saturating_sub(from).as_secs_f64() * 1e6 / jobs;
        let count = |of: fn(&DatabaseGauges) -> i64| (of(gauges.1) - of(gauges.0)) as f64 / jobs;
        Work {
            postgres_cpu_us_per_job: cpu.0.postgres.zip(cpu.1.postgres).map(|(a, b)| us(a, b)),
            node_cpu_us_per_job: us(cpu.0.nodes, cpu.1.nodes),
            bench_cpu_us_per_job: us(cpu.0.bench, cpu.1.bench),
            api_cpu_us_per_job: cpu.0.api.zip(cpu.1.api).map(|(a, b)| us(a, b)),
            foreign_cpu_share: foreign_share(cpu.0, cpu.1),
            wal_bytes_per_job: count(|g| g.wal_bytes),
            transactions_per_job: count(|g| g.transactions),
            statements_per_job: gauges
                .0
                .statements
                .zip(gauges.1.statements)
                .map(|(from, to)| (to - from) as f64 / jobs),
            rows_inserted_per_job: count(|g| g.rows_inserted),
            rows_updated_per_job: count(|g| g.rows_updated),
            rows_deleted_per_job: count(|g| g.rows_deleted),
        }
    }
}

/// What is left of the machine's busy time after all that is ours, of all the time that there was.
pub(crate) fn foreign_share(from: &CpuReading, to: &CpuReading) -> Option<f64> {
    let (before, after) = from.machine.zip(to.machine)?;
    let ours = |reading: &CpuReading| {
        Some(reading.postgres? + reading.nodes + reading.bench + reading.api.unwrap_or_default())
    };
    let busy = after.busy.saturating_sub(before.busy);
    let all = after.all.saturating_sub(before.all).as_secs_f64();
    let foreign = busy.saturating_sub(ours(to)?.saturating_sub(ours(from)?)).as_secs_f64();
    (all > 0.0).then_some(foreign / all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_ours_is_foreign() {
        let ms = Duration::from_millis;
        let reading = |ours, busy, all| CpuReading {
            postgres: Some(ms(ours)),
            nodes: ms(ours),
            bench: Duration::ZERO,
            api: None,
            machine: Some(Machine { busy: ms(busy), all: ms(all) }),
        };
        let share = foreign_share(&reading(0, 0, 0), &reading(300, 800, 1000)).unwrap();
        assert!((share - 0.2).abs() < 1e-9, "{share}");
        let elsewhere = CpuReading { postgres: None, ..reading(0, 0, 0) };
        assert_eq!(foreign_share(&elsewhere, &elsewhere), None);
    }
}
