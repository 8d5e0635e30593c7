//! A database for each test, and the few steps that most tests begin with.

use std::str::FromStr;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor};
use stokehold_domain::{Blob, ClaimToken, Digest, JobId, JobState, KindId, Limits, Next};
use stokehold_domain::{Problem, Receipt, RunnerId};
use stokehold_queue::{
    ClaimNumber, Claimed, Database, DatabaseOptions, Ended, Fate, Horizon, LaneQuota, NewJob,
    NewModule, QueueError, RefusalCode, RunnerRegistration,
};
use tokio::sync::OnceCell;

/// The lease of runners here: none expires unless a test says so.
pub(crate) const LEASE: Duration = Duration::from_secs(600);
/// How long anything may take that is waited for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

fn server() -> PgConnectOptions {
    let url = std::env::var("STOKEHOLD_TEST_SERVER").unwrap_or_else(|_| {
        panic!(
            "set STOKEHOLD_TEST_SERVER to the URL of a throw-away PostgreSQL server whose user may \
             create databases"
        )
    });
    PgConnectOptions::from_str(&url).expect("STOKEHOLD_TEST_SERVER is a PostgreSQL URL")
}

async fn on_server(sql: String) {
    let mut connection: PgConnection = server().connect().await.unwrap();
    connection.execute(AssertSqlSafe(sql)).await.unwrap();
    connection.close().await.unwrap();
}

/// A migrated database that is cloned for each test.
async fn template() -> &'static str {
    static TEMPLATE: OnceCell<String> = OnceCell::const_new();
    TEMPLATE
        .get_or_init(|| async {
            let name = format!("queue_template_{}", std::process::id());
            on_server(format!("create database {name}")).await;
            let options = DatabaseOptions::new(server().database(&name));
            let database = Database::connect(options).await.unwrap();
            database.migrate().await.unwrap();
            database.close().await;
            name
        })
        .await
}

