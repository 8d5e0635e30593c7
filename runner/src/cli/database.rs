//! Commands that speak to the database itself.

use clap::Args;
use stokehold_queue::{Database, DatabaseOptions};

use super::fault::Fault;

/// Where the database is.
#[derive(Args, Clone)]
#[command(next_help_heading = "Database")]
pub(crate) struct DatabaseArgs {
    /// The database, as postgres://USER@HOST/NAME; without it, DATABASE_URL
    #[arg(long, value_name = "URL")]
    pub(crate) database_url: Option<String>,
}

impl std::fmt::Debug for DatabaseArgs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // A password may stand in it.
        f.debug_struct("DatabaseArgs").finish_non_exhaustive()
    }
}

impl DatabaseArgs {
    /// The address by flag or environment, if there is one.
    pub(crate) fn url(&self) -> Option<String> {
        let from_environment = || std::env::var("DATABASE_URL").ok();
        self.database_url.clone().or_else(from_environment).filter(|url| !url.is_empty())
    }

    /// Connects, and makes sure that the server answers.
    pub(crate) async fn connect(&self) -> anyhow::Result<Database> {
        let url = self.url().ok_or_else(|| {
            Fault::usage("which database? Neither --database-url nor DATABASE_URL is set")
                .hint("Write it as postgres://USER:PASSWORD@HOST:PORT/NAME.")
        })?;
        Ok(Database::connect(options(&url)?).await?)
    }
}

/// Reads an address.
pub(crate) fn options(url: &str) -> Result<DatabaseOptions, Fault> {
    DatabaseOptions::from_url(url).map_err(|error| {
        // The address itself is not repeated: a password may stand in it.
        Fault::invalid(format!("the database address makes no sense: {}", reason(&error)))
            .hint("Write it as postgres://USER:PASSWORD@HOST:PORT/NAME.")
    })
}

/// The innermost cause.
fn reason(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), reason)
}
