//! The moment between us and a child process, the server above all: this binary again, which arranges
//! that the child dies with its owner, lowers its rights, and becomes the child.
//!
//! A process of its own does it because these calls would change ours; it is safe code from end to
//! end, which a hook between fork and exec would not be.

use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, bail};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::unistd::{Gid, Pid, Uid, getppid, setgid, setgroups, setuid};

/// How the hidden command is called.
pub(crate) const COMMAND: &str = "__postgres";

/// Become a program, such as a PostgreSQL server, that ends with the process that started it.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The process to end with.
    #[arg(long)]
    pub(crate) owner_pid: i32,
    /// The user to become.
    #[arg(long, requires = "gid")]
    pub(crate) uid: Option<u32>,
    /// The group to become.
    #[arg(long)]
    pub(crate) gid: Option<u32>,
    /// What the kernel sends when the owner ends; SIGINT is PostgreSQL's fast shutdown.
    #[arg(long, default_value = "SIGINT")]
    pub(crate) death_signal: Signal,
    /// The program and its arguments.
    #[arg(last = true, required = true)]
    pub(crate) command: Vec<std::ffi::OsString>,
}

/// Does not return when all goes well.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    if let (Some(uid), Some(gid)) = (args.uid, args.gid) {
        setgroups(&[]).context("supplementary groups could not be dropped")?;
        setgid(Gid::from_raw(gid)).context("the group could not be changed")?;
        setuid(Uid::from_raw(uid)).context("the user could not be changed")?;
    }
    // After the change of user, which clears it.
    set_pdeathsig(args.death_signal).context("the parent-death signal could not be set")?;
    // The owner may have died before that line.
    if getppid() != Pid::from_raw(args.owner_pid) {
        bail!("the process that wanted this one is gone");
    }
    let Some((program, arguments)) = args.command.split_first() else { bail!("no program given") };
    let error = Command::new(program).args(arguments).exec();
    Err(error).with_context(|| format!("{} could not be started", program.display()))
}
