//! A process of our own binary that ends with us, however we end.
//!
//! As with the child PostgreSQL the kernel's parent-death signal follows the thread that started the
//! process, so that thread lives as long as the process does: it waits for it.

use std::fs;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::sync::watch;

use crate::postgres::keeper;

/// How long a process may take to stop in order.
const STOP: Duration = Duration::from_secs(20);

/// A running process.
#[derive(Debug)]
pub(crate) struct Child {
    what: String,
    pid: Pid,
    log: PathBuf,
    ended: watch::Receiver<Option<ExitStatus>>,
}

impl Child {
    /// Starts `stokehold ARGUMENTS` on a database. What it writes goes to a file in `folder`.
    pub(crate) fn start(
        what: &str,
        arguments: &[&str],
        database_url: &str,
        folder: &Path,
    ) -> anyhow::Result<Child> {
        let log = folder.join(format!("{what}.log"));
        let file = fs::OpenOptions::new().create(true).append(true).open(&log)?;
        let program = std::env::current_exe()?;
        let mut command = Command::new(&program);
        command
            .arg(keeper::COMMAND)
            .arg("--owner-pid")
            .arg(std::process::id().to_string())
            // Nothing of a benchmark is worth handing back in order when its owner is gone.
            .args(["--death-signal", "SIGKILL", "--"])
            .arg(&program)
            .args(arguments)
            // Not as an argument: a password may stand in it, and everybody can read those.
            .env("DATABASE_URL", database_url)
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            // Out of the terminal's foreground group: Ctrl-C is for us, and we stop it in our order.
            .process_group(0);
        if std::env::var_os("STOKEHOLD_LOG").is_none() {
            command.env("STOKEHOLD_LOG", "warn,sqlx=error");
        }
        let (pid, ended) = spawn(what, command)?;
        Ok(Child { what: what.to_owned(), pid, log, ended })
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> i32 {
        self.pid.as_raw()
    }

    /// What it wrote so far.
    pub(crate) fn said(&self) -> String {
        fs::read(&self.log)
            .map_or_else(|_| String::new(), |bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Fails when it has ended, with the last lines that it wrote.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        let Some(status) = *self.ended.borrow() else { return Ok(()) };
        let said = self.said();
        let lines: Vec<&str> = said.lines().collect();
        let last = lines[lines.len().saturating_sub(6)..].join("\n");
        bail!("the process of {} has ended ({status}); it said:\n{last}", self.what)
    }

    /// Tells it to stop and waits for it.
    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        let _ = kill(self.pid, Signal::SIGTERM);
        let mut ended = self.ended.clone();
        match tokio::time::timeout(STOP, ended.wait_for(Option::is_some)).await {
            Ok(Ok(status)) if status.is_some_and(|status| !status.success()) => {
                drop(status);
                self.check()
            }
            Ok(_) => Ok(()),
            Err(_) => bail!("{} does not stop within {} s", self.what, STOP.as_secs()),
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.ended.borrow().is_none() {
            // Gone in between is as good; its thread reaps it.
            let _ = kill(self.pid, Signal::SIGKILL);
        }
    }
}

type Spawned = (Pid, watch::Receiver<Option<ExitStatus>>);

fn spawn(what: &str, mut command: Command) -> anyhow::Result<Spawned> {
    let (ended_sender, ended) = watch::channel(None);
    let (started_sender, started) = mpsc::channel();
    std::thread::Builder::new().name(format!("child {what}")).spawn(move || {
        let status = match command.spawn() {
            Ok(mut child) => {
                let _ = started_sender.send(Ok(child.id()));
                child.wait()
            }
            Err(error) => {
                let _ = started_sender.send(Err(error));
                return;
            }
        };
        // Waiting fails only when somebody else has waited already.
        ended_sender.send_replace(Some(status.unwrap_or(ExitStatus::from_raw(0))));
    })?;
    let pid = started.recv()?.with_context(|| format!("{what} could not be started"))?;
    Ok((Pid::from_raw(pid.try_into()?), ended))
}
