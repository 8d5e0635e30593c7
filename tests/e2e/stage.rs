//! What the tests stand on: a database each, processes that are gone when the test is, the guests.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use sqlx::postgres::PgRow;
use sqlx::{Connection, PgConnection};
use stokehold_domain::{Blob, Digest, JobId, Limits};
use stokehold_queue::{Database, DatabaseOptions, KindPolicy, NewJob, NewModule};
use tempfile::TempDir;

/// How long anything may take before a test gives up on it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);
/// The lease of the runners in these tests, in seconds: short, so that losing one is quick.
pub(crate) const LEASE_S: u64 = 3;

/// The small size of a long test, or its full size under `make soak`.
pub(crate) fn full_size(small: usize, full: usize) -> usize {
    if std::env::var_os("STOKEHOLD_SOAK").is_some() { full } else { small }
}

/// The binary under test.
pub(crate) fn binary() -> PathBuf {
    built("debug/stokehold")
}

/// A compiled guest.
pub(crate) fn guest(name: &str) -> PathBuf {
    built("guests").join(name)
}

fn built(path: &str) -> PathBuf {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(beside, PathBuf::from);
    let built = target.join(path);
    assert!(built.exists(), "{} is not built: run the tests by `make test`", built.display());
    built
}

/// The binary with its arguments, on a database and with a state folder of its own.
pub(crate) fn stokehold(state: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command
        .args(arguments)
        .env("STOKEHOLD_STATE_DIR", state)
        .env_remove("DATABASE_URL")
        .env_remove("STOKEHOLD_URL")
        .env_remove("STOKEHOLD_KEY")
        .stdin(Stdio::null());
    command
}

/// What a finished command said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Said {
            code: output.status.code().unwrap_or(-1),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }
}

/// A database of the test's own, with the schema in it.
pub(crate) struct Stage {
    pub(crate) url: String,
    pub(crate) database: Database,
    pub(crate) folder: TempDir,
}

impl Stage {
    /// A database with the schema, the kind `probe` and its handler.
    pub(crate) async fn set() -> Stage {
        let stage = Stage::bare().await;
        stage.push("probe", "probe.wasm", &Limits::DEFAULT).await;
        stage
    }

    /// A database with the schema and nothing else.
    pub(crate) async fn bare() -> Stage {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let server = std::env::var("STOKEHOLD_TEST_SERVER").expect(
            "STOKEHOLD_TEST_SERVER names no PostgreSQL server: run the tests by `make test`",
        );
        let name = format!("e2e_{}_{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        stokehold_queue::database::ensure_database(&server, &name).await.unwrap();
        let (path, options) = server.split_once('?').unwrap_or((&server, ""));
        let (base, _) = path.rsplit_once('/').unwrap();
        let url = format!("{base}/{name}?{options}");
        let database = Database::connect(DatabaseOptions::from_url(&url).unwrap()).await.unwrap();
        database.migrate().await.unwrap();
        Stage { url, database, folder: tempfile::tempdir().unwrap() }
    }

    /// Stores a guest and makes it the active release of a kind.
    pub(crate) async fn push(&self, kind: &str, file: &str, limits: &Limits) {
        self.database.put_kind(kind, &KindPolicy::default()).await.unwrap();
        let digest = self.store(file).await;
        self.database.create_release(kind, digest, limits, true).await.unwrap();
    }

    /// Stores a guest that no kind runs yet.
    pub(crate) async fn store(&self, file: &str) -> Digest {
        let bytes = std::fs::read(guest(file)).unwrap();
        let digest = Digest(Sha256::digest(&bytes).into());
        let module = NewModule { digest, bytes: &bytes, report: &json!({}) };
        self.database.put_module(module).await.unwrap();
        digest
    }

    /// Enqueues one job of the probe.
    pub(crate) async fn enqueue(&self, payload: &Value) -> JobId {
        self.enqueue_many("probe", std::slice::from_ref(payload)).await[0]
    }

    /// Enqueues jobs of a kind.
    pub(crate) async fn enqueue_many(&self, kind: &str, payloads: &[Value]) -> Vec<JobId> {
        let job = |payload: &Value| NewJob::new(kind, Blob::json(payload.to_string()));
        let jobs: Vec<NewJob> = payloads.iter().map(job).collect();
        self.database.enqueue(&jobs).await.unwrap()
    }

    /// Starts a runner with its lines of guest logs in a file of its own.
    pub(crate) fn runner(&self, name: &str, more: &[&str]) -> Process {
        let witness = self.witness(name);
        let lease = format!("{LEASE_S}s");
        let mut command = stokehold(self.folder.path(), &["runner", "--name", name]);
        command
            .args(["--database-url", &self.url, "--lease", &lease])
            .arg("--guest-log-file")
            .arg(&witness)
            .args(more);
        Process::start(command, &self.folder.path().join(format!("{name}.err")))
    }

    /// The file that the handlers of a runner write to, outside the system.
    pub(crate) fn witness(&self, runner: &str) -> PathBuf {
        self.folder.path().join(format!("{runner}.witness"))
    }

    /// Starts of each job in a runner's witness file.
    pub(crate) fn starts(&self, runner: &str) -> HashMap<i64, u32> {
        #[derive(Deserialize)]
        struct Line {
            job_id: JobId,
            message: String,
        }
        let text = std::fs::read_to_string(self.witness(runner)).unwrap_or_default();
        let mut starts = HashMap::new();
        // The last line of a killed runner may be cut short.
        for line in text.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok()) {
            if line.message == "start" {
                *starts.entry(line.job_id.0).or_default() += 1;
            }
        }
        starts
    }

