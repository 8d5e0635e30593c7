//! A server to talk to, and a runner that says what it is told to.

use std::str::FromStr;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Method, Request, header};
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor};
use stokehold_domain::{Blob, JobId, JobState, Next, Receipt, RunnerId};
use stokehold_queue::{
    ActiveLane, ClaimNumber, Claimed, Database, DatabaseOptions, Ended, Horizon,
};
use stokehold_queue::{LaneQuota, RunnerRegistration};
use stokehold_sandbox::{Sandbox, SandboxConfig};
use tokio::sync::OnceCell;
use tower::ServiceExt;

use crate::{ApiState, Code};

/// A program that does nothing.
pub(crate) const NOTHING: &str =
    r#"(module (memory (export "memory") 1) (func (export "_start")))"#;

/// The URL of the throw-away server.
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
            let name = format!("api_template_{}", std::process::id());
            on_server(format!("create database {name}")).await;
            let options = DatabaseOptions::new(server().database(&name));
            let database = Database::connect(options).await.unwrap();
            database.migrate().await.unwrap();
            database.close().await;
            name
        })
        .await
}

/// One for all tests: it holds no state that one test could see of another.
pub(crate) fn sandbox() -> Sandbox {
    static SANDBOX: LazyLock<Sandbox> = LazyLock::new(|| {
        let config = SandboxConfig {
            slots: 2,
            guest_threads: 1,
            compile_slots: 1,
            max_memory_bytes: 16 << 20,
            ..SandboxConfig::default()
        };
        Sandbox::start(config).unwrap()
    });
    SANDBOX.clone()
}

/// A server with a database of its own and a key.
pub(crate) struct Api {
    pub(crate) database: Database,
    pub(crate) state: ApiState,
    pub(crate) key: String,
    options: PgConnectOptions,
    router: Router,
}

impl Api {
    pub(crate) async fn start() -> Api {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let template = template().await;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("api_{}_{number}", std::process::id());
        on_server(format!("create database {name} template {template}")).await;
        let options = server().database(&name);
        let pool = DatabaseOptions { max_connections: 4, ..DatabaseOptions::new(options.clone()) };
        let database = Database::connect(pool).await.unwrap();
        let key = database.create_key("test").await.unwrap().text;
        let state = ApiState::new(database.clone(), sandbox());
        let router = crate::router(state.clone());
        Api { database, state, key, options, router }
    }

    /// Runs SQL that no call of the queue stands for.
    pub(crate) async fn sql(&self, sql: &'static str) {
        self.connection().await.execute(sql).await.unwrap();
    }

    /// A session of its own on the same database.
    pub(crate) async fn connection(&self) -> PgConnection {
        self.options.connect().await.unwrap()
    }

    /// Sends a request as it is.
    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        answer(self.router.clone(), request).await
    }

    /// Sends a request with the key.
    pub(crate) async fn call(
        &self,
        method: Method,
        path: &str,
        media_type: Option<&str>,
        body: impl Into<Body>,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        request = request.header(header::AUTHORIZATION, format!("Bearer {}", self.key));
        if let Some(media_type) = media_type {
            request = request.header(header::CONTENT_TYPE, media_type);
        }
        self.send(request.body(body.into()).unwrap()).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.call(Method::GET, path, None, Body::empty()).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.call(Method::POST, path, Some("application/json"), body.to_string()).await
    }

    pub(crate) async fn put(&self, path: &str, body: Value) -> Answer {
        self.call(Method::PUT, path, Some("application/json"), body.to_string()).await
    }

    /// Uploads a module given as text; returns its digest.
    pub(crate) async fn upload(&self, text: &str) -> String {
        let bytes = wat::parse_str(text).unwrap();
        let answer = self.call(Method::PUT, "/v1/modules", None, bytes).await;
        assert!(answer.status == 201 || answer.status == 200, "{}", answer.text());
        answer.json()["digest"].as_str().unwrap().to_owned()
    }

    /// Makes a kind with an active release.
    pub(crate) async fn kind(&self, name: &str) {
        self.put(&format!("/v1/kinds/{name}"), json!({})).await.is(201);
        let digest = self.upload(NOTHING).await;
        let release = json!({ "digest": digest });
        self.post(&format!("/v1/kinds/{name}/releases"), release).await.is(201);
    }

    /// Enqueues a job without input.
    pub(crate) async fn job(&self, kind: &str) -> JobId {
        let answer = self.post("/v1/jobs", json!({ "kind": kind })).await.is(201);
        answer["id"].as_str().unwrap().parse().unwrap()
    }

    /// Registers a runner.
    pub(crate) async fn runner(&self) -> Runner {
        let registration = RunnerRegistration {
            name: "test".to_owned(),
            version: "0".to_owned(),
            queues: None,
            slots: 10,
            lease: Duration::from_secs(600),
        };
        let id = self.database.register_runner(&registration).await.unwrap();
        Runner { database: self.database.clone(), id }
    }
}

