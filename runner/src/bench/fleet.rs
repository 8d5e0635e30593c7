//! The nodes of a run: processes of their own, as in earnest.

use std::time::{Duration, Instant};

use anyhow::bail;

use super::bed::Bed;
use super::child::Child;
use super::cpu;
use crate::cli::output::Output;
use crate::cli::text::one_line;

/// How long the nodes may take to be registered.
const START: Duration = Duration::from_secs(60);

/// Lines of complaint of one node that are passed on.
const MOST_COMPLAINTS: usize = 5;

/// Nodes that run.
pub(crate) struct Fleet {
    nodes: Vec<Child>,
    output: Output,
}

/// What the nodes are to be like.
#[derive(Clone, Debug)]
pub(crate) struct FleetOptions {
    /// How many.
    pub(crate) nodes: usize,
    /// Attempts at once on each.
    pub(crate) slots: usize,
    /// Further flags.
    pub(crate) flags: Vec<String>,
    /// Where they reach the database, if not where the benchmark does.
    pub(crate) url: Option<String>,
}

impl Fleet {
    /// Starts the nodes and waits until all of them are registered.
    pub(crate) async fn start(bed: &Bed, options: &FleetOptions) -> anyhow::Result<Fleet> {
        let (slots, queue) = (options.slots.to_string(), bed.queue());
        let mut fleet = Fleet { nodes: Vec::new(), output: bed.output };
        let mut names = Vec::new();
        for _ in 0..options.nodes {
            let name = bed.fresh_name("node");
            let mut arguments = vec![
                "runner", "--name", &name, "--queue", &queue, "--slots", &slots, "--grace", "1s",
            ];
            arguments.extend(options.flags.iter().map(String::as_str));
            let url = options.url.as_ref().unwrap_or(&bed.url);
            fleet.nodes.push(Child::start(&name, &arguments, url, bed.folder())?);
            names.push(name);
        }
        let begun = Instant::now();
        loop {
            let live = bed.database.runners().await?;
            let registered = |name: &&String| {
                live.iter().any(|runner| runner.name == **name && runner.state == "live")
            };
            if names.iter().filter(registered).count() == names.len() {
                return Ok(fleet);
            }
            fleet.check()?;
            if begun.elapsed() > START {
                bail!("the nodes are not registered within {} s", START.as_secs());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Fails when one of them has ended.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        self.nodes.iter().try_for_each(Child::check)
    }

    /// Processor time of all of them.
    pub(crate) fn cpu(&self) -> Duration {
        self.nodes.iter().filter_map(|node| cpu::of_process(node.pid())).sum()
    }

    /// Resident memory of the largest, in bytes.
    pub(crate) fn resident_bytes(&self) -> u64 {
        self.nodes.iter().filter_map(|node| cpu::resident_bytes(node.pid())).max().unwrap_or(0)
    }

    /// Stops them in order and waits for it, and passes on what they complained about: a node that
    /// waited for the database explains a figure.
    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        for node in &self.nodes {
            let said = node.said();
            let complaints = said.lines().filter(|l| l.contains("WARN") || l.contains("ERROR"));
            for line in complaints.take(MOST_COMPLAINTS) {
                self.output.note(format!("a node said: {}", one_line(line)));
            }
        }
        // All are told before the first is waited for.
        futures::future::try_join_all(self.nodes.into_iter().map(Child::stop)).await?;
        Ok(())
    }
}
