//! `stokehold runner`: a node as a process of its own.

use super::database::DatabasesArgs;
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
  stokehold runner --database-url postgres://stokehold@a/jobs --database-url postgres://stokehold@b/jobs

Start as many as you like, on as many machines: they share nothing but the database. SIGTERM stops
a node in order, the second one at once.")]
pub(crate) struct Args {
    #[command(flatten)]
    node: NodeArgs,
    #[command(flatten)]
    databases: DatabasesArgs,
    #[command(flatten)]
    log: LogArgs,
}

/// Runs until told to stop.
pub(crate) async fn run(args: Args, output: &Output) -> anyhow::Result<()> {
    args.log.start(false)?;
    let stop = shutdown::on_signal()?;
    let config = args.node.config();
    config.check()?;
    let mut pools = Vec::new();
    for database in args.databases.connect().await? {
        database.check_schema().await?;
        pools.push(services::node_pool(database.options(), &config));
        database.close().await;
    }
    let sandbox = args.node.sandbox(pools.len()).await?;
    let each = if pools.len() > 1 {
        format!(" on each of {} databases", pools.len())
    } else {
        String::new()
    };
    output.note(format!("Runner {} serves {} slots{each}", config.name, config.slots));
    let mut parts = Parts::default();
    for pool in pools {
        parts.add(services::node(pool, sandbox.clone(), config.clone(), stop.clone()));
    }
    parts.run(&stop).await
}
