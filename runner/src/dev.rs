//! Everything in one process: a database of its own or one that is there, the API and one runner.
//!
//! The order matters: the address is taken first, since it is the likeliest thing to fail; then the
//! folder's lock, the database, the schema and the key; the runner starts last. On the way out the
//! API and the runner end first, the database after them.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use stokehold_queue::{Database, DatabaseOptions};
use stokehold_sandbox::Sandbox;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::client::connection::{self, Connection};
use crate::postgres::{Binaries, Durability, Folder, Server};
use crate::services::{self, NodeArgs, Parts};

/// Connections of the API's pool.
const API_CONNECTIONS: u32 = 10;
/// The name of the key that `dev` makes.
const KEY_NAME: &str = "dev";

/// What to run.
pub(crate) struct Options {
    /// Where the API listens.
    pub(crate) listen: SocketAddr,
    /// On which database.
    pub(crate) database: DatabaseChoice,
    /// The runner.
    pub(crate) node: NodeArgs,
    /// Leave address and key where the other commands find them.
    pub(crate) keep_connection: bool,
}

/// Which database.
pub(crate) enum DatabaseChoice {
    /// One that is there.
    Url(String),
    /// A durable server as our own child process, thrown away at the end: for measuring. With
    /// settings that go beyond the usual ones, as NAME=VALUE.
    Scratch(Vec<String>),
    /// A server as our own child process.
    Embedded {
        /// Where it keeps its data; `None` for the usual place.
        folder: Option<PathBuf>,
        /// Thrown away at the end.
        ephemeral: bool,
        /// Its binaries; `None` to look for them.
        binaries: Option<PathBuf>,
    },
}

/// Everything, set up and about to run.
pub(crate) struct Dev {
    /// The API's address.
    pub(crate) url: String,
    /// A key for it.
    pub(crate) key: String,
    /// The database's address.
    pub(crate) database_url: String,
    /// Attempts at once.
    pub(crate) slots: usize,
    listener: TcpListener,
    options: DatabaseOptions,
    sandbox: Sandbox,
    node: NodeArgs,
    server: Option<Server>,
    // After the server: it lives in the folder.
    throw_away: Option<ThrowAway>,
    folder: Option<PathBuf>,
}

impl Dev {
    /// Sets everything up. Nothing half-done remains when it fails.
    pub(crate) async fn start(options: Options) -> anyhow::Result<Dev> {
        options.node.config().check()?;
        let listener = services::listen(options.listen).await?;
        // The engine and the database take their time side by side.
        let (sandbox, database) =
            tokio::join!(options.node.sandbox(1), open_database(options.database));
        let (sandbox, opened) = (sandbox?, database?);
        let database_options = DatabaseOptions::from_url(&opened.url)?;
        let database = Database::connect(database_options.clone()).await?;
        database.migrate().await?;
        let key = key(&database, opened.folder.as_deref()).await?;
        database.close().await;
        let url = format!("http://{}", listener.local_addr()?);
        if options.keep_connection {
            Connection { url: url.clone(), key: key.clone() }.store()?;
        }
        Ok(Dev {
            url,
            key,
            database_url: opened.url,
            slots: options.node.slots,
            listener,
            options: database_options,
            sandbox,
            node: options.node,
            server: opened.server,
            throw_away: opened.throw_away,
            folder: opened.folder,
        })
    }

    /// The database in words.
    pub(crate) fn database_words(&self) -> String {
        match (&self.throw_away, &self.folder, &self.server) {
            (Some(_), ..) => format!("{} (thrown away at the end)", self.database_url),
            (None, Some(folder), Some(_)) => {
                format!("{} (kept in {})", self.database_url, folder.display())
            }
            // Its address may hold a password.
            _ => "the one of DATABASE_URL".to_owned(),
        }
    }

    /// Runs everything until told to stop, or until a part ends by itself.
    pub(crate) async fn run(self, stop: CancellationToken) -> anyhow::Result<()> {
        let mut parts = Parts::default();
        let api_pool = services::api_pool(&self.options, API_CONNECTIONS);
        parts.add(services::api(
            self.listener,
            api_pool.clone(),
            self.sandbox.clone(),
            stop.clone(),
        ));
        let config = self.node.config();
        let node_pool = services::node_pool(&self.options, &config);
        parts.add(services::node(node_pool.clone(), self.sandbox, config, stop.clone()));
        let ended = match &self.server {
            None => parts.run(&stop).await,
            Some(server) => {
                let watch = async {
                    server.ended().await;
                    tracing::error!("PostgreSQL has ended:\n{}", server.log_tail());
                    stop.cancel();
                };
                tokio::select! {
                    ended = parts.run(&stop) => ended,
                    () = watch => Err(anyhow::anyhow!("PostgreSQL has ended")),
                }
            }
        };
        Connection { url: self.url, key: self.key }.forget();
        api_pool.close().await;
        node_pool.close().await;
        if let Some(server) = self.server {
            server.stop().await?;
        }
        drop(self.throw_away);
        ended
    }
}

