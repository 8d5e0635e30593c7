//! `stokehold key`: making API keys, the first one included.

use clap::{Args as ClapArgs, Subcommand};
use stokehold_api::wire::CreatedKey;

use super::database::DatabaseArgs;
use super::output::Output;
use super::server::Server;

/// Make API keys
#[derive(ClapArgs, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    server: Server,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Make a key and print it, once: only its hash is stored
    ///
    /// Goes through the API when a server and a key are known. The first key of an installation is
    /// made in the database itself: with --database-url, or with DATABASE_URL when no key is known.
    #[command(after_help = "\
Examples:
  stokehold key create deploy-bot
  stokehold key create first --database-url postgres://stokehold@db/stokehold
  export STOKEHOLD_KEY=$(stokehold key create ci)")]
    Create {
        /// A name for people: 1 to 63 of a-z, 0-9, '.', '_' and '-'
        name: String,
        #[command(flatten)]
        database: DatabaseArgs,
    },
}

/// Runs the command.
pub(crate) async fn run(args: Args, output: &Output) -> anyhow::Result<()> {
    let What::Create { name, database } = args.what;
    let created = match args.server.client() {
        Ok(client) if database.database_url.is_none() => client.create_key(&name).await?,
        // Why there is no client matters only when there is no database either.
        Err(error) if database.url().is_none() => return Err(error),
        Ok(_) | Err(_) => create_in(&database, &name).await?,
    };
    if output.is_json() {
        output.document(&created)?;
        return Ok(());
    }
    output.line(&created.key)?;
    output.note(format!(
        "key '{}' ({}) is made. Keep it now: it cannot be shown again.",
        created.name, created.prefix
    ));
    Ok(())
}

async fn create_in(database: &DatabaseArgs, name: &str) -> anyhow::Result<CreatedKey> {
    let made = database.connect().await?.create_key(name).await?;
    Ok(CreatedKey {
        name: made.key.name,
        prefix: made.key.prefix,
        key: made.text,
        created_at: made.key.created_at,
    })
}
