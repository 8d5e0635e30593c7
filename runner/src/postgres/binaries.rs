//! Finds the server binaries of this machine.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

/// The oldest server that the schema works on.
const OLDEST_MAJOR: u32 = 14;
/// Names the folder of the binaries, over everything found by looking.
pub(crate) const FOLDER_VARIABLE: &str = "STOKEHOLD_PG_BIN";

/// A folder with `postgres` and `initdb` of one version.
#[derive(Clone, Debug)]
pub(crate) struct Binaries {
    folder: PathBuf,
    major: u32,
}

impl Binaries {
    /// Looks where the operator says, then in the places where PostgreSQL is usually installed.
    pub(crate) fn find(told: Option<&Path>) -> anyhow::Result<Binaries> {
        let variable = std::env::var_os(FOLDER_VARIABLE).filter(|value| !value.is_empty());
        if let Some(folder) = told.map(Path::to_owned).or(variable.map(PathBuf::from)) {
            return Binaries::at(&folder).with_context(|| {
                format!("{} does not hold usable PostgreSQL server binaries", folder.display())
            });
        }
        let mut too_old = None;
        for folder in candidates() {
            match Binaries::at(&folder) {
                Ok(binaries) if binaries.major >= OLDEST_MAJOR => return Ok(binaries),
                Ok(binaries) => too_old = Some(binaries),
                Err(_) => {}
            }
        }
        let advice = format!(
            "install it (Debian, Ubuntu: `apt-get install postgresql`; Fedora: `dnf install \
             postgresql-server`), or name the folder of its binaries in {FOLDER_VARIABLE}, or set \
             DATABASE_URL to a running one"
        );
        match too_old {
            Some(old) => bail!(
                "the PostgreSQL server in {} has version {}; {OLDEST_MAJOR} or newer is needed: {advice}",
                old.folder.display(),
                old.major
            ),
            None => bail!("no PostgreSQL server is installed here: {advice}"),
        }
    }

    fn at(folder: &Path) -> anyhow::Result<Binaries> {
        for program in ["postgres", "initdb"] {
            if !folder.join(program).is_file() {
                bail!("there is no {program} in {}", folder.display());
            }
        }
        let output = Command::new(folder.join("postgres")).arg("--version").output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let major = major_of(&text).with_context(|| format!("postgres --version said {text:?}"))?;
        Ok(Binaries { folder: folder.to_owned(), major })
    }

    pub(crate) fn postgres(&self) -> PathBuf {
        self.folder.join("postgres")
    }

    pub(crate) fn initdb(&self) -> PathBuf {
        self.folder.join("initdb")
    }

    /// Whether the server can load a library, such as `pg_stat_statements`.
    pub(crate) fn has_library(&self, name: &str) -> bool {
        let file = format!("{name}.so");
        let beside = self.folder.join("../lib");
        [beside.join(&file), beside.join("postgresql").join(&file)]
            .iter()
            .any(|path| path.is_file())
    }

    /// The major version.
    pub(crate) fn major(&self) -> u32 {
        self.major
    }
}

/// Folders to look into, best first.
fn candidates() -> Vec<PathBuf> {
    let mut folders = Vec::new();
    if let Ok(output) = Command::new("pg_config").arg("--bindir").output() {
        folders.push(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()));
    }
    for parent in ["/usr/lib/postgresql", "/usr/local/pgsql", "/opt/homebrew/opt"] {
        let mut versions: Vec<(u32, PathBuf)> = std::fs::read_dir(parent)
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                let major = name.trim_start_matches("postgresql@").parse().ok()?;
                Some((major, entry.path().join("bin")))
            })
            .collect();
        versions.sort_by_key(|(major, _)| std::cmp::Reverse(*major));
        folders.extend(versions.into_iter().map(|(_, folder)| folder));
    }
    if let Some(path) = std::env::var_os("PATH") {
        folders.extend(std::env::split_paths(&path));
    }
    folders.extend(packaged());
    folders
}

/// Where `scripts/setup` unpacks a packaged server for users who may not install one.
fn packaged() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let cache = set("STOKEHOLD_CACHE").map(PathBuf::from).or_else(|| {
        let base = set("XDG_CACHE_HOME")
            .map(PathBuf::from)
            .or_else(|| Some(PathBuf::from(set("HOME")?).join(".cache")))?;
        Some(base.join("stokehold"))
    })?;
    Some(cache.join("toolchain/postgres/bin"))
}

/// The major version in `postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)`.
fn major_of(version_text: &str) -> Option<u32> {
    let (_, rest) = version_text.split_once("(PostgreSQL) ")?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_what_the_server_prints() {
        assert_eq!(major_of("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n"), Some(15));
        assert_eq!(major_of("postgres (PostgreSQL) 19beta1"), Some(19));
        assert_eq!(major_of("mysqld 8"), None);
    }

    #[test]
    fn a_folder_without_a_server_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let error = Binaries::find(Some(folder.path())).unwrap_err();
        assert!(format!("{error:#}").contains("there is no postgres in"), "{error:#}");
    }
}