/// A database that can be connected to, and what stands behind it.
pub(crate) struct Opened {
    /// Its address.
    pub(crate) url: String,
    server: Option<Server>,
    folder: Option<PathBuf>,
    throw_away: Option<ThrowAway>,
}

impl Opened {
    /// Stops the server, if it is ours, and removes what is to be thrown away.
    pub(crate) async fn close(self) -> anyhow::Result<()> {
        match self.server {
            Some(server) => server.stop().await,
            None => Ok(()),
        }
    }
}

/// Opens the database: makes and starts the server when it is to be ours.
pub(crate) async fn open_database(choice: DatabaseChoice) -> anyhow::Result<Opened> {
    let (mut durability, mut settings) = (None, Vec::new());
    let (folder, ephemeral, binaries) = match choice {
        DatabaseChoice::Scratch(more) => {
            durability = Some(Durability::Durable);
            settings = more;
            (None, true, None)
        }
        DatabaseChoice::Url(url) => {
            let folder = connection::state_folder();
            return Ok(Opened { url, server: None, folder, throw_away: None });
        }
        DatabaseChoice::Embedded { folder, ephemeral, binaries } => (folder, ephemeral, binaries),
    };
    let binaries = Binaries::find(binaries.as_deref())?;
    let (root, throw_away) = if ephemeral {
        let throw_away = ThrowAway::make()?;
        (throw_away.0.clone(), Some(throw_away))
    } else {
        (folder.map_or_else(default_folder, Ok)?, None)
    };
    let usual = if ephemeral { Durability::ThrowAway } else { Durability::Durable };
    let durability = durability.unwrap_or(usual);
    let owned = Folder::own(&root)?;
    let server = Server::start(binaries, owned, durability, settings).await?;
    Ok(Opened { url: server.url(), server: Some(server), folder: Some(root), throw_away })
}

/// Beside the other state, but for root: its home is closed to the user that the server runs as.
fn default_folder() -> anyhow::Result<PathBuf> {
    let told = std::env::var_os("STOKEHOLD_STATE_DIR").is_some_and(|value| !value.is_empty());
    if nix::unistd::geteuid().is_root() && !told {
        return Ok(PathBuf::from("/var/lib/stokehold/dev"));
    }
    let state = connection::state_folder()
        .context("there is no folder for state: set HOME, or name one with --data-dir")?;
    Ok(state.join("dev"))
}

/// The key that stays the same over restarts: kept in a private file, its hash in the database.
async fn key(database: &Database, folder: Option<&Path>) -> anyhow::Result<String> {
    let Some(folder) = folder else { return Ok(database.create_key(KEY_NAME).await?.text) };
    let path = folder.join("dev.key");
    let text = match fs::read_to_string(&path) {
        Ok(text) => text.trim().to_owned(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let text = Database::new_key_text();
            fs::create_dir_all(folder)?;
            let mut file = fs::OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&path)
                .with_context(|| format!("the key file {} could not be made", path.display()))?;
            std::io::Write::write_all(&mut file, text.as_bytes())?;
            text
        }
        Err(error) => {
            return Err(error)
                .with_context(|| format!("the key file {} could not be read", path.display()));
        }
    };
    database
        .adopt_key(KEY_NAME, &text)
        .await
        .with_context(|| format!("the key in {} is of no use: delete the file", path.display()))?;
    Ok(text)
}

/// A folder that is removed when this is dropped.
pub(crate) struct ThrowAway(PathBuf);

impl ThrowAway {
    /// Makes one among the temporary files, private to us.
    pub(crate) fn make() -> anyhow::Result<ThrowAway> {
        let template = std::env::temp_dir().join("stokehold-XXXXXX");
        let path = nix::unistd::mkdtemp(&template)
            .with_context(|| format!("{} could not be made", template.display()))?;
        Ok(ThrowAway(path))
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for ThrowAway {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            tracing::warn!(%error, folder = %self.0.display(), "the folder could not be removed");
        }
    }
}
