//! The flags that name scenarios, and running those.

use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::bench::report::BUILD;
use crate::bench::scenarios::{ALL, Scenario, ScenarioOptions, find};
use crate::cli::fault::Fault;
use crate::cli::output::Output;
use crate::cli::text::counted;

/// Named measurements instead of a load.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Scenarios")]
pub(super) struct ScenarioArgs {
    /// List the scenarios
    #[arg(long, conflicts_with_all = ["scenario", "all"])]
    pub(super) list: bool,
    /// Run a named measurement and compare it with its bar; may be given again
    #[arg(long, value_name = "NAME", conflicts_with = "all")]
    pub(super) scenario: Vec<String>,
    /// Run all of them
    #[arg(long)]
    pub(super) all: bool,
    /// Run them in small, to see that they work; absolute bars are not judged then
    #[arg(long)]
    pub(super) quick: bool,
}

impl ScenarioArgs {
    /// The scenarios that are asked for, if any are.
    pub(super) fn chosen(&self) -> Result<Option<Vec<&'static Scenario>>, Fault> {
        if self.all {
            return Ok(Some(ALL.iter().collect()));
        }
        if !self.scenario.is_empty() {
            return find(&self.scenario).map(Some);
        }
        if self.quick {
            let fault = Fault::usage("--quick runs scenarios in small, and none is named");
            return Err(fault.hint("Add --all, or --scenario with a name of --list."));
        }
        Ok(None)
    }
}

/// Prints which there are.
pub(super) fn list(output: &Output) -> anyhow::Result<()> {
    if output.is_json() {
        let names = |s: &Scenario| json!({ "name": s.name, "about": s.about });
        output.document(&ALL.iter().map(names).collect::<Vec<_>>())?;
        return Ok(());
    }
    let rows = ALL.iter().map(|scenario| {
        let bars: Vec<String> =
            scenario.bars.iter().map(|bar| format!("{} {}", bar.figure, bar.words())).collect();
        [scenario.name.to_owned(), scenario.about.to_owned(), bars.join("; ")]
    });
    output.table(["name", "what", "bar"], rows)?;
    Ok(())
}

/// Runs scenarios one after another, each on a bed of its own. One that fails does not keep the
/// others from being measured, nor what was measured from being told.
pub(super) async fn run(
    options: &ScenarioOptions,
    chosen: &[&Scenario],
    stop: &CancellationToken,
    output: &Output,
) -> anyhow::Result<()> {
    let widths = widths(chosen);
    let (mut verdicts, mut failed) = (Vec::new(), Vec::new());
    for (n, scenario) in chosen.iter().enumerate() {
        output.note(format!("{} ({} of {})", scenario.name, n + 1, chosen.len()));
        match scenario.measure(options, stop, output).await {
            Ok(Some(measured)) => {
                for verdict in measured {
                    if !output.is_json() {
                        // At once: the whole may take an hour.
                        output.line(verdict.line(widths))?;
                    }
                    verdicts.push(verdict);
                }
            }
            Ok(None) => {}
            Err(error) => {
                output.note(format!("{}: {error:#}", scenario.name));
                failed.push((scenario.name, error));
            }
        }
        if stop.is_cancelled() {
            break;
        }
    }
    if output.is_json() {
        let failed: Vec<_> = failed
            .iter()
            .map(|(name, error)| json!({ "name": name, "error": format!("{error:#}") }))
            .collect();
        output.document(&json!({
            "build": BUILD, "quick": options.quick, "scenarios": verdicts, "failed": failed,
        }))?;
    }
    if stop.is_cancelled() {
        return Err(Fault::interrupted().into());
    }
    if let Some((name, error)) = failed.into_iter().next() {
        return Err(error.context(format!("scenario {name}")));
    }
    let missed = verdicts.iter().filter(|verdict| verdict.met == Some(false)).count();
    if missed > 0 {
        let bars = counted(verdicts.len(), "bar");
        return Err(Fault::missed(format!("{missed} of {bars} missed")).into());
    }
    Ok(())
}

/// As wide as the longest name and the longest figure.
fn widths(chosen: &[&Scenario]) -> (usize, usize) {
    let figures = chosen.iter().flat_map(|scenario| scenario.bars).map(|bar| bar.figure.len());
    let names = chosen.iter().map(|scenario| scenario.name.len());
    (names.max().unwrap_or(0), figures.max().unwrap_or(0))
}
