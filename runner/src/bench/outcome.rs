//! What became of the jobs of a run: when they started and ended, read in pages, so that a million of
//! them need no more memory than a thousand.

use anyhow::{Context, bail};
use serde::Serialize;
use stokehold_domain::{JobId, KindId};
use stokehold_queue::Database;

use super::percentiles::Times;

/// Rows read at once: 2 MB or so.
const PAGE_JOBS: i64 = 50_000;
/// A plot has about so many points at most.
const MOST_BUCKETS: f64 = 100.0;
/// Widths that read well on an axis, in seconds.
const WIDTHS_S: [f64; 14] =
    [0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0];

/// The jobs of one kind that ended.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// How many.
    pub(crate) jobs: usize,
    /// From the first start to the last recorded outcome, by the database's clock.
    pub(crate) span_s: f64,
    /// From enqueueing to start.
    pub(crate) start: Times,
    /// From enqueueing to the time that the handler answered with, of those that do.
    pub(crate) handler: Times,
    /// From enqueueing to the recorded outcome.
    pub(crate) done: Times,
    /// The same over time.
    pub(crate) timeline: Vec<Bucket>,
}

/// What happened in a piece of time.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Bucket {
    /// Where it begins, counted from the first start.
    pub(crate) from_s: f64,
    /// How long it is.
    pub(crate) width_s: f64,
    /// Jobs that ended in it.
    pub(crate) jobs: u64,
    /// Those, by the second.
    pub(crate) jobs_per_s: f64,
    /// From their enqueueing to their outcome.
    pub(crate) enqueue_to_done_p50_ms: f64,
    /// The same for the slowest hundredth.
    pub(crate) enqueue_to_done_p99_ms: f64,
}

impl Outcome {
    /// Reads what became of the jobs of some kinds with ids above `after`.
    ///
    /// # Errors
    /// When not exactly `wanted` of them ended.
    pub(crate) async fn read(
        database: &Database,
        kinds: &[KindId],
        after: JobId,
        wanted: usize,
    ) -> anyhow::Result<Outcome> {
        let outcome = Outcome::read_ended(database, kinds, after).await?;
        if outcome.jobs != wanted {
            bail!("{} of {wanted} jobs have ended", outcome.jobs);
        }
        Ok(outcome)
    }

    /// The same of those that ended, however many there were.
    ///
    /// # Errors
    /// When one of them ended badly: figures of failures are none.
    pub(crate) async fn read_ended(
        database: &Database,
        kinds: &[KindId],
        after: JobId,
    ) -> anyhow::Result<Outcome> {
        let span = database.job_span(kinds, after).await?;
        let span = span.context("none of the jobs has ended")?;
        if span.completed != span.jobs {
            let failed = span.jobs - span.completed;
            bail!(
                "{failed} of {} jobs ended badly: the handler has to succeed to be measured",
                span.jobs
            );
        }
        let span_s = (span.last_end_s - span.first_start_s).max(1e-6);
        // All of one width: a last one of a millisecond would show any rate.
        let pieces = (span_s / bucket_width(span_s)).ceil().max(1.0);
        let width_s = span_s / pieces;
        let mut buckets = vec![Times::coarse()?; pieces as usize];
        let (mut start, mut done) = (Times::precise()?, Times::precise()?);
        let mut handler = Times::precise()?;
        let mut from = after;
        loop {
            let page = database.job_times(kinds, from, PAGE_JOBS).await?;
            let Some(last) = page.last() else { break };
            from = last.id;
            for job in &page {
                start.add(job.start_s)?;
                done.add(job.done_s)?;
                if let Some(handler_s) = job.handler_s {
                    handler.add(handler_s)?;
                }
                let ended_s = job.enqueued_s + job.done_s - span.first_start_s;
                let place = ((ended_s / width_s) as usize).min(buckets.len() - 1);
                buckets[place].add(job.done_s)?;
            }
        }
        let timeline = buckets.iter().enumerate().map(|(n, times)| Bucket {
            from_s: n as f64 * width_s,
            width_s,
            jobs: times.len(),
            jobs_per_s: times.len() as f64 / width_s,
            enqueue_to_done_p50_ms: times.quantile_ms(0.5),
            enqueue_to_done_p99_ms: times.quantile_ms(0.99),
        });
        Ok(Outcome {
            jobs: span.jobs.try_into()?,
            span_s,
            start,
            handler,
            done,
            timeline: timeline.collect(),
        })
    }

    /// Jobs by the second.
    pub(crate) fn jobs_per_s(&self) -> f64 {
        self.jobs as f64 / self.span_s
    }

    /// The rate in the last third of the time over that in the first.
    pub(crate) fn flatness(&self) -> f64 {
        let in_third = |third: f64| {
            let (from, to) = (self.span_s * third / 3.0, self.span_s * (third + 1.0) / 3.0);
            let inside = |bucket: &&Bucket| {
                let middle = bucket.from_s + bucket.width_s / 2.0;
                (from..to).contains(&middle)
            };
            let (jobs, seconds) = self
                .timeline
                .iter()
                .filter(inside)
                .fold((0, 0.0), |(jobs, s), bucket| (jobs + bucket.jobs, s + bucket.width_s));
            jobs as f64 / seconds
        };
        in_third(2.0) / in_third(0.0)
    }
}

fn bucket_width(span_s: f64) -> f64 {
    let fits = |width: &&f64| span_s / **width <= MOST_BUCKETS;
    WIDTHS_S.iter().find(fits).copied().unwrap_or(span_s / MOST_BUCKETS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeline_has_few_pieces_however_long_it_is() {
        for span_s in [0.001, 0.9, 7.0, 99.0, 600.0, 90_000.0] {
            let buckets = span_s / bucket_width(span_s);
            assert!(buckets <= MOST_BUCKETS + 1e-6, "{span_s} s: {buckets}");
        }
        assert_eq!(bucket_width(8.0), 0.1);
    }

    #[test]
    fn flatness_compares_the_ends() {
        let bucket = |n: u32, jobs: u64| Bucket {
            from_s: f64::from(n),
            width_s: 1.0,
            jobs,
            jobs_per_s: jobs as f64,
            enqueue_to_done_p50_ms: 0.0,
            enqueue_to_done_p99_ms: 0.0,
        };
        let outcome = Outcome {
            jobs: 45,
            span_s: 6.0,
            start: Times::coarse().unwrap(),
            handler: Times::coarse().unwrap(),
            done: Times::coarse().unwrap(),
            timeline: [10, 10, 8, 7, 5, 5]
                .into_iter()
                .zip(0..)
                .map(|(j, n)| bucket(n, j))
                .collect(),
        };
        assert_eq!(outcome.flatness(), 0.5);
    }
}
