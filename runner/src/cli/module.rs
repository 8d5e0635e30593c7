//! `stokehold module`: what is uploaded, and deleting what nothing uses.

use std::time::Duration;

use chrono::Utc;
use clap::{Args as ClapArgs, Subcommand};
use serde_json::Value;
use stokehold_api::wire::{ModuleInfo, PruneRequest, Pruned};

use super::output::Output;
use super::server::Server;
use super::text::counted;
use super::units;
use crate::client::Client;

/// List the uploaded modules and delete those that nothing uses
#[derive(ClapArgs, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    server: Server,
}

#[derive(Subcommand, Debug)]
enum What {
    /// List the uploaded modules, newest first
    List,
    /// Delete modules that no release uses
    ///
    /// Says first how many there are, and asks. Without a terminal it deletes only with --yes.
    #[command(after_help = "\
Examples:
  stokehold module prune                       counts, then asks
  stokehold module prune --older-than 30d --yes")]
    Prune(PruneArgs),
}

#[derive(ClapArgs, Debug)]
struct PruneArgs {
    /// Only modules uploaded longer ago than this
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = units::parse_duration)]
    older_than: Duration,
    /// Delete without asking
    #[arg(long, short)]
    yes: bool,
    /// Only say which; delete nothing
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
}

/// Runs the command.
pub(crate) async fn run(args: Args, output: &Output) -> anyhow::Result<()> {
    let client = args.server.client()?;
    match args.what {
        What::List => list(&client, output).await,
        What::Prune(wish) => prune(&client, &wish, output).await,
    }
}

async fn list(client: &Client, output: &Output) -> anyhow::Result<()> {
    let modules = client.modules().await?;
    if output.is_json() {
        output.document(&modules)?;
        return Ok(());
    }
    if modules.items.is_empty() {
        output.note("no modules yet: upload one with `stokehold push`");
        return Ok(());
    }
    let now = Utc::now();
    output.table(
        ["DIGEST", "ABI", "SIZE", "RELEASES", "MADE WITH", "UPLOADED"],
        modules.items.iter().map(|module| {
            [
                module.digest.short(),
                module.abi.clone(),
                units::bytes(module.size_bytes),
                module.releases.to_string(),
                words(&module.report["producers"]["languages"]).join(", "),
                units::relative(module.created_at, now),
            ]
        }),
    )?;
    Ok(())
}

async fn prune(client: &Client, wish: &PruneArgs, output: &Output) -> anyhow::Result<()> {
    let request = |dry_run| PruneRequest { older_than_s: wish.older_than.as_secs(), dry_run };
    let found = client.prune_modules(&request(true)).await?;
    if found.digests.is_empty() || wish.dry_run {
        return tell(&found, output);
    }
    let number = counted(found.digests.len(), "unused module");
    let (question, would) = (format!("Delete {number}"), format!("{number} would be deleted"));
    if !wish.yes && !output.confirm(&question, &would)? {
        output.note("nothing was deleted");
        return Ok(());
    }
    tell(&client.prune_modules(&request(false)).await?, output)
}

fn tell(pruned: &Pruned, output: &Output) -> anyhow::Result<()> {
    if output.is_json() {
        output.document(pruned)?;
        return Ok(());
    }
    for digest in &pruned.digests {
        output.line(digest.to_string())?;
    }
    match pruned.digests.len() {
        0 => output.note("no unused module is that old: nothing to delete"),
        number if pruned.dry_run => {
            output.note(format!("{} would be deleted", counted(number, "unused module")));
        }
        number => output.note(format!("deleted {}", counted(number, "unused module"))),
    }
    Ok(())
}

/// What there is to say of a module, from its admission report.
pub(super) fn fields(module: &ModuleInfo) -> Vec<(&'static str, String)> {
    let report = &module.report;
    let imports = words(&report["imports"]);
    let permissions =
        if imports.is_empty() { "none: it only computes".to_owned() } else { imports.join("\n") };
    let mut tools = words(&report["producers"]["languages"]);
    tools.extend(words(&report["producers"]["tools"]).iter().map(|tool| without_build(tool)));
    let mut fields = vec![
        ("module", format!("sha256:{}", module.digest)),
        ("abi", module.abi.clone()),
        ("size", units::bytes(module.size_bytes)),
        ("imports", permissions),
    ];
    if !tools.is_empty() {
        fields.push(("made with", tools.join(", ")));
    }
    let notes = words(&report["notes"]);
    if !notes.is_empty() {
        fields.push(("notes", notes.join("\n")));
    }
    fields
}

/// `rustc 1.95.0` of `rustc 1.95.0 (59807616e 2026-04-14)`.
fn without_build(tool: &str) -> String {
    tool.split(" (").next().unwrap_or_default().to_owned()
}

fn words(list: &Value) -> Vec<String> {
    let items = list.as_array().map(Vec::as_slice).unwrap_or_default();
    items.iter().filter_map(|item| item.as_str().map(ToOwned::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_admission_report_is_told_in_fields() {
        let module: ModuleInfo = serde_json::from_value(serde_json::json!({
            "digest": "ab".repeat(32), "abi": "component", "size_bytes": 2048, "releases": 0,
            "created_at": "2027-01-01T00:00:00Z",
            "report": {
                "imports": ["stokehold:job/context", "wasi (answers: not permitted)"],
                "producers": {"languages": ["Rust"], "tools": ["rustc 1.95.0 (59807616e)"]},
                "notes": [],
            },
        }))
        .unwrap();
        let fields = fields(&module);
        let value = |name| &fields.iter().find(|(field, _)| *field == name).unwrap().1;
        assert_eq!(value("imports"), "stokehold:job/context\nwasi (answers: not permitted)");
        assert_eq!(
            (value("made with").as_str(), value("size").as_str()),
            ("Rust, rustc 1.95.0", "2 KiB")
        );
    }

    #[test]
    fn a_report_of_another_version_is_no_failure() {
        assert!(words(&Value::Null).is_empty());
        assert_eq!(words(&serde_json::json!(["a", 1, "b"])), ["a", "b"]);
    }
}
