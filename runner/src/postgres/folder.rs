//! The private folder of a cluster, and the lock that lets one process own it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::unistd::{Gid, Uid, User, chown, geteuid};

/// The longest path that a Unix socket can have, its final NUL included.
const SOCKET_PATH_BYTES: usize = 108;

/// A folder that this process owns while this value lives.
#[derive(Debug)]
pub(crate) struct Folder {
    root: PathBuf,
    socket: PathBuf,
    owner: Option<Owner>,
    _lock: Flock<File>,
}

/// Whom the server runs as, when we are root and it must not be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) uid: Uid,
    pub(crate) gid: Gid,
}

impl Folder {
    /// Makes the folder if needed and takes the lock.
    ///
    /// # Errors
    /// When another process owns it, in words; when it cannot be made or belongs to somebody else.
    pub(crate) fn own(root: &Path) -> anyhow::Result<Folder> {
        let root = std::path::absolute(root)?;
        let owner = if geteuid().is_root() { Some(server_user()?) } else { None };
        let make = |path: &Path| {
            // Only the folder itself is private: the server's user has to pass those above it.
            path.parent()
                .map_or(Ok(()), fs::create_dir_all)
                .and_then(|()| DirBuilder::new().recursive(true).mode(0o700).create(path))
                .with_context(|| format!("the data directory {} could not be made", path.display()))
        };
        make(&root)?;
        if owner.is_some() {
            check_reachable(&root)?;
        }
        let lock = take_lock(&root)?;
        let socket = socket_folder(&root);
        make(&socket)?;
        for path in [&root, &socket] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o700)).with_context(|| {
                format!("the directory {} belongs to another user", path.display())
            })?;
            if let Some(owner) = owner {
                chown(path, Some(owner.uid), Some(owner.gid)).with_context(|| {
                    format!("{} could not be given to the server's user", path.display())
                })?;
            }
            let mine = owner.map_or_else(geteuid, |owner| owner.uid);
            if fs::metadata(path)?.uid() != mine.as_raw() {
                bail!("the directory {} belongs to another user", path.display());
            }
        }
        Ok(Folder { root, socket, owner, _lock: lock })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Where the cluster is.
    pub(crate) fn data(&self) -> PathBuf {
        self.root.join("data")
    }

    /// Where the server writes its log.
    pub(crate) fn log(&self) -> PathBuf {
        self.root.join("postgres.log")
    }

    /// Where the socket is.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    pub(crate) fn owner(&self) -> Option<Owner> {
        self.owner
    }
}

/// The server's user has to pass every folder above.
fn check_reachable(root: &Path) -> anyhow::Result<()> {
    for folder in root.ancestors().skip(1) {
        if fs::metadata(folder)?.mode() & 0o001 == 0 {
            bail!(
                "PostgreSQL does not run as root, and the user it runs as cannot reach {} because {} \
                 is closed to others: choose another directory with --data-dir",
                root.display(),
                folder.display()
            );
        }
    }
    Ok(())
}

/// Beside the data when the path is short enough for a socket, else in the folder for temporary
/// files, under a name that only this folder has.
fn socket_folder(root: &Path) -> PathBuf {
    let beside = root.join("run");
    let name = "/.s.PGSQL.5432";
    if beside.as_os_str().len() + name.len() < SOCKET_PATH_BYTES {
        return beside;
    }
    let mut hasher = DefaultHasher::new();
    root.hash(&mut hasher);
    std::env::temp_dir().join(format!("stokehold-{}-{:016x}", geteuid(), hasher.finish()))
}

fn take_lock(root: &Path) -> anyhow::Result<Flock<File>> {
    let path = root.join("lock");
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .with_context(|| format!("the lock {} could not be opened", path.display()))?;
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(mut lock) => {
            lock.set_len(0)?;
            lock.rewind()?;
            write!(lock, "{}", std::process::id())?;
            Ok(lock)
        }
        Err((mut file, Errno::EWOULDBLOCK)) => {
            let mut holder = String::new();
            file.read_to_string(&mut holder)?;
            bail!(
                "another stokehold (process {}) already runs on {}: stop it, or choose another \
                 directory with --data-dir",
                if holder.is_empty() { "unknown" } else { holder.trim() },
                root.display()
            );
        }
        Err((_, errno)) => {
            Err(errno).with_context(|| format!("{} could not be locked", path.display()))
        }
    }
}

/// The user for the server when we are root, which PostgreSQL refuses to run as: `postgres`, else
/// `nobody`. It must be in the user database, or initdb refuses it.
fn server_user() -> anyhow::Result<Owner> {
    for name in ["postgres", "nobody"] {
        if let Some(user) = User::from_name(name)? {
            return Ok(Owner { uid: user.uid, gid: user.gid });
        }
    }
    bail!(
        "PostgreSQL does not run as root, and there is no user `postgres` or `nobody` to run it as"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_one_owner_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("dev");
        let first = Folder::own(&root).unwrap();
        let refused = Folder::own(&root).unwrap_err().to_string();
        assert!(refused.contains("already runs on") && refused.contains("--data-dir"), "{refused}");
        drop(first);
        Folder::own(&root).unwrap();
    }

    #[test]
    fn the_socket_of_a_deep_folder_still_fits() {
        let deep = PathBuf::from("/x".repeat(80));
        assert!(socket_folder(&deep).as_os_str().len() + 14 < SOCKET_PATH_BYTES);
        assert_eq!(socket_folder(Path::new("/var/lib/a")), Path::new("/var/lib/a/run"));
    }
}
