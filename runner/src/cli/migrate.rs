//! `stokehold migrate`: the schema, brought up to this binary's version.

use serde::Serialize;

use super::database::DatabaseArgs;
use super::output::Output;

/// Bring the database schema up to date
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Everything lives in the schema `stokehold` of the database. Migrations run one transaction each;
running this twice, or from two places at once, is harmless.")]
pub(crate) struct Args {
    #[command(flatten)]
    database: DatabaseArgs,
}

#[derive(Serialize)]
struct Document {
    from: i64,
    to: i64,
}

/// Migrates and says from where to where.
pub(crate) async fn run(args: Args, output: &Output) -> anyhow::Result<()> {
    let database = args.database.connect().await?;
    let migrated = database.migrate().await?;
    if output.is_json() {
        output.document(&Document { from: migrated.from, to: migrated.to })?;
    } else if migrated.from == migrated.to {
        output.line(format!("The schema has version {} already.", migrated.to))?;
    } else {
        output
            .line(format!("The schema went from version {} to {}.", migrated.from, migrated.to))?;
    }
    Ok(())
}
