//! `stokehold serve`: the API as a process of its own.

use std::net::SocketAddr;

use stokehold_sandbox::SandboxConfig;

use super::database::DatabaseArgs;
use super::output::Output;
use crate::services::{self, Parts};
use crate::shutdown;
use crate::telemetry::LogArgs;

/// Connections to the database; each is held for milliseconds.
const CONNECTIONS: u32 = 20;

/// Serve the API
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  DATABASE_URL=postgres://stokehold@db/jobs stokehold serve
  stokehold serve --listen 0.0.0.0:8470

The schema has to be there: run `stokehold migrate` first. The first key is made with
`stokehold key create NAME` on a machine that has DATABASE_URL.")]
pub(crate) struct Args {
    /// The address to listen on
    #[arg(long, value_name = "ADDRESS", default_value = services::DEFAULT_ADDRESS, env = "STOKEHOLD_LISTEN")]
    listen: SocketAddr,
    #[command(flatten)]
    database: DatabaseArgs,
    #[command(flatten)]
    log: LogArgs,
}

/// Serves until told to stop.
pub(crate) async fn run(args: Args, output: &Output) -> anyhow::Result<()> {
    args.log.start(false)?;
    let stop = shutdown::on_signal()?;
    let listener = services::listen(args.listen).await?;
    let address = listener.local_addr()?;
    let database = args.database.connect().await?;
    database.check_schema().await?;
    // The API compiles uploads and runs nothing.
    let sandbox = services::start_sandbox(SandboxConfig {
        slots: 2,
        guest_threads: 1,
        ..SandboxConfig::default()
    })
    .await?;
    let pool = services::api_pool(database.options(), CONNECTIONS);
    database.close().await;
    let mut parts = Parts::default();
    parts.add(services::api(listener, pool, sandbox, stop.clone()));
    output.note(format!("Stokehold serves its API on http://{address}"));
    parts.run(&stop).await
}
