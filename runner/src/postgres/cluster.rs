//! The cluster in a folder: made once, checked at every start.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use super::{Binaries, Durability, Folder};

/// The superuser of our clusters. It needs no password: the socket's folder is private and there is
/// no network.
pub(crate) const USER: &str = "stokehold";

/// Makes the cluster unless it is there; refuses one of another major version.
pub(super) fn ensure(
    binaries: &Binaries,
    folder: &Folder,
    durability: Durability,
) -> anyhow::Result<()> {
    let data = folder.data();
    let version_file = data.join("PG_VERSION");
    if version_file.exists() {
        let found = fs::read_to_string(&version_file)?;
        if found.trim() != binaries.major().to_string() {
            bail!(
                "the data directory {} was made by PostgreSQL {}, but the server found here is {}: \
                 point {} at the binaries of {0} {1}, or choose another directory with --data-dir",
                folder.root().display(),
                found.trim(),
                binaries.major(),
                super::binaries::FOLDER_VARIABLE,
            );
        }
        return Ok(());
    }
    if data.exists() {
        bail!(
            "{} exists but holds no PostgreSQL cluster: move it away, or choose another directory \
             with --data-dir",
            data.display()
        );
    }
    // Made beside and moved over, so that being killed in the middle leaves nothing that looks whole.
    let fresh = folder.root().join("data.new");
    if fresh.exists() {
        fs::remove_dir_all(&fresh)
            .with_context(|| format!("the leftover {} could not be removed", fresh.display()))?;
    }
    let mut command = Command::new(binaries.initdb());
    command
        .env_clear()
        .env("LC_ALL", "C")
        .arg("--pgdata")
        .arg(&fresh)
        .args(["--username", USER, "--auth", "trust"])
        .args(["--encoding", "UTF8", "--locale", "C.UTF-8", "--data-checksums"])
        // A fresh cluster holds nothing yet; the sync below writes it out in one go.
        .arg("--no-sync")
        .current_dir("/")
        .stdin(Stdio::null());
    if let Some(owner) = folder.owner() {
        command.uid(owner.uid.as_raw()).gid(owner.gid.as_raw());
    }
    let output = command.output().context("initdb could not be started")?;
    if !output.status.success() {
        bail!(
            "initdb could not make a cluster in {}: {}",
            fresh.display(),
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    if durability == Durability::Durable {
        sync_filesystem(&fresh)?;
    }
    fs::rename(&fresh, &data)?;
    Ok(())
}

/// Everything written so far to the file system of this folder reaches the disk.
fn sync_filesystem(folder: &std::path::Path) -> anyhow::Result<()> {
    let handle = fs::File::open(folder)?;
    nix::unistd::syncfs(&handle).context("the new cluster could not be written to disk")?;
    Ok(())
}
