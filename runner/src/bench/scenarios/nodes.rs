//! What further nodes cost each other: on one machine they bring no more processors, so the rate
//! shows what they stand in each other's way.

use futures::future::BoxFuture;
use serde_json::json;

use super::{Bar, Found, Limit, Needs, Scenario, Stand};
use crate::bench::percentiles::median;
use crate::bench::workload::Workload;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "nodes",
    about: "throughput of two and of four nodes on the same machine, against one",
    bars: &[
        Bar::ratio("two / one", Limit::Least(0.8)),
        Bar::ratio("four / one", Limit::Least(0.7)),
    ],
    needs: Needs::NOTHING,
    run,
};

fn run(stand: &Stand) -> BoxFuture<'_, anyhow::Result<Found>> {
    Box::pin(async move {
        let jobs = stand.size(100_000, 4_000);
        let mut rates = [Vec::new(), Vec::new(), Vec::new()];
        for _ in 0..3 {
            for (nodes, rates) in [1, 2, 4].into_iter().zip(&mut rates) {
                let workload = Workload { nodes, ..stand.burn_down(jobs) };
                rates.push(stand.run(&workload).await?.jobs_per_s);
            }
        }
        let [one, two, four] = rates.each_ref().map(|rates| median(rates.iter().copied()));
        let (one, two, four) =
            (one.unwrap_or(f64::NAN), two.unwrap_or_default(), four.unwrap_or_default());
        Ok(Found {
            figures: vec![two / one, four / one],
            details: json!({ "one": rates[0], "two": rates[1], "four": rates[2] }),
        })
    })
}
