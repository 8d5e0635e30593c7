//! The figures of all repetitions of a workload: for programs as JSON, for people as lines.

use serde::Serialize;

use super::percentiles::{Percentiles, median};
use super::repetition::Repetition;
use super::workload::Workload;
use crate::cli::text::counted;

/// Medians over the repetitions, and the repetitions themselves.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) shape: &'static str,
    pub(crate) jobs: usize,
    pub(crate) jobs_per_s: f64,
    pub(crate) burn_down_s: f64,
    pub(crate) enqueue_jobs_per_s: f64,
    pub(crate) node_cpu_us_per_job: f64,
    pub(crate) postgres_cpu_us_per_job: Option<f64>,
    pub(crate) bench_cpu_us_per_job: f64,
    pub(crate) api_cpu_us_per_job: Option<f64>,
    pub(crate) wal_bytes_per_job: f64,
    pub(crate) statements_per_job: Option<f64>,
    pub(crate) transactions_per_job: f64,
    pub(crate) rows_inserted_per_job: f64,
    pub(crate) rows_updated_per_job: f64,
    pub(crate) rows_deleted_per_job: f64,
    /// What the latencies below are of: `idle` or `load`.
    pub(crate) latency_of: &'static str,
    pub(crate) enqueue_to_start_ms: Percentiles,
    pub(crate) enqueue_to_done_ms: Percentiles,
    pub(crate) foreign_cpu_share: Option<f64>,
    pub(crate) slots: usize,
    pub(crate) nodes: usize,
    pub(crate) clients: usize,
    pub(crate) entrance: String,
    pub(crate) handler: String,
    pub(crate) payload_bytes: usize,
    pub(crate) latency_jobs: usize,
    pub(crate) cores: usize,
    /// `release`, or `debug`, whose figures mean little.
    pub(crate) build: &'static str,
    /// The server's version and the settings that matter here.
    pub(crate) server: serde_json::Map<String, serde_json::Value>,
    pub(crate) repetitions: Vec<Repetition>,
}

/// How this binary was built.
pub(crate) const BUILD: &str = if cfg!(debug_assertions) { "debug" } else { "release" };

impl Report {
    /// Puts the repetitions together. There is at least one.
    pub(crate) fn of(
        workload: &Workload,
        repetitions: Vec<Repetition>,
        server: Vec<(String, String)>,
    ) -> Report {
        let always = |field: fn(&Repetition) -> f64| {
            median(repetitions.iter().map(field)).unwrap_or_default()
        };
        // Known in every repetition or in none.
        let known =
            |field: fn(&Repetition) -> Option<f64>| median(repetitions.iter().filter_map(field));
        let times = |field: fn(&Repetition) -> Option<Percentiles>| {
            Percentiles::median(&repetitions.iter().filter_map(field).collect::<Vec<_>>())
        };
        let idle = times(|r| r.idle_enqueue_to_start_ms).zip(times(|r| r.idle_enqueue_to_done_ms));
        let load =
            times(|r| Some(r.enqueue_to_start_ms)).zip(times(|r| Some(r.enqueue_to_done_ms)));
        let latency_of = if idle.is_some() { "idle" } else { "load" };
        let (enqueue_to_start_ms, enqueue_to_done_ms) = idle.or(load).unwrap_or_default();
        Report {
            shape: workload.shape.name(),
            jobs: workload.shape.jobs(),
            jobs_per_s: always(|r| r.jobs_per_s),
            burn_down_s: always(|r| r.span_s),
            enqueue_jobs_per_s: always(|r| r.enqueue_jobs_per_s),
            node_cpu_us_per_job: always(|r| r.work.node_cpu_us_per_job),
            postgres_cpu_us_per_job: known(|r| r.work.postgres_cpu_us_per_job),
            bench_cpu_us_per_job: always(|r| r.work.bench_cpu_us_per_job),
            api_cpu_us_per_job: known(|r| {
                r.work.api_cpu_us_per_job.or(r.enqueue.and_then(|work| work.api_cpu_us_per_job))
            }),
            wal_bytes_per_job: always(|r| r.work.wal_bytes_per_job),
            statements_per_job: known(|r| r.work.statements_per_job),
            transactions_per_job: always(|r| r.work.transactions_per_job),
            rows_inserted_per_job: always(|r| r.work.rows_inserted_per_job),
            rows_updated_per_job: always(|r| r.work.rows_updated_per_job),
            rows_deleted_per_job: always(|r| r.work.rows_deleted_per_job),
            latency_of,
            enqueue_to_start_ms,
            enqueue_to_done_ms,
            foreign_cpu_share: known(|r| r.work.foreign_cpu_share),
            slots: workload.slots,
            nodes: workload.nodes,
            clients: workload.clients,
            entrance: clap::ValueEnum::to_possible_value(&workload.entrance)
                .map_or_else(String::new, |value| value.get_name().to_owned()),
            handler: workload.handler.name.clone(),
            payload_bytes: workload.payload.bytes.len(),
            latency_jobs: workload.singles.jobs,
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            build: BUILD,
            server: server.into_iter().map(|(name, value)| (name, value.into())).collect(),
            repetitions,
        }
    }

    /// The lines for people.
    pub(crate) fn fields(&self) -> Vec<(&'static str, String)> {
        let known = |value: Option<f64>, unit: &str| {
            value.map_or_else(|| "unknown".to_owned(), |value| format!("{value:.1}{unit}"))
        };
        let mut fields = vec![
            (
                "throughput",
                format!(
                    "{:.0} jobs/s ({} jobs in {:.2} s; {} of {} slots, {})",
                    self.jobs_per_s,
                    self.jobs,
                    self.burn_down_s,
                    counted(self.nodes, "node"),
                    self.slots,
                    counted(self.cores, "core")
                ),
            ),
            ("enqueueing", format!("{:.0} jobs/s", self.enqueue_jobs_per_s)),
            ("enqueue to start", self.enqueue_to_start_ms.words()),
            ("enqueue to done", self.enqueue_to_done_ms.words()),
            (
                "processor",
                format!(
                    "{:.1} µs a job in the nodes, {} in PostgreSQL",
                    self.node_cpu_us_per_job,
                    known(self.postgres_cpu_us_per_job, " µs")
                ),
            ),
            (
                "database",
                format!(
                    "a job: {:.0} B of log, {:.3} transactions, {} statements, {:.2} rows inserted, \
                     {:.2} updated, {:.2} deleted",
                    self.wal_bytes_per_job,
                    self.transactions_per_job,
                    known(self.statements_per_job, ""),
                    self.rows_inserted_per_job,
                    self.rows_updated_per_job,
                    self.rows_deleted_per_job
                ),
            ),
            ("others", self.others()),
        ];
        if self.repetitions.len() > 1 {
            let rates: Vec<String> =
                self.repetitions.iter().map(|r| format!("{:.0}", r.jobs_per_s)).collect();
            fields.push(("repetitions", format!("{} jobs/s", rates.join(", "))));
        }
        fields
    }

    fn others(&self) -> String {
        match self.foreign_cpu_share {
            // From here on two runs no longer agree.
            Some(share) if share > 0.05 => format!(
                "{:.0} % of the processors went to other processes: the figures are disturbed",
                share * 100.0
            ),
            Some(share) => {
                format!("{:.0} % of the processors went to other processes", share * 100.0)
            }
            None => "unknown".to_owned(),
        }
    }
}
