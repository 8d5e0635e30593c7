//! The server: what its handlers share, the router they hang on, and its life from listening to the
//! end of its last request.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::{Router, middleware};
use stokehold_queue::Database;
use stokehold_sandbox::Sandbox;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;
use tower_http::catch_panic::CatchPanicLayer;

use crate::gather::Gatherer;
use crate::kind_names::KindNames;
use crate::problem::ApiError;
use crate::{openapi, rim, routes};

/// Requests handled at once; one more is told to come again.
pub const MAX_REQUESTS: usize = 1_024;
/// Uploads and batches held in memory at once; one more waits.
pub const MAX_LARGE_BODIES: usize = 4;
/// How long requests may go on after the order to stop.
pub const STOP_LIMIT: Duration = Duration::from_secs(10);

/// What the handlers share. Cheap to clone.
#[derive(Clone)]
pub struct ApiState {
    /// Where everything is.
    pub database: Database,
    /// What looks at uploads and compiles them.
    pub sandbox: Sandbox,
    pub(crate) gatherer: Gatherer,
    pub(crate) kind_names: Arc<KindNames>,
    pub(crate) requests: Arc<Semaphore>,
    pub(crate) large_bodies: Arc<Semaphore>,
    pub(crate) stopping: CancellationToken,
}

impl ApiState {
    /// A server's state on this database and sandbox.
    ///
    /// # Panics
    /// Outside of a tokio runtime, on which it gathers jobs.
    pub fn new(database: Database, sandbox: Sandbox) -> Self {
        ApiState {
            gatherer: Gatherer::start(database.clone()),
            database,
            sandbox,
            kind_names: Arc::default(),
            requests: Arc::new(Semaphore::new(MAX_REQUESTS)),
            large_bodies: Arc::new(Semaphore::new(MAX_LARGE_BODIES)),
            stopping: CancellationToken::new(),
        }
    }

    /// A place for a body that takes much memory.
    pub(crate) async fn large_body_place(&self) -> Result<SemaphorePermit<'_>, ApiError> {
        let closed = |_| ApiError::internal("the semaphore of large bodies is closed");
        self.large_bodies.acquire().await.map_err(closed)
    }
}

/// Every route, behind the rim.
pub fn router(state: ApiState) -> Router {
    around(routes::router(&state).merge(openapi::route()), state)
}

/// Hangs the rim around routes.
pub(crate) fn around(routes: Router<ApiState>, state: ApiState) -> Router {
    routes
        // Also around what no route takes.
        .fallback(|| async { axum::http::StatusCode::NOT_FOUND })
        .layer(CatchPanicLayer::custom(rim::panicked))
        .layer(middleware::from_fn_with_state(state.clone(), rim::rim))
        .with_state(state)
}

/// Serves until `shutdown` is ready, then lets requests end: those that wait for a job answer at
/// once with what there is, the others have [`STOP_LIMIT`].
pub async fn serve(
    listener: TcpListener,
    state: ApiState,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let stopping = state.stopping.clone();
    let stop = {
        let stopping = stopping.clone();
        async move {
            shutdown.await;
            stopping.cancel();
        }
    };
    let server = axum::serve(listener, router(state)).with_graceful_shutdown(stop).into_future();
    let limit = async {
        stopping.cancelled().await;
        tokio::time::sleep(STOP_LIMIT).await;
    };
    tokio::select! {
        ended = server => ended,
        () = limit => {
            tracing::warn!(
                limit.seconds = STOP_LIMIT.as_secs(),
                "requests were cut off: they went on for longer than the stop limit"
            );
            Ok(())
        }
    }
}
