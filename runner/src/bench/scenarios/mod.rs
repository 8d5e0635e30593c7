//! Named measurements, each with a number that it must reach.
//!
//! One file each: what it sets up, what it measures, its bar. A bar that is a ratio compares two runs
//! on the same bed and holds on any machine; an absolute one is for the machine class that it was set
//! on (2 cores, the server on the same machine), and neither a debug build nor a run in small is
//! judged by it.

mod blocked_handlers;
mod features;
mod flood;
mod held_snapshot;
mod history;
mod idle_cost;
mod latency_half_load;
mod latency_idle;
mod many_kinds;
mod network_delay;
mod nodes;
mod one_at_a_time;
mod payloads;
mod scheduled_due;
mod stand;
mod throughput;
mod verdict;
mod waiting;
mod wake_ups;

use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;

pub(crate) use stand::{Stand, Yardstick};
pub(crate) use verdict::{Bar, Limit, Verdict};

use super::bed::{Bed, BedOptions};
use crate::cli::fault::Fault;
use crate::cli::output::Output;

/// A named measurement.
pub(crate) struct Scenario {
    /// What it is called on the command line.
    pub(crate) name: &'static str,
    /// What it measures, in one line.
    pub(crate) about: &'static str,
    /// What it must reach, one for each of its figures.
    pub(crate) bars: &'static [Bar],
    /// What it needs beside an empty database.
    pub(crate) needs: Needs,
    /// Measures: one number for each bar, in the same order.
    pub(crate) run: fn(&Stand) -> BoxFuture<'_, anyhow::Result<Found>>,
}

/// What a scenario needs beside an empty database.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Needs {
    /// A count of statements, where the server can.
    pub(crate) statements: bool,
    /// Another empty database on the same server.
    pub(crate) sibling: bool,
}

impl Needs {
    const NOTHING: Needs = Needs { statements: false, sibling: false };
}

/// What a scenario measured.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// One number for each bar.
    pub(crate) figures: Vec<f64>,
    /// What they were made of.
    pub(crate) details: serde_json::Value,
}

/// All of them, in the order in which `--all` runs them.
pub(crate) const ALL: &[Scenario] = &[
    throughput::SCENARIO,
    one_at_a_time::SCENARIO,
    latency_idle::SCENARIO,
    latency_half_load::SCENARIO,
    held_snapshot::SCENARIO,
    history::SCENARIO,
    waiting::SCENARIO,
    scheduled_due::SCENARIO,
    wake_ups::SCENARIO,
    idle_cost::SCENARIO,
    flood::SCENARIO,
    many_kinds::SCENARIO,
    nodes::SCENARIO,
    network_delay::SCENARIO,
    payloads::SCENARIO,
    features::SCENARIO,
    blocked_handlers::SCENARIO,
];

/// Those of the given names, in the order of [`ALL`].
pub(crate) fn find(names: &[String]) -> Result<Vec<&'static Scenario>, Fault> {
    if let Some(unknown) = names.iter().find(|name| ALL.iter().all(|s| s.name != **name)) {
        let known: Vec<&str> = ALL.iter().map(|scenario| scenario.name).collect();
        return Err(Fault::not_found(format!("there is no scenario {unknown:?}"))
            .hint(format!("There are: {}.", known.join(", "))));
    }
    Ok(ALL.iter().filter(|scenario| names.iter().any(|name| name == scenario.name)).collect())
}

/// How scenarios are run.
#[derive(Clone, Debug)]
pub(crate) struct ScenarioOptions {
    /// The database; each scenario has a scratch server of its own without one.
    pub(crate) bed: BedOptions,
    /// In small: to see that everything works.
    pub(crate) quick: bool,
    /// Attempts at once on a node.
    pub(crate) slots: usize,
    /// How long a scenario that goes on for a while does so, if not as long as is usual for it.
    pub(crate) duration: Option<std::time::Duration>,
}

impl Scenario {
    /// Runs it on a bed of its own; `None` when told to stop.
    pub(crate) async fn measure(
        &self,
        options: &ScenarioOptions,
        stop: &CancellationToken,
        output: &Output,
    ) -> anyhow::Result<Option<Vec<Verdict>>> {
        let mut bed = options.bed.clone();
        bed.statements = self.needs.statements && bed.url.is_none() && Bed::can_count_statements();
        let mut stand = Stand {
            bed: Bed::open(bed, output).await?,
            sibling: None,
            quick: options.quick,
            slots: options.slots,
            duration: options.duration,
        };
        let found = match self.set_up(&mut stand).await {
            Ok(()) => stop.run_until_cancelled((self.run)(&stand)).await,
            Err(error) => Some(Err(error)),
        };
        stand.close().await?;
        let Some(found) = found else { return Ok(None) };
        let Found { figures, details } = found?;
        anyhow::ensure!(figures.len() == self.bars.len(), "{} measured too little", self.name);
        let verdicts = self.bars.iter().zip(figures).enumerate();
        Ok(Some(
            verdicts
                .map(|(n, (bar, measured))| Verdict {
                    // Once, however many figures there are.
                    details: (n == 0).then(|| details.clone()),
                    ..Verdict::of(self.name, bar, measured, options.quick)
                })
                .collect(),
        ))
    }
}

impl Scenario {
    async fn set_up(&self, stand: &mut Stand) -> anyhow::Result<()> {
        if self.needs.sibling {
            stand.sibling = Some(stand.bed.sibling().await?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_every_scenario_has_a_bar() {
        for (n, scenario) in ALL.iter().enumerate() {
            assert!(ALL[..n].iter().all(|other| other.name != scenario.name), "{}", scenario.name);
            assert!(!scenario.bars.is_empty(), "{}", scenario.name);
            assert!(scenario.about.len() < 100, "{}", scenario.name);
        }
    }

    #[test]
    fn every_scenario_stands_in_the_documentation() {
        let page = include_str!("../../../../docs/benchmarking.md");
        for scenario in ALL {
            assert!(page.contains(&format!("\n| `{}` | ", scenario.name)), "{}", scenario.name);
        }
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_list() {
        let fault = find(&["flood".to_owned(), "flod".to_owned()]).err().unwrap();
        assert_eq!(fault.message, "there is no scenario \"flod\"");
        assert!(fault.hint.unwrap().contains("flood, many-kinds"));
        assert_eq!(find(&["flood".to_owned()]).ok().unwrap().len(), 1);
    }
}
