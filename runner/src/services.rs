//! The long-running parts of a process and how they are put together: `dev` runs all of them,
//! `serve` and `runner` one each.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use stokehold_api::ApiState;
use stokehold_node::{Node, NodeConfig};
use stokehold_queue::{Database, DatabaseOptions, Plans};
use stokehold_sandbox::{Sandbox, SandboxConfig};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::cli::units;

/// Where the API listens unless told otherwise.
pub(crate) const DEFAULT_ADDRESS: &str = "127.0.0.1:8470";
/// Attempts at once that the sandbox has room for beyond the node's slots: an attempt leaves its
/// pool place a moment after its slot.
const SPARE_SLOTS: usize = 8;

/// The flags of a node.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Runner")]
pub(crate) struct NodeArgs {
    /// Attempts to run at once
    #[arg(long, value_name = "N", default_value_t = 32, env = "STOKEHOLD_SLOTS")]
    pub(crate) slots: usize,
    /// Most jobs in one claim, and most outcomes in one flush
    #[arg(long, value_name = "N", default_value_t = 500, env = "STOKEHOLD_BATCH")]
    pub(crate) batch: usize,
    /// Do not listen for notifications, for a connection pooler that cannot pass them on: work is
    /// found at the next look, within a second
    #[arg(long)]
    pub(crate) no_wake_ups: bool,
    /// Serve only these queues, separated by commas; without it, every queue
    #[arg(long = "queue", value_name = "QUEUES", value_delimiter = ',')]
    pub(crate) queues: Vec<String>,
    /// A name for people; without it, the host's
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// How long running jobs may go on after a signal to stop, before they are handed back
    #[arg(long, value_name = "DURATION", default_value = "25s", value_parser = units::parse_duration)]
    pub(crate) grace: Duration,
    /// How long the database waits for a sign of life before it gives this node's jobs to others.
    /// The node beats five times as often, and stops its own work at seven tenths
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = units::parse_duration)]
    pub(crate) lease: Duration,
    /// Also append every line that a handler logs to this file, as one JSON object a line
    #[arg(long, value_name = "FILE")]
    pub(crate) guest_log_file: Option<PathBuf>,
}

impl NodeArgs {
    /// The node's settings.
    pub(crate) fn config(&self) -> NodeConfig {
        NodeConfig {
            name: self.name.clone().unwrap_or_else(host_name),
            queues: (!self.queues.is_empty()).then(|| self.queues.clone()),
            slots: self.slots,
            batch: self.batch,
            wake_ups: !self.no_wake_ups,
            lease: self.lease,
            beat: self.lease / 5,
            self_fence: self.lease * 7 / 10,
            grace: self.grace,
            ..NodeConfig::default()
        }
    }

    /// A sandbox with room for the slots of so many nodes.
    pub(crate) async fn sandbox(&self, nodes: usize) -> anyhow::Result<Sandbox> {
        start_sandbox(SandboxConfig {
            slots: self.slots * nodes + SPARE_SLOTS,
            guest_log_file: self.guest_log_file.clone(),
            ..SandboxConfig::default()
        })
        .await
    }
}

/// Starts a sandbox beside the asynchronous work: its self-test takes a moment.
pub(crate) async fn start_sandbox(config: SandboxConfig) -> anyhow::Result<Sandbox> {
    let sandbox = tokio::task::spawn_blocking(|| Sandbox::start(config)).await??;
    Ok(sandbox)
}

/// Takes the API's address, which is the first thing to fail when another server has it.
pub(crate) async fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| {
        format!("the address {address} cannot be listened on: choose another with --listen")
    })
}

/// A pool for the API.
pub(crate) fn api_pool(options: &DatabaseOptions, max_connections: u32) -> Database {
    Database::lazy(DatabaseOptions { max_connections, ..options.clone() })
}

/// A pool for a node.
pub(crate) fn node_pool(options: &DatabaseOptions, config: &NodeConfig) -> Database {
    let max_connections = config.connections();
    Database::lazy(DatabaseOptions { max_connections, plans: Plans::Kept, ..options.clone() })
}

/// Serves the API until told to stop.
pub(crate) async fn api(
    listener: TcpListener,
    database: Database,
    sandbox: Sandbox,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let state = ApiState::new(database, sandbox);
    stokehold_api::serve(listener, state, stop.cancelled_owned()).await.context("the API stopped")
}

/// Runs a node until told to stop.
pub(crate) async fn node(
    database: Database,
    sandbox: Sandbox,
    config: NodeConfig,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    Node::new(database, sandbox, config)?.run(stop).await.context("the runner stopped")
}

/// The parts of one process: when one ends by itself the others are stopped too.
#[derive(Default)]
pub(crate) struct Parts {
    set: tokio::task::JoinSet<anyhow::Result<()>>,
}

impl Parts {
    /// Adds a part. It has to end when `stop` is cancelled.
    pub(crate) fn add(&mut self, part: impl Future<Output = anyhow::Result<()>> + Send + 'static) {
        self.set.spawn(part);
    }

    /// Waits for all of them, stopping all when the first one ends; the first error counts.
    pub(crate) async fn run(mut self, stop: &CancellationToken) -> anyhow::Result<()> {
        let mut first = Ok(());
        while let Some(ended) = self.set.join_next().await {
            let ended = ended.context("a part of the process panicked").flatten();
            if let Err(error) = &ended
                && first.is_ok()
            {
                tracing::error!("{error:#}: stopping everything");
                first = ended;
            }
            stop.cancel();
        }
        first
    }
}

fn host_name() -> String {
    let name = nix::unistd::gethostname().unwrap_or_default();
    let name = name.to_string_lossy().into_owned();
    if name.is_empty() { "runner".to_owned() } else { name }
}
