//! What a run is to do: how many jobs of what handler, how they come in, and who runs them.

use std::time::Duration;

use stokehold_domain::{Blob, JobOptions, KindLimits, Unique};

use super::handler::Handler;

/// Jobs in one call when all are enqueued before the nodes begin.
pub(crate) const BATCH_JOBS: usize = 1_000;

/// Bytes of payload in one call; a quarter of what the API takes at once leaves room for base64.
pub(crate) const CALL_BYTES: usize = 16 << 20;

/// How many jobs go into one call when nobody says: many, but not of large payloads.
pub(crate) fn usual_batch_jobs(payload_bytes: usize) -> usize {
    (CALL_BYTES / payload_bytes.max(1)).clamp(1, BATCH_JOBS)
}

/// One load, whole: nothing of it is decided later.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    /// How many jobs come, and when.
    pub(crate) shape: Shape,
    /// What each of them runs.
    pub(crate) handler: Handler,
    /// What each of them is given.
    pub(crate) payload: Blob,
    /// The way in.
    pub(crate) entrance: Entrance,
    /// Connections or tasks that enqueue.
    pub(crate) clients: usize,
    /// Jobs in one enqueueing call.
    pub(crate) batch_jobs: usize,
    /// Attempts at once on each node.
    pub(crate) slots: usize,
    /// Nodes, each a process.
    pub(crate) nodes: usize,
    /// Flags for the nodes beyond those that the benchmark sets itself.
    pub(crate) node_flags: Vec<String>,
    /// Where the nodes reach the database, if not where the benchmark does.
    pub(crate) node_url: Option<String>,
    /// What of the queue's features they use.
    pub(crate) features: Features,
    /// Jobs run before anything is measured.
    pub(crate) warm_up: usize,
    /// Single jobs on an idle fleet.
    pub(crate) singles: Singles,
}

/// What of the queue's features the jobs of a load use; nothing by default.
#[derive(Clone, Debug, Default)]
pub(crate) struct Features {
    /// Limits of their kind.
    pub(crate) limits: KindLimits,
    /// Over how many concurrency keys they are spread; 0 for none.
    pub(crate) keys: u64,
    /// Each has a unique key of its own.
    pub(crate) unique: bool,
}

impl Features {
    /// The options of the job of this number.
    pub(crate) fn options(&self, number: u64) -> JobOptions {
        let unique = Unique { key: Some(format!("job {number}")), ..Unique::default() };
        JobOptions {
            unique: self.unique.then_some(unique),
            concurrency_key: (self.keys > 0).then(|| format!("key {}", number % self.keys)),
            ..JobOptions::default()
        }
    }
}

/// Single jobs on an idle fleet, to measure the latency with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Singles {
    /// How many.
    pub(crate) jobs: usize,
    /// The time between two.
    pub(crate) spacing: Duration,
}

/// How jobs are enqueued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Entrance {
    /// The SQL contract
    Sql,
    /// One job a request over HTTP, by way of a `stokehold serve` process
    Api,
    /// Many jobs a request over HTTP
    ApiBulk,
}

/// When the jobs of a load come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Shape {
    /// All of them before the first one may run.
    BurnDown {
        /// How many.
        jobs: usize,
    },
    /// One after another at an even rate.
    Steady {
        /// Jobs a second.
        jobs_per_s: f64,
        /// For so long.
        duration: Duration,
    },
    /// Many at once, again and again.
    Bursts {
        /// Jobs at once.
        burst: usize,
        /// From one burst to the next.
        every: Duration,
        /// For so long.
        duration: Duration,
    },
}

impl Shape {
    /// How many jobs there are in all.
    pub(crate) fn jobs(&self) -> usize {
        match self {
            Shape::BurnDown { jobs } => *jobs,
            Shape::Steady { jobs_per_s, duration } => {
                (jobs_per_s * duration.as_secs_f64()).round() as usize
            }
            Shape::Bursts { burst, every, duration } => {
                let bursts = (duration.as_secs_f64() / every.as_secs_f64()).ceil().max(1.0);
                burst * bursts as usize
            }
        }
    }

    /// The calls that enqueue the jobs: how many jobs, and when they are due, counted from the start of
    /// the load. None waits for those before it: a slow system must not slow down what it is asked to
    /// bear. Jobs of two bursts never share a call.
    pub(crate) fn calls(&self, batch_jobs: usize) -> Vec<(usize, Duration)> {
        let (mut calls, mut from, jobs) = (Vec::new(), 0, self.jobs());
        while from < jobs {
            let burst_end = match self {
                Shape::Bursts { burst, .. } => (from / burst + 1) * burst,
                Shape::BurnDown { .. } | Shape::Steady { .. } => jobs,
            };
            let upto = burst_end.min(from + batch_jobs);
            // Together when the last of them is due: none may come too early.
            calls.push((upto - from, self.due(upto - 1)));
            from = upto;
        }
        calls
    }

    fn due(&self, job: usize) -> Duration {
        match self {
            Shape::BurnDown { .. } => Duration::ZERO,
            Shape::Steady { jobs_per_s, .. } => Duration::from_secs_f64(job as f64 / jobs_per_s),
            Shape::Bursts { burst, every, .. } => {
                every.saturating_mul((job / burst).try_into().unwrap_or(u32::MAX))
            }
        }
    }

    /// True when the jobs wait until all are there.
    pub(crate) fn holds_back(&self) -> bool {
        matches!(self, Shape::BurnDown { .. })
    }

    /// The word for it on the command line.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Shape::BurnDown { .. } => "burn-down",
            Shape::Steady { .. } => "steady",
            Shape::Bursts { .. } => "bursts",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_bounded_in_jobs_and_in_bytes() {
        assert_eq!((usual_batch_jobs(0), usual_batch_jobs(10_000)), (1_000, 1_000));
        assert_eq!(usual_batch_jobs(1 << 20), 16);
    }

    #[test]
    fn a_steady_load_comes_evenly_and_ends_in_time() {
        let steady = Shape::Steady { jobs_per_s: 200.0, duration: Duration::from_millis(1500) };
        assert_eq!(steady.jobs(), 300);
        assert_eq!(steady.due(100), Duration::from_millis(500));
        assert!(steady.due(299) < Duration::from_millis(1500));
    }

    #[test]
    fn bursts_come_whole_and_a_last_short_interval_has_one_too() {
        let every = Duration::from_millis(400);
        let bursts = Shape::Bursts { burst: 10, every, duration: Duration::from_secs(1) };
        assert_eq!(bursts.jobs(), 30);
        assert_eq!((bursts.due(9), bursts.due(10)), (Duration::ZERO, every));
        assert_eq!(bursts.due(29), every * 2);
        let calls = bursts.calls(8);
        assert_eq!(calls[..3], [(8, Duration::ZERO), (2, Duration::ZERO), (8, every)]);
        assert_eq!(calls.iter().map(|(jobs, _)| jobs).sum::<usize>(), 30);
    }
}