    /// Waits until a runner's handlers have started so many jobs.
    pub(crate) async fn wait_for_starts(&self, runner: &str, wanted: usize) {
        let begun = Instant::now();
        while self.starts(runner).len() < wanted {
            assert!(
                begun.elapsed() < PATIENCE,
                "{} of {wanted} started",
                self.starts(runner).len()
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// What a runner wrote to stderr.
    pub(crate) fn log(&self, runner: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(format!("{runner}.err")))
            .unwrap_or_default()
    }

    /// Waits until a runner has written this to stderr.
    pub(crate) async fn wait_for_log(&self, runner: &str, text: &str) {
        let begun = Instant::now();
        while !self.log(runner).contains(text) {
            assert!(begun.elapsed() < PATIENCE, "no {text:?} in:\n{}", self.log(runner));
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// One row of a question to the database, on a connection that nobody else uses.
    pub(crate) async fn row(&self, sql: &'static str) -> PgRow {
        let mut connection = PgConnection::connect(&self.url).await.unwrap();
        sqlx::query(sql).fetch_one(&mut connection).await.unwrap()
    }

    /// A single number.
    pub(crate) async fn number(&self, sql: &'static str) -> i64 {
        sqlx::Row::get(&self.row(sql).await, 0)
    }

    /// Waits until the number is as wanted.
    pub(crate) async fn wait_for(
        &self,
        what: &str,
        sql: &'static str,
        wanted: impl Fn(i64) -> bool,
    ) {
        let begun = Instant::now();
        loop {
            let number = self.number(sql).await;
            if wanted(number) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{what} did not happen: the number is {number}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until no job lives.
    pub(crate) async fn wait_until_done(&self) {
        self.wait_for("the end of all jobs", "select count(*) from stokehold.jobs", |n| n == 0)
            .await;
    }
}

/// A process of ours that is killed when the test forgets it.
pub(crate) struct Process {
    child: Child,
}

impl Process {
    /// Starts it, with stderr in a file.
    pub(crate) fn start(mut command: Command, err: &Path) -> Process {
        let err = std::fs::File::create(err).unwrap();
        let child = command.stdout(Stdio::piped()).stderr(err).spawn().unwrap();
        Process { child }
    }

    pub(crate) fn pid(&self) -> i32 {
        self.child.id().try_into().unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid()), signal).unwrap();
    }

    /// The first line that it writes to stdout; for servers that announce themselves.
    pub(crate) fn first_line(&mut self) -> String {
        let stdout = self.child.stdout.as_mut().unwrap();
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        line
    }

    /// Waits for its end, within patience.
    pub(crate) async fn end(&mut self) -> i32 {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().unwrap_or(-1);
            }
            assert!(begun.elapsed() < PATIENCE, "process {} does not end", self.pid());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Already gone is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