fn fresh_name() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    format!("queue_{}_{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// The queue of one test, and a way past it.
pub(crate) struct Queue {
    /// What is tested.
    pub(crate) database: Database,
    /// Plain connections to the same database.
    pub(crate) pool: PgPool,
    /// Where it is.
    pub(crate) options: PgConnectOptions,
}

impl Queue {
    /// A database with the schema and nothing in it.
    pub(crate) async fn new() -> Queue {
        let (name, template) = (fresh_name(), template().await);
        on_server(format!("create database {name} template {template}")).await;
        Self::named(&name).await
    }

    /// A database without a schema.
    pub(crate) async fn without_schema() -> Queue {
        let name = fresh_name();
        on_server(format!("create database {name}")).await;
        Self::named(&name).await
    }

    async fn named(name: &str) -> Queue {
        let options = server().database(name);
        let database = Database::connect(DatabaseOptions::new(options.clone())).await.unwrap();
        let pool = PgPoolOptions::new().max_connections(10).connect_lazy_with(options.clone());
        Queue { database, pool, options }
    }

    /// Runs SQL that no call of the queue stands for; returns the number of rows it touched.
    pub(crate) async fn run(&self, sql: impl Into<String>) -> u64 {
        let sql = sql.into();
        let done = self.pool.execute(AssertSqlSafe(sql.clone())).await;
        done.unwrap_or_else(|error| panic!("{sql}: {error}")).rows_affected()
    }

    /// Runs SQL that the database shall refuse; returns the code and the text of the refusal.
    pub(crate) async fn refused(&self, sql: impl Into<String>) -> (String, String) {
        let sql = sql.into();
        match self.pool.execute(AssertSqlSafe(sql.clone())).await {
            Ok(_) => panic!("{sql}: was accepted"),
            Err(sqlx::Error::Database(error)) => {
                (error.code().unwrap_or_default().into_owned(), error.message().to_owned())
            }
            Err(error) => panic!("{sql}: {error}"),
        }
    }

    /// The one value that the SQL selects.
    pub(crate) async fn value<T>(&self, sql: impl Into<String>) -> T
    where
        T: Send + Unpin + for<'r> sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
    {
        let sql = sql.into();
        let value = sqlx::query_scalar(AssertSqlSafe(sql.clone())).fetch_one(&self.pool).await;
        value.unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// The rows that the SQL selects, each as an object.
    pub(crate) async fn rows(&self, sql: &str) -> Vec<Value> {
        let sql = format!("select to_jsonb(selected) from ({sql}) selected");
        let rows = sqlx::query_scalar(AssertSqlSafe(sql.clone())).fetch_all(&self.pool).await;
        rows.unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// Every row of every table about jobs, to compare before and after.
    pub(crate) async fn everything(&self) -> Vec<Value> {
        self.rows(
            "select to_jsonb(j) as row from stokehold.jobs j
             union all select to_jsonb(r) from stokehold.ready r
             union all select to_jsonb(h) from stokehold.job_history h
             union all select to_jsonb(a) from stokehold.job_attempts a
             union all select to_jsonb(l) from stokehold.job_logs l
             order by 1",
        )
        .await
    }

    /// The live row of a job.
    pub(crate) async fn live(&self, id: JobId) -> Option<Value> {
        self.rows(&format!("select * from stokehold.live_jobs where id = {id}")).await.pop()
    }

    /// The ended row of a job; there is at most one.
    pub(crate) async fn ended(&self, id: JobId) -> Option<Value> {
        let mut rows =
            self.rows(&format!("select * from stokehold.job_history where id = {id}")).await;
        assert!(rows.len() <= 1, "job {id} has {} outcomes", rows.len());
        rows.pop()
    }

    /// Where the job is in its life.
    pub(crate) async fn state(&self, id: JobId) -> JobState {
        self.database.job(id).await.unwrap().unwrap().summary.state
    }

    /// How many jobs live.
    pub(crate) async fn live_jobs(&self) -> i64 {
        self.value("select count(*) from stokehold.jobs").await
    }

    /// Waits until the SQL selects true.
    pub(crate) async fn until(&self, sql: impl Into<String>) {
        let sql = sql.into();
        let wait = async {
            while !self.value::<bool>(sql.clone()).await {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("never: {sql}"));
    }

    /// Waits until this many sessions wait for a lock.
    pub(crate) async fn until_blocked(&self, sessions: i64) {
        self.until(format!(
            "select count(*) = {sessions} from pg_stat_activity
             where datname = current_database() and wait_event_type = 'Lock'"
        ))
        .await;
    }

    /// The same database by another pool.
    pub(crate) fn pool_of(&self, max_connections: u32, call_deadline: Duration) -> Database {
        let options = DatabaseOptions::new(self.options.clone());
        Database::lazy(DatabaseOptions { max_connections, call_deadline, ..options })
    }

    /// A kind with an active release.
    pub(crate) async fn kind(&self, name: &str) -> KindId {
        let kind = self.database.ensure_kind(name).await.unwrap();
        let digest = self.module(1).await;
        self.database.create_release(name, digest, &Limits::DEFAULT, true).await.unwrap();
        kind.id
    }

    /// A stored module of one byte.
    pub(crate) async fn module(&self, byte: u8) -> Digest {
        let digest = Digest([byte; 32]);
        let module = NewModule { digest, bytes: &[byte], report: &json!({}) };
        self.database.put_module(module).await.unwrap();
        digest
    }

    /// Enqueues jobs without input.
    pub(crate) async fn jobs(&self, kind: &str, count: usize) -> Vec<JobId> {
        self.database.enqueue(&vec![job(kind); count]).await.unwrap()
    }

    /// Enqueues one job without input.
    pub(crate) async fn job(&self, kind: &str) -> JobId {
        self.jobs(kind, 1).await[0]
    }

    /// A live runner.
    pub(crate) async fn runner(&self) -> RunnerId {
        self.database.register_runner(&registration(LEASE)).await.unwrap()
    }

    /// Lets the runner's lease be over since this many seconds.
    pub(crate) async fn expire(&self, runner: RunnerId, seconds: f64) {
        let expired = self
            .run(format!(
                "update stokehold.runners
                 set lease_expires_at = clock_timestamp() - {seconds} * interval '1 second'
                 where id = {runner}"
            ))
            .await;
        assert_eq!(expired, 1);
    }

    /// Claims at most this many jobs of a kind, in order of position.
    pub(crate) async fn claim(&self, runner: RunnerId, kind: KindId, most: i32) -> Vec<Claimed> {
        let mut claimed =
            self.database.claim(runner, &next_claim(), &[lane(kind, most)]).await.unwrap();
        claimed.sort_by_key(|job| job.position);
        claimed
    }

    /// Claims the one job of a kind that is available.
    pub(crate) async fn claim_one(&self, runner: RunnerId, kind: KindId) -> Claimed {
        let mut claimed = self.claim(runner, kind, 2).await;
        assert_eq!(claimed.len(), 1);
        claimed.pop().unwrap()
    }

    /// Makes waiting jobs due and releases them.
    pub(crate) async fn release_due(&self) {
        self.run("update stokehold.jobs set run_at = clock_timestamp() where state in ('scheduled', 'retryable')")
            .await;
        self.database.tick(&mut Horizon::default(), None).await.unwrap();
    }

    /// What became of one outcome.
    pub(crate) async fn settle(&self, runner: RunnerId, ended: Ended) -> Fate {
        self.database.settle(runner, &[ended]).await.unwrap()[0]
    }
}

/// The next claim of whoever asks: numbers only have to differ for one runner.
pub(crate) fn next_claim() -> ClaimNumber {
    static LAST: AtomicI64 = AtomicI64::new(0);
    ClaimNumber { number: LAST.fetch_add(1, Ordering::Relaxed) + 1, answered: Vec::new() }
}

/// A job without input.
pub(crate) fn job(kind: &str) -> NewJob {
    NewJob::new(kind, Blob::json("{}"))
}

/// The lane of a kind at priority 0, from its start.
pub(crate) fn lane(kind_id: KindId, quota: i32) -> LaneQuota {
    LaneQuota { kind_id, priority: 0, after_position: 0, quota }
}

/// A runner that serves every queue.
pub(crate) fn registration(lease: Duration) -> RunnerRegistration {
    let (name, version) = ("test".to_owned(), "0".to_owned());
    RunnerRegistration { name, version, queues: None, slots: 10, lease }
}

/// A started attempt that came to this.
pub(crate) fn ended(job: &Claimed, code: &'static str, next: Next) -> Ended {
    Ended {
        job_id: job.id,
        token: job.token,
        claim: job.claim,
        attempt: job.attempt,
        release: Some(job.release),
        code,
        next,
        result: None,
        problem: None,
        receipt: Some(Receipt { fuel: 1, wall_us: 2, peak_memory_bytes: 3, host_calls: 4 }),
        log: Vec::new(),
    }
}

/// A success.
pub(crate) fn completed(job: &Claimed) -> Ended {
    ended(job, "ok", Next::Finish(JobState::Completed))
}

/// A failure that is tried again after this.
pub(crate) fn retried(job: &Claimed, delay: Duration) -> Ended {
    let problem = Some(Problem::new("it broke"));
    Ended { problem, ..ended(job, "handler.retry", Next::Retry(delay)) }
}

/// A job that is given back before its handler was started.
pub(crate) fn handed_back(job: &Claimed) -> Ended {
    let next = Next::HandBack(Duration::ZERO);
    Ended { receipt: None, ..ended(job, "node.draining", next) }
}

/// The same outcome under another claim.
pub(crate) fn under(ended: Ended, token: i64) -> Ended {
    Ended { token: ClaimToken(token), ..ended }
}

/// What a refused call said.
#[track_caller]
pub(crate) fn refusal<T: std::fmt::Debug>(result: Result<T, QueueError>) -> (RefusalCode, String) {
    match result {
        Err(QueueError::Refused { code, message, .. }) => (code, message),
        other => panic!("not refused: {other:?}"),
    }
}
