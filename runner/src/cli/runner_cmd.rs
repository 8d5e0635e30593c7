//! `stokehold runner`: a node as a process of its own.

use super::database::DatabaseArgs;
use super::output::Output;
use crate::services::{self, NodeArgs, Parts};
use crate::shutdown;
use crate::telemetry::LogArgs;

/// Run a runner node, or list those there are
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  DATABASE_URL=postgres://stokehold@db/jobs stokehold runner --slots 64
  stokehold runner --queue mail,reports

Start as many as you like, on as many machines: they share nothing but the database. SIGTERM stops
a node in order, the second one at once.")]
pub(crate) struct Args {
    #[command(flatten)]
    node: NodeArgs,
    #[command(flatten)]
    database: DatabaseArgs,
    #[command(flatten)]
    log: LogArgs,
}

/// Runs until told to stop.
pub(crate) async fn run(args: Args, output: &Output) -> anyhow::Result<()> {
    args.log.start(false)?;
    let stop = shutdown::on_signal()?;
    let config = args.node.config();
    config.check()?;
    let database = args.database.connect().await?;
    database.check_schema().await?;
    let sandbox = args.node.sandbox().await?;
    let pool = services::node_pool(database.options(), &config);
    database.close().await;
    output.note(format!("Runner {} serves {} slots", config.name, config.slots));
    let mut parts = Parts::default();
    parts.add(services::node(pool, sandbox, config, stop.clone()));
    parts.run(&stop).await
}