/// Sends a request and reads the whole answer.
pub(crate) async fn answer(router: Router, request: Request<Body>) -> Answer {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let response = router.oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    let headers = response.headers().clone();
    let body = to_bytes(response.into_body(), usize::MAX).await.unwrap().to_vec();
    let answer = Answer { status, headers, body };
    answer.check(&method, &path);
    answer
}

/// An answer, read to its end.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// What holds for every answer.
    fn check(&self, method: &Method, path: &str) {
        assert_eq!(self.header("x-content-type-options"), "nosniff");
        assert_eq!(self.header("cache-control"), "no-store");
        assert!(!self.header("x-request-id").is_empty());
        if self.status < 400 || *method == Method::HEAD {
            return;
        }
        assert_eq!(self.header("content-type"), "application/problem+json", "{}", self.text());
        let problem = self.json();
        let code = Code::find(problem["code"].as_str().unwrap()).expect("the code is in the list");
        assert_eq!(problem["status"], self.status);
        assert_eq!(problem["title"], code.title());
        assert_eq!(problem["type"], code.type_uri());
        assert_eq!(problem["instance"], self.header("x-request-id"));
        super::description::assert_documented(method, path, code);
    }

    /// The body of an answer with this status.
    #[track_caller]
    pub(crate) fn is(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        self.json()
    }

    /// The body of a problem with this status and code.
    #[track_caller]
    pub(crate) fn is_problem(&self, status: u16, code: &str) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        assert_eq!(self.json()["code"], code, "{}", self.text());
        self.json()
    }

    /// Where in the body a problem with this status and code says that it lies.
    #[track_caller]
    pub(crate) fn points_at(&self, status: u16, code: &str, pointer: &str) {
        let problem = self.is_problem(status, code);
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{}", self.text());
    }

    /// Which parameter a problem says is wrong.
    #[track_caller]
    pub(crate) fn names_parameter(&self, parameter: &str) {
        let problem = self.is_problem(400, "request.parameter");
        assert_eq!(problem["errors"][0]["parameter"], parameter, "{}", self.text());
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("not JSON: {}", self.text()))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// A runner that runs nothing and ends jobs as it is told.
pub(crate) struct Runner {
    database: Database,
    pub(crate) id: RunnerId,
}

impl Runner {
    /// Claims at most this many jobs of every lane.
    pub(crate) async fn claim(&self, most: i32) -> Vec<Claimed> {
        let tick = self.database.tick(&mut Horizon::default(), None).await.unwrap();
        let lane = |active: &ActiveLane| LaneQuota {
            kind_id: active.lane.kind_id,
            priority: active.lane.priority,
            after_position: 0,
            quota: most,
        };
        let lanes: Vec<LaneQuota> = tick.lanes.iter().map(lane).collect();
        static LAST: AtomicI64 = AtomicI64::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        let claim = ClaimNumber { number, answered: Vec::new() };
        self.database.claim(self.id, &claim, &lanes).await.unwrap()
    }

    /// Ends a claimed job well.
    pub(crate) async fn complete(&self, job: &Claimed, result: Option<Blob>) {
        let next = Next::Finish(JobState::Completed);
        self.settle(Ended { result, ..ended(job, "ok", next) }).await;
    }

    /// Writes what an attempt came to.
    pub(crate) async fn settle(&self, ended: Ended) {
        let fates = self.database.settle(self.id, &[ended]).await.unwrap();
        assert_eq!(fates, [stokehold_queue::Fate::Applied]);
    }
}

/// An attempt that came to this.
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
