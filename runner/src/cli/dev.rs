//! `stokehold dev`: everything in one process, with a database of its own.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Instant;

use serde::Serialize;

use super::database::DatabaseArgs;
use super::output::Output;
use crate::dev::{DatabaseChoice, Dev, Options};
use crate::services::{self, NodeArgs};
use crate::shutdown;
use crate::telemetry::LogArgs;

/// Run everything on this machine: database, API and a runner
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  stokehold dev                       jobs survive a restart
  stokehold dev --ephemeral           a fresh start each time, nothing kept
  DATABASE_URL=postgres://... stokehold dev      on a database that is there already

The PostgreSQL server is this machine's, run as a child process on a private socket. The address
and key are also written to dev.json, where the other commands find them.")]
pub(crate) struct Args {
    /// The address to listen on
    #[arg(long, value_name = "ADDRESS", default_value = services::DEFAULT_ADDRESS, env = "STOKEHOLD_LISTEN")]
    listen: SocketAddr,
    /// Where the database keeps its data
    #[arg(long, value_name = "FOLDER", conflicts_with = "ephemeral")]
    data_dir: Option<PathBuf>,
    /// Throw everything away at the end
    #[arg(long)]
    ephemeral: bool,
    /// The folder with the PostgreSQL server binaries to use
    #[arg(long, value_name = "FOLDER", env = crate::postgres::FOLDER_VARIABLE)]
    pg_bin: Option<PathBuf>,
    #[command(flatten)]
    node: NodeArgs,
    #[command(flatten)]
    database: DatabaseArgs,
    #[command(flatten)]
    log: LogArgs,
}

#[derive(Serialize)]
struct Document<'a> {
    url: &'a str,
    key: &'a str,
    database_url: &'a str,
}

/// Runs until told to stop.
pub(crate) async fn run(args: Args, output: &Output) -> anyhow::Result<()> {
    args.log.start(true)?;
    let begun = Instant::now();
    let stop = shutdown::on_signal()?;
    let database = match args.database.url() {
        Some(url) if args.data_dir.is_none() && !args.ephemeral => DatabaseChoice::Url(url),
        _ => DatabaseChoice::Embedded {
            folder: args.data_dir,
            ephemeral: args.ephemeral,
            binaries: args.pg_bin,
        },
    };
    let options = Options { listen: args.listen, database, node: args.node, keep_connection: true };
    let Some(dev) = stop.run_until_cancelled(Dev::start(options)).await.transpose()? else {
        return Ok(());
    };
    if output.is_json() {
        output.document(&Document {
            url: &dev.url,
            key: &dev.key,
            database_url: &dev.database_url,
        })?;
    } else {
        announce(&dev, begun, output)?;
    }
    dev.run(stop).await?;
    output.note("Stopped.");
    Ok(())
}

fn announce(dev: &Dev, begun: Instant, output: &Output) -> std::io::Result<()> {
    output.line(format!("Stokehold is up, after {:.1} s.\n", begun.elapsed().as_secs_f64()))?;
    output.fields(&[
        ("API", dev.url.clone()),
        ("key", dev.key.clone()),
        ("database", dev.database_words()),
        ("runner", format!("{} slots", dev.slots)),
    ])?;
    output.line(
        "\nNext: stokehold push FILE.wasm --kind NAME\nCtrl-C stops everything, the database included.",
    )
}
