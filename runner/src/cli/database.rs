//! Commands that speak to the database itself.

use anyhow::Context;
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

/// Where the databases are that one node serves.
#[derive(Args, Clone)]
#[command(next_help_heading = "Database")]
pub(crate) struct DatabasesArgs {
    /// The database, as postgres://USER@HOST/NAME; without it, DATABASE_URL. Given again, the node
    /// serves each of them, with a lease and as many slots of its own
    #[arg(long, value_name = "URL")]
    pub(crate) database_url: Vec<String>,
}

impl std::fmt::Debug for DatabasesArgs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // A password may stand in it.
        f.debug_struct("DatabasesArgs").finish_non_exhaustive()
    }
}

impl DatabasesArgs {
    /// Connects to each, and makes sure that the servers answer.
    pub(crate) async fn connect(&self) -> anyhow::Result<Vec<Database>> {
        let mut urls = self.database_url.clone();
        urls.extend(urls.is_empty().then(|| DatabaseArgs { database_url: None }.url()).flatten());
        if let Some(twice) = (1..urls.len()).find(|n| urls[..*n].contains(&urls[*n])) {
            let number = twice + 1;
            return Err(Fault::usage(format!("--database-url number {number} was given before"))
                .hint("A node serves each database once; --slots says with how many slots.")
                .into());
        }
        if urls.is_empty() {
            // Says which are missing.
            return Ok(vec![DatabaseArgs { database_url: None }.connect().await?]);
        }
        let mut databases = Vec::new();
        for (n, url) in urls.iter().enumerate() {
            let connected = async { Ok(Database::connect(options(url)?).await?) };
            let which = || format!("database {} of {}", n + 1, urls.len());
            let connected: anyhow::Result<Database> = connected.await;
            databases.push(if urls.len() > 1 {
                connected.with_context(which)?
            } else {
                connected?
            });
        }
        Ok(databases)
    }
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
