//! What limits and unique jobs cost where they are used.

use futures::future::BoxFuture;
use serde_json::json;
use stokehold_domain::KindLimits;

use super::{Bar, Found, Limit, Needs, Scenario, Stand};
use crate::bench::percentiles::median;
use crate::bench::workload::{Features, Workload};

/// The least part of the throughput that is left.
const LEFT: f64 = 0.90;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "features",
    about: "throughput of jobs with limits, with limits for 1,000 keys, and with unique keys, and without",
    bars: &[
        Bar::absolute("limited / plain", Limit::Least(LEFT)),
        Bar::absolute("limited by key / plain", Limit::Least(LEFT)),
        Bar::absolute("unique / plain", Limit::Least(LEFT)),
    ],
    needs: Needs::NOTHING,
    run,
};

fn run(stand: &Stand) -> BoxFuture<'_, anyhow::Result<Found>> {
    Box::pin(async move {
        let plain = stand.burn_down(stand.size(60_000, 2_000));
        // Wide enough never to be met: what is measured is the reckoning.
        let many = Some(100_000);
        let with = |features| Workload { features, ..plain.clone() };
        let workloads = [
            plain.clone(),
            with(Features {
                limits: KindLimits { max_running: many, ..KindLimits::default() },
                ..Features::default()
            }),
            with(Features {
                limits: KindLimits { max_running_per_key: many, ..KindLimits::default() },
                keys: 1_000,
                ..Features::default()
            }),
            with(Features { unique: true, ..Features::default() }),
        ];
        let mut rates = [const { Vec::new() }; 4];
        for _ in 0..stand.size(3, 1) {
            for (workload, rates) in workloads.iter().zip(&mut rates) {
                rates.push(stand.run(workload).await?.jobs_per_s);
            }
        }
        let middle = |rates: &Vec<f64>| median(rates.iter().copied()).unwrap_or(f64::NAN);
        let figures = rates[1..].iter().map(|with| middle(with) / middle(&rates[0])).collect();
        let details = json!({
            "plain_jobs_per_s": rates[0], "limited_jobs_per_s": rates[1],
            "limited_by_key_jobs_per_s": rates[2], "unique_jobs_per_s": rates[3],
        });
        Ok(Found { figures, details })
    })
}
