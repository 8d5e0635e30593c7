//! The running server: started, waited for, stopped.
//!
//! It is our child and ends with us. The kernel's parent-death signal follows the *thread* that
//! started it, so that thread lives as long as the server does: it waits for it.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::sync::watch;

use super::{Binaries, Folder, cluster, keeper};

/// How long the server may take to accept connections; recovery after a crash included.
const START: Duration = Duration::from_secs(60);
/// How long a server of an owner that was killed may take to be gone.
const LEFTOVER: Duration = Duration::from_secs(20);
/// How long a fast shutdown may take before the immediate one follows.
const STOP: Duration = Duration::from_secs(30);
/// The database in our clusters.
const DATABASE: &str = "stokehold";

/// Whether commits survive a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// As PostgreSQL comes: every commit reaches the disk.
    Durable,
    /// For clusters that are thrown away: nothing waits for the disk.
    ThrowAway,
}

/// A server that runs and accepts connections.
#[derive(Debug)]
pub(crate) struct Server {
    folder: Folder,
    pid: Pid,
    ended: watch::Receiver<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Makes the cluster if needed, starts the server and waits until it accepts connections.
    /// `more` are settings that win over ours, as NAME=VALUE.
    pub(crate) async fn start(
        binaries: Binaries,
        folder: Folder,
        durability: Durability,
        more: Vec<String>,
    ) -> anyhow::Result<Server> {
        let prepare = move || {
            cluster::ensure(&binaries, &folder, durability)?;
            wait_for_leftover(&folder)?;
            anyhow::Ok((binaries, folder))
        };
        let (binaries, folder) = tokio::task::spawn_blocking(prepare).await??;
        let command = command(&binaries, &folder, durability, &more)?;
        let (pid, ended, thread) = spawn(command)?;
        let server = Server { folder, pid, ended, thread: Some(thread) };
        server.wait_until_ready().await?;
        server.ensure_database().await?;
        Ok(server)
    }

    /// The address of our database on it.
    pub(crate) fn url(&self) -> String {
        self.url_of(DATABASE)
    }

    fn url_of(&self, database: &str) -> String {
        let socket = self.folder.socket().to_string_lossy();
        let host: String = socket
            .bytes()
            .map(|b| match b {
                b'/' | b'-' | b'_' | b'.' => char::from(b).to_string(),
                b if b.is_ascii_alphanumeric() => char::from(b).to_string(),
                b => format!("%{b:02X}"),
            })
            .collect();
        format!("postgres://{}@localhost/{database}?host={host}", cluster::USER)
    }

    /// Resolves when the server has ended, for whatever reason.
    pub(crate) async fn ended(&self) {
        let mut ended = self.ended.clone();
        // An error means that the waiting thread is gone, which also means that the server is.
        let _ = ended.wait_for(|ended| *ended).await;
    }

    /// The end of the server's log, for error messages.
    pub(crate) fn log_tail(&self) -> String {
        log_tail(&self.folder.log())
    }

