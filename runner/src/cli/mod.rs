//! The command line: the tree of commands, and how one of them is run and ends.

mod bench;
mod complaint;
pub(crate) mod database;
mod demo;
mod dev;
mod enqueue;
mod exit;
pub(crate) mod fault;
mod follow;
mod job;
mod job_bulk;
mod job_edit;
mod job_options;
mod job_view;
mod key;
mod kind;
mod kind_limits;
mod limits;
mod migrate;
mod module;
pub(crate) mod output;
mod pause;
pub(crate) mod payload;
mod push;
mod run;
pub(crate) mod runner_cmd;
mod runner_drain;
mod runner_list;
mod schedule;
mod serve;
mod server;
pub(crate) mod text;
pub(crate) mod units;
mod verify;
mod with_postgres;

use std::io;
use std::process::ExitCode;
use std::sync::LazyLock;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, Parser, Subcommand};

use exit::Exit;
use fault::Fault;
use output::Output;

use crate::postgres::keeper;

/// Background jobs out of PostgreSQL, each in its own WebAssembly sandbox
#[derive(Parser, Debug)]
#[command(
    name = "stokehold",
    version,
    arg_required_else_help = true,
    after_help = FIRST_STEPS,
    after_long_help = LONG_HELP.as_str()
)]
pub(crate) struct Cli {
    /// Print one JSON document on stdout; an error is a problem document on stderr
    #[arg(long, global = true, display_order = 900)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

const FIRST_STEPS: &str = "\
First steps:
  stokehold dev                                          everything, on this machine
  stokehold push resize.wasm --kind image.resize         a handler for a kind of job
  stokehold enqueue image.resize --payload @photo.jpg --wait --output small.jpg

Every command explains itself: stokehold help COMMAND";

/// What `stokehold --help` says after the list of commands.
static LONG_HELP: LazyLock<String> = LazyLock::new(|| {
    format!(
        "\
{FIRST_STEPS}

Which server:
  --url and --key, else STOKEHOLD_URL and STOKEHOLD_KEY, else the address and key that
  `stokehold dev` keeps in dev.json in $STOKEHOLD_STATE_DIR, $XDG_STATE_HOME/stokehold or
  ~/.local/state/stokehold.

Output:
  Data goes to stdout, everything else to stderr. --json prints one document for programs.
  Colours follow the terminal and NO_COLOR.

{}",
        exit::HELP
    )
});

#[derive(Subcommand, Debug)]
enum Command {
    // What each is for stands with its arguments.
    Dev(dev::Args),
    Push(push::Args),
    Enqueue(enqueue::Args),
    Run(run::Args),
    Job(job::Args),
    Kind(kind::Args),
    Pause(pause::PauseArgs),
    Resume(pause::ResumeArgs),
    Schedule(schedule::Args),
    Module(module::Args),
    Key(key::Args),
    /// Run a runner node, list those there are, or have one stop
    Runner(RunnerArgs),
    /// Serve the API
    Serve(serve::Args),
    /// Bring the database schema up to date
    Migrate(migrate::Args),
    Verify(verify::Args),
    /// Measure how fast this machine and database are
    Bench(bench::Args),
    /// See it at work: real handlers, real jobs, and what becomes of handlers that misbehave
    Demo(demo::Args),
    /// Run a program with a throw-away PostgreSQL server beside it
    WithPostgres(with_postgres::Args),
    #[command(name = keeper::COMMAND, hide = true)]
    Postgres(keeper::Args),
}

/// A runner node, or a look at those there are.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
struct RunnerArgs {
    #[command(subcommand)]
    look: Option<RunnerLook>,
    #[command(flatten)]
    node: runner_cmd::Args,
}

#[derive(Subcommand, Debug)]
enum RunnerLook {
    /// List the runners that live or ended within the last day
    List(runner_list::Args),
    Drain(runner_drain::Args),
}

/// Parses the command line, runs the command and says how it ended.
pub(crate) fn main() -> ExitCode {
    // Usage errors and help end here, with 2 and 0.
    let cli = Cli::parse();
    let output = Output::new(cli.json);
    if let Command::Postgres(args) = &cli.command {
        // Before there are threads: it changes the process and becomes another program.
        return match keeper::run(args) {
            Ok(()) => Exit::Success.into(),
            Err(error) => {
                complaint::tell(&error, false);
                Exit::Failure.into()
            }
        };
    }
    let ended = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("the process could not start its threads")
        .and_then(|runtime| {
            let ended = runtime.block_on(cli.command.run(&output));
            // Whatever still runs after the command's end is not waited for.
            runtime.shutdown_timeout(Duration::from_millis(200));
            ended
        });
    match ended {
        Ok(()) => Exit::Success.into(),
        // Who closed the pipe has read enough.
        Err(error) if is_broken_pipe(&error) => Exit::Success.into(),
        Err(error) => {
            complaint::tell(&error, output.is_json());
            Exit::of(&error).into()
        }
    }
}

impl Command {
    async fn run(self, output: &Output) -> anyhow::Result<()> {
        match self {
            // These stop in their own way.
            Command::Dev(args) => dev::run(args, output).await,
            Command::Serve(args) => serve::run(args, output).await,
            Command::Runner(RunnerArgs { look: None, node }) => runner_cmd::run(node, output).await,
            Command::Bench(args) => bench::run(args, output).await,
            Command::Demo(args) => demo::run(args, output).await,
            Command::WithPostgres(args) => with_postgres::run(args, output).await,
            Command::Postgres(args) => keeper::run(&args),
            // These are over at once when the keyboard says so.
            Command::Push(args) => interruptible(push::run(args, output)).await,
            Command::Enqueue(args) => interruptible(enqueue::run(args, output)).await,
            Command::Run(args) => interruptible(run::run(args, output)).await,
            Command::Job(args) => interruptible(job::run(args, output)).await,
            Command::Kind(args) => interruptible(kind::run(args, output)).await,
            Command::Pause(args) => interruptible(pause::pause(args, output)).await,
            Command::Resume(args) => interruptible(pause::resume(args, output)).await,
            Command::Schedule(args) => interruptible(schedule::run(args, output)).await,
            Command::Module(args) => interruptible(module::run(args, output)).await,
            Command::Key(args) => interruptible(key::run(args, output)).await,
            Command::Migrate(args) => interruptible(migrate::run(args, output)).await,
            Command::Verify(args) => interruptible(verify::run(args, output)).await,
            Command::Runner(RunnerArgs { look: Some(RunnerLook::List(args)), .. }) => {
                interruptible(runner_list::run(args, output)).await
            }
            Command::Runner(RunnerArgs { look: Some(RunnerLook::Drain(args)), .. }) => {
                interruptible(runner_drain::run(args, output)).await
            }
        }
    }
}

async fn interruptible(command: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    tokio::select! {
        ended = command => ended,
        _ = tokio::signal::ctrl_c() => Err(Fault::interrupted().into()),
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
    })
}

#[cfg(test)]
mod tests;
