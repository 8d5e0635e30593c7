//! What this node knows of releases: their policy and limits, and the handler loaded from their
//! module.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use stokehold_domain::{FailureCode, HandBack, KindId, Outcome, Problem};
use stokehold_queue::{Database, RunnableRelease};
use stokehold_sandbox::{Handler, Refusal, Sandbox};

/// How long the policy of a kind may be out of date on a node.
const FRESH: Duration = Duration::from_secs(2);
/// Releases remembered; more are looked up again.
const MOST: usize = 10_000;

type Known = HashMap<(KindId, i32), (Arc<RunnableRelease>, Instant)>;

/// Looks releases up once and remembers them for a short time.
#[derive(Debug)]
pub(crate) struct Releases {
    database: Database,
    sandbox: Sandbox,
    known: Mutex<Known>,
}

impl Releases {
    pub(crate) fn new(database: Database, sandbox: Sandbox) -> Self {
        Releases { database, sandbox, known: Mutex::default() }
    }

    /// The release and its handler, or how the attempt ends without them.
    pub(crate) async fn handler(
        &self,
        kind: KindId,
        number: i32,
    ) -> Result<(Arc<RunnableRelease>, Handler), Outcome> {
        let release = self.release(kind, number).await?;
        if let Some(handler) = self.sandbox.cached(&release.digest) {
            return Ok((release, handler));
        }
        let digest = release.digest;
        let bytes = self
            .database
            .module_bytes(digest)
            .await
            .map_err(|error| {
                missing(format!("module {} could not be read: {error}", digest.short()))
            })?
            .ok_or_else(|| missing(format!("module {} is not in the database", digest.short())))?;
        let handler = self.sandbox.load(digest, &bytes).await.map_err(refused)?;
        Ok((release, handler))
    }

    async fn release(&self, kind: KindId, number: i32) -> Result<Arc<RunnableRelease>, Outcome> {
        if let Some((release, at)) = self.known().get(&(kind, number))
            && at.elapsed() < FRESH
        {
            return Ok(Arc::clone(release));
        }
        let release = self
            .database
            .runnable_release(kind, number)
            .await
            .map_err(|error| missing(format!("release {number} could not be read: {error}")))?
            .ok_or_else(|| missing(format!("release {number} is not in the database")))?;
        let release = Arc::new(release);
        let mut known = self.known();
        if known.len() >= MOST {
            known.clear();
        }
        known.insert((kind, number), (Arc::clone(&release), Instant::now()));
        Ok(release)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // The map is whole after any panic: each step moves one value.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn missing(message: String) -> Outcome {
    Outcome::HandedBack(HandBack::ArtifactMissing, Problem::new(message))
}

/// A module that was admitted once and is refused now: by this node's rules it cannot run.
fn refused(refusal: Refusal) -> Outcome {
    let code = match refusal.code() {
        "contract.import" => FailureCode::ContractImport,
        "contract.export" => FailureCode::ContractExport,
        _ => return missing(refusal.to_string()),
    };
    Outcome::Failed(code, Problem::new(refusal.to_string()))
}
