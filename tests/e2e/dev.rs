//! `stokehold dev`: its own database, its stops, and what it refuses.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde::Deserialize;
use sqlx::Connection;

use crate::stage::{PATIENCE, Process, Said, guest, stokehold};

/// What `dev --json` says when it is up.
#[derive(Deserialize)]
pub(crate) struct Up {
    pub(crate) url: String,
    pub(crate) key: String,
    pub(crate) database_url: String,
}

/// A folder that the server's user can reach even when we are root.
pub(crate) struct Home(tempfile::TempDir);

impl Home {
    pub(crate) fn make() -> Home {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
        Home(folder)
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.0.path().join("data")
    }

    pub(crate) fn start(&self) -> (Process, Up) {
        let data = self.data();
        let command = stokehold(
            self.0.path(),
            &["dev", "--json", "--listen", "127.0.0.1:0", "--data-dir", data.to_str().unwrap()],
        );
        let mut process = Process::start(command, &self.0.path().join("dev.err"));
        let line = process.first_line();
        let up = serde_json::from_str(&line).unwrap_or_else(|error| {
            panic!(
                "{error}: {line:?}\n{}",
                std::fs::read_to_string(self.0.path().join("dev.err")).unwrap()
            )
        });
        (process, up)
    }

    fn run(&self, arguments: &[&str]) -> Said {
        stokehold(self.0.path(), arguments).output().unwrap().into()
    }
}

/// Processes that have the folder in their command line.
fn servers_on(folder: &Path) -> Vec<String> {
    let folder = folder.to_str().unwrap();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(line) = std::fs::read(entry.path().join("cmdline")) else { continue };
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if line.contains(folder) && line.contains("postgres") {
            found.push(line);
        }
    }
    found
}

async fn wait_until_gone(folder: &Path) {
    let begun = Instant::now();
    while !servers_on(folder).is_empty() {
        assert!(begun.elapsed() < PATIENCE, "still there: {:?}", servers_on(folder));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_dev_leaves_no_orphan_and_the_next_start_finds_everything() {
    let home = Home::make();
    let (dev, up) = home.start();
    let probe = guest("probe.wasm");
    let pushed = home.run(&["push", probe.to_str().unwrap(), "--kind", "probe"]);
    assert_eq!(pushed.code, 0, "{}", pushed.err);
    let done =
        home.run(&["enqueue", "probe", "--payload", r#"{"do":"ok","value":"kept"}"#, "--wait"]);
    assert_eq!((done.code, done.out.trim()), (0, "\"kept\""), "{}", done.err);

    dev.signal(Signal::SIGKILL);
    wait_until_gone(&home.data().join("data")).await;
    let (mut dev, again) = home.start();
    assert_eq!(again.key, up.key, "the key stays the same");
    let job = home.run(&["job", "get", "1", "--json"]);
    assert!(job.out.contains("completed"), "{}{}", job.out, job.err);

    dev.signal(Signal::SIGINT);
    assert_eq!(dev.end().await, 0);
    assert_eq!(servers_on(&home.data().join("data")), [""; 0], "Ctrl-C stops the server too");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_dev_commits_is_durable() {
    let home = Home::make();
    let (_dev, up) = home.start();
    let mut connection = sqlx::PgConnection::connect(&up.database_url).await.unwrap();
    for (setting, wanted) in [
        ("fsync", "on"),
        ("synchronous_commit", "on"),
        ("full_page_writes", "on"),
        ("listen_addresses", ""),
    ] {
        let found: String = sqlx::query_scalar("select current_setting($1)")
            .bind(setting)
            .fetch_one(&mut connection)
            .await
            .unwrap();
        assert_eq!(found, wanted, "{setting}");
    }
    assert!(up.url.starts_with("http://127.0.0.1:"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_start_on_the_same_folder_is_refused_in_words() {
    let home = Home::make();
    let (_dev, _up) = home.start();
    let data = home.data();
    let arguments = ["dev", "--listen", "127.0.0.1:0", "--data-dir", data.to_str().unwrap()];
    let second = home.run(&arguments);
    assert_eq!(second.code, 1);
    assert!(second.err.contains("another stokehold (process"), "{}", second.err);
    assert!(second.err.contains("--data-dir"), "{}", second.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_in_use_is_named_and_nothing_is_left_behind() {
    let home = Home::make();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let data = home.data();
    let refused = home.run(&["dev", "--listen", &address, "--data-dir", data.to_str().unwrap()]);
    assert_eq!(refused.code, 1);
    assert!(refused.err.contains(&address) && refused.err.contains("--listen"), "{}", refused.err);
    assert!(!data.exists(), "nothing half-done remains");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_of_another_postgresql_version_is_refused_untouched() {
    let home = Home::make();
    let cluster = home.data().join("data");
    std::fs::create_dir_all(&cluster).unwrap();
    std::fs::write(cluster.join("PG_VERSION"), "9\n").unwrap();
    let data = home.data();
    let refused =
        home.run(&["dev", "--listen", "127.0.0.1:0", "--data-dir", data.to_str().unwrap()]);
    assert_eq!(refused.code, 1);
    assert!(refused.err.contains("was made by PostgreSQL 9"), "{}", refused.err);
    assert_eq!(std::fs::read_to_string(cluster.join("PG_VERSION")).unwrap(), "9\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_throw_away_start_throws_everything_away() {
    let home = Home::make();
    let command =
        stokehold(home.0.path(), &["dev", "--json", "--listen", "127.0.0.1:0", "--ephemeral"]);
    let mut dev = Process::start(command, &home.0.path().join("dev.err"));
    let up: Up = serde_json::from_str(&dev.first_line()).unwrap();
    let folder = up.database_url.split_once("host=").unwrap().1.trim_end_matches("/run").to_owned();
    assert!(Path::new(&folder).exists());
    dev.signal(Signal::SIGTERM);
    assert_eq!(dev.end().await, 0);
    assert!(!Path::new(&folder).exists());
}