    /// A fast shutdown: sessions end, everything is written. Waits for it.
    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        signal(self.pid, Signal::SIGINT)?;
        if tokio::time::timeout(STOP, self.ended()).await.is_err() {
            tracing::warn!("PostgreSQL did not stop in time: stopping it at once");
            signal(self.pid, Signal::SIGQUIT)?;
            tokio::time::timeout(STOP, self.ended())
                .await
                .context("PostgreSQL could not be stopped")?;
        }
        if let Some(thread) = self.thread.take() {
            let _ = tokio::task::spawn_blocking(|| thread.join()).await;
        }
        Ok(())
    }

    async fn wait_until_ready(&self) -> anyhow::Result<()> {
        let begun = Instant::now();
        loop {
            // Not a connection alone: through a leftover socket another server might answer.
            if postmaster(&self.folder.data()).is_some_and(|(pid, ready)| pid == self.pid && ready)
            {
                return Ok(());
            }
            if *self.ended.borrow() {
                bail!("PostgreSQL ended while it started; its log says:\n{}", self.log_tail());
            }
            if begun.elapsed() > START {
                bail!(
                    "PostgreSQL does not accept connections after {} s; its log says:\n{}",
                    START.as_secs(),
                    self.log_tail()
                );
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn ensure_database(&self) -> anyhow::Result<()> {
        stokehold_queue::database::ensure_database(&self.url_of("postgres"), DATABASE).await?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !*self.ended.borrow() {
            // Best effort on the way out of an error; the parent-death signal stands behind it.
            let _ = signal(self.pid, Signal::SIGINT);
        }
    }
}

fn command(
    binaries: &Binaries,
    folder: &Folder,
    durability: Durability,
    more: &[String],
) -> anyhow::Result<Command> {
    let log = fs::OpenOptions::new().create(true).append(true).open(folder.log())?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(keeper::COMMAND).arg("--owner-pid").arg(std::process::id().to_string());
    if let Some(owner) = folder.owner() {
        command.arg("--uid").arg(owner.uid.to_string()).arg("--gid").arg(owner.gid.to_string());
    }
    command.arg("--").arg(binaries.postgres()).arg("-D").arg(folder.data());
    let socket = format!("unix_socket_directories={}", folder.socket().display());
    let mut settings = vec![
        "listen_addresses=",
        socket.as_str(),
        "unix_socket_permissions=0700",
        "max_connections=200",
        "shared_buffers=256MB",
        // Checkpoints rewrite pages in full afterwards: rarely is cheaper for a queue.
        "max_wal_size=4GB",
        "checkpoint_timeout=15min",
        "wal_compression=on",
        "log_line_prefix=%m [%p] ",
        "logging_collector=off",
        "cluster_name=stokehold",
    ];
    if durability == Durability::ThrowAway {
        settings.extend(["fsync=off", "full_page_writes=off", "synchronous_commit=off"]);
    }
    settings.extend(more.iter().map(String::as_str));
    for setting in settings {
        command.arg("-c").arg(setting);
    }
    command
        .env_clear()
        .env("LC_ALL", "C.UTF-8")
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        // Out of the terminal's foreground group: Ctrl-C is for us, and we stop it in our order.
        .process_group(0);
    Ok(command)
}

type Spawned = (Pid, watch::Receiver<bool>, JoinHandle<()>);

fn spawn(mut command: Command) -> anyhow::Result<Spawned> {
    let (ended_sender, ended) = watch::channel(false);
    let (started_sender, started) = mpsc::channel();
    let thread = std::thread::Builder::new().name("postgres".to_owned()).spawn(move || {
        match command.spawn() {
            Ok(child) => {
                let _ = started_sender.send(Ok(child.id()));
                let status = wait(child);
                tracing::debug!(?status, "PostgreSQL has ended");
            }
            Err(error) => {
                let _ = started_sender.send(Err(error));
            }
        }
        ended_sender.send_replace(true);
    })?;
    let pid = started.recv()?.context("PostgreSQL could not be started")?;
    Ok((Pid::from_raw(pid.try_into()?), ended, thread))
}

fn wait(mut child: Child) -> std::io::Result<ExitStatus> {
    child.wait()
}

/// A server whose owner was killed is told so by the kernel and needs a moment; one that for some
/// reason goes on is told again.
fn wait_for_leftover(folder: &Folder) -> anyhow::Result<()> {
    let data = folder.data();
    let begun = Instant::now();
    while let Some((pid, _)) = postmaster(&data) {
        if !serves(pid, &data) {
            // Its pid file alone is left over; the server removes it itself.
            return Ok(());
        }
        if begun.elapsed() > LEFTOVER {
            bail!("a PostgreSQL server (process {pid}) still runs on {}: stop it", data.display());
        }
        if begun.elapsed() > Duration::from_secs(2) {
            signal(pid, Signal::SIGINT)?;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// The process in the pid file of a cluster, and whether it says that it is ready.
fn postmaster(data: &Path) -> Option<(Pid, bool)> {
    let text = fs::read_to_string(data.join("postmaster.pid")).ok()?;
    let mut lines = text.lines();
    let pid = Pid::from_raw(lines.next()?.trim().parse().ok()?);
    // The eighth line of the file, since PostgreSQL 10.
    Some((pid, lines.nth(6).is_some_and(|status| status.trim() == "ready")))
}

/// Whether the process lives and is the server of this cluster: pids are used again.
fn serves(pid: Pid, data: &Path) -> bool {
    let Ok(line) = fs::read(format!("/proc/{pid}/cmdline")) else { return false };
    let data = data.as_os_str().as_encoded_bytes();
    line.split(|byte| *byte == 0).any(|argument| argument == data)
}

fn signal(pid: Pid, signal: Signal) -> anyhow::Result<()> {
    match kill(pid, signal) {
        // Gone already.
        Ok(()) | Err(Errno::ESRCH) => Ok(()),
        Err(errno) => Err(errno).with_context(|| format!("process {pid} could not be signalled")),
    }
}

fn log_tail(path: &Path) -> String {
    let text = fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let text = text.unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(12)..].join("\n")
}
