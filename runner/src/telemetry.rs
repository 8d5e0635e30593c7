//! Where the log lines of a serving process go: to stderr, for people or for programs.

use std::io::IsTerminal;

use anyhow::Context;
use tracing_subscriber::EnvFilter;

/// Sets the filter; the words are those of `tracing`, such as `info,stokehold_node=debug`.
const FILTER_VARIABLE: &str = "STOKEHOLD_LOG";

/// How log lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogFormat {
    /// A line of text each.
    Text,
    /// One JSON object a line.
    Json,
}

/// The flags of every serving command.
#[derive(clap::Args, Debug)]
pub(crate) struct LogArgs {
    /// How log lines are written
    #[arg(long, value_enum, default_value = "text", env = "STOKEHOLD_LOG_FORMAT")]
    log_format: LogFormat,
}

impl LogArgs {
    /// Starts logging; once a process. `quiet` shows warnings only unless the variable says otherwise.
    pub(crate) fn start(&self, quiet: bool) -> anyhow::Result<()> {
        let filter = match std::env::var(FILTER_VARIABLE) {
            Ok(text) => EnvFilter::try_new(&text)
                .with_context(|| format!("{FILTER_VARIABLE}={text:?} is not a log filter"))?,
            // The driver repeats what we report in our own words.
            Err(_) => EnvFilter::new(if quiet { "warn,sqlx=error" } else { "info,sqlx=warn" }),
        };
        let lines = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(std::io::stderr)
            .with_ansi(std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none());
        match self.log_format {
            LogFormat::Text => lines.with_target(false).init(),
            LogFormat::Json => lines.json().flatten_event(true).init(),
        }
        Ok(())
    }
}
