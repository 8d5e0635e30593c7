//! `stokehold with-postgres`: another program with a throw-away PostgreSQL server beside it, which is
//! what the tests run on.

use std::ffi::OsString;
use std::process::ExitStatus;

use anyhow::{Context, bail};

use super::output::Output;
use crate::dev::{self, DatabaseChoice};

/// Where the program finds the server's address.
const VARIABLE: &str = "STOKEHOLD_TEST_SERVER";

/// Run a program with a throw-away PostgreSQL server, whose address is in STOKEHOLD_TEST_SERVER
#[derive(clap::Args, Debug)]
#[command(after_help = "\
The server is a fresh one on a private socket, with nothing durable about it, and gone with the
program. Example:
  stokehold with-postgres -- cargo test")]
pub(crate) struct Args {
    /// The program and its arguments
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Runs the program and ends as it does.
pub(crate) async fn run(args: Args, _output: &Output) -> anyhow::Result<()> {
    let choice = DatabaseChoice::Embedded { folder: None, ephemeral: true, binaries: None };
    let opened = dev::open_database(choice).await?;
    let (program, arguments) = args.command.split_first().context("no program given")?;
    let status = tokio::process::Command::new(program)
        .args(arguments)
        .env(VARIABLE, &opened.url)
        .kill_on_drop(true)
        .status()
        .await
        .with_context(|| format!("{} could not be started", program.display()));
    opened.close().await?;
    let status: ExitStatus = status?;
    if status.success() {
        return Ok(());
    }
    bail!("{} ended with {status}", program.display())
}
