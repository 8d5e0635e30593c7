//! Where the server is and with which key: what `stokehold dev` leaves behind for the other commands.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

const FILE: &str = "dev.json";

/// The connection file: `dev.json` in the [`state_folder`], readable by its owner only.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Connection {
    /// The server's address, such as `http://127.0.0.1:8470`.
    pub(crate) url: String,
    /// The API key.
    pub(crate) key: String,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("url", &self.url).finish_non_exhaustive()
    }
}

/// Why the connection file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectionError {
    /// It could not be read or written.
    #[error("the connection file {} could not be {verb}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was attempted.
        verb: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Others can read the key in it.
    #[error("the connection file {} can be read by others (mode {mode:03o}): run `chmod 600` on it or delete it", path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// Its text is not what is expected.
    #[error("the connection file {} is damaged: delete it and start `stokehold dev` again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What the parser said.
        #[source]
        source: serde_json::Error,
    },
    /// No folder can be found to keep it in.
    #[error("there is no folder for state: set HOME or STOKEHOLD_STATE_DIR")]
    NoFolder,
}

impl Connection {
    /// Reads the file; `None` when there is none.
    pub(crate) fn load() -> Result<Option<Connection>, ConnectionError> {
        match state_folder() {
            Some(folder) => Connection::load_from(&folder),
            None => Ok(None),
        }
    }

    /// Writes the file and says where it is.
    pub(crate) fn store(&self) -> Result<PathBuf, ConnectionError> {
        self.store_in(&state_folder().ok_or(ConnectionError::NoFolder)?)
    }

    /// Removes the file if it still holds this connection: its server has stopped.
    pub(crate) fn forget(&self) {
        if let Some(folder) = state_folder()
            && Connection::load_from(&folder).is_ok_and(|stored| stored.as_ref() == Some(self))
        {
            // Left behind, it only makes the next command say that no server answers.
            let _ = fs::remove_file(folder.join(FILE));
        }
    }

    /// Where [`Connection::load`] looks, for messages.
    pub(crate) fn path() -> Option<PathBuf> {
        state_folder().map(|folder| folder.join(FILE))
    }

    fn load_from(folder: &Path) -> Result<Option<Connection>, ConnectionError> {
        let path = folder.join(FILE);
        let failed = |source| ConnectionError::Io { path: path.clone(), verb: "read", source };
        let file = match fs::File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let mode = file.metadata().map_err(failed)?.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(ConnectionError::Exposed { path, mode });
        }
        let text = io::read_to_string(file).map_err(failed)?;
        match serde_json::from_str(&text) {
            Ok(connection) => Ok(Some(connection)),
            Err(source) => Err(ConnectionError::Damaged { path, source }),
        }
    }

    fn store_in(&self, folder: &Path) -> Result<PathBuf, ConnectionError> {
        let path = folder.join(FILE);
        let failed = |source| ConnectionError::Io { path: path.clone(), verb: "written", source };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        // Written beside and moved over, so that a reader never sees half of it.
        let fresh = folder.join(format!(".{FILE}.{}", std::process::id()));
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&fresh)
            .map_err(failed)?;
        let text = serde_json::to_string_pretty(self).map_err(|e| failed(e.into()))?;
        file.write_all(text.as_bytes()).and_then(|()| file.write_all(b"\n")).map_err(failed)?;
        fs::rename(&fresh, &path).map_err(failed)?;
        Ok(path)
    }
}

/// `$STOKEHOLD_STATE_DIR`, or `stokehold` in `$XDG_STATE_HOME` or `~/.local/state`.
pub(crate) fn state_folder() -> Option<PathBuf> {
    let from = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(folder) = from("STOKEHOLD_STATE_DIR") {
        return Some(folder.into());
    }
    let state = from("XDG_STATE_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(from("HOME")?).join(".local/state")))?;
    Some(state.join("stokehold"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_connection_is_private_and_reads_back() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("deep/state");
        assert_eq!(Connection::load_from(&state).unwrap(), None);
        let connection = Connection { url: "http://127.0.0.1:1".into(), key: "sth_x".into() };
        let path = connection.store_in(&state).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(&state).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(Connection::load_from(&state).unwrap(), Some(connection.clone()));
        assert!(!format!("{connection:?}").contains("sth_x"));
    }

    #[test]
    fn a_file_that_others_can_read_or_that_is_damaged_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let connection = Connection { url: "http://127.0.0.1:1".into(), key: "sth_x".into() };
        let path = connection.store_in(folder.path()).unwrap();
        fs::write(&path, "{").unwrap();
        let error = Connection::load_from(folder.path()).unwrap_err();
        assert!(error.to_string().contains("is damaged"), "{error}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let error = Connection::load_from(folder.path()).unwrap_err();
        assert!(error.to_string().contains("can be read by others (mode 644)"), "{error}");
    }
}
