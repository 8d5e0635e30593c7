//! What this node knows of releases: their policy and limits, and the handler loaded from their
//! module.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stokehold_domain::{FailureCode, HandBack, KindId, Outcome, Problem};
use stokehold_queue::{Database, RunnableRelease};
use stokehold_sandbox::{Handler, Refusal, Sandbox};

/// Releases remembered; more are looked up again.
const MOST: usize = 10_000;

/// Looks releases up once and remembers them until something about kinds changes.
#[derive(Debug)]
pub(crate) struct Releases {
    database: Database,
    sandbox: Sandbox,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// The version of the kinds that these releases were read at, or an older one.
    kinds_version: i64,
    releases: HashMap<(KindId, i32), Arc<RunnableRelease>>,
}

impl Releases {
    pub(crate) fn new(database: Database, sandbox: Sandbox) -> Self {
        Releases { database, sandbox, known: Mutex::default() }
    }

    /// Forgets what was read before this version. A node learns it with its tick, so the policy of a
    /// kind is out of date by no more than that.
    pub(crate) fn kinds_are_at(&self, version: i64) {
        let mut known = self.known();
        if known.kinds_version != version {
            known.kinds_version = version;
            known.releases.clear();
        }
    }

    /// The release and its handler, if both are in memory.
    pub(crate) fn ready(
        &self,
        kind: KindId,
        number: i32,
    ) -> Option<(Arc<RunnableRelease>, Handler)> {
        let release = self.known().releases.get(&(kind, number)).cloned()?;
        let handler = self.sandbox.cached(&release.digest)?;
        Some((release, handler))
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
        let asked_at = {
            let known = self.known();
            if let Some(release) = known.releases.get(&(kind, number)) {
                return Ok(Arc::clone(release));
            }
            known.kinds_version
        };
        let release = self
            .database
            .runnable_release(kind, number)
            .await
            .map_err(|error| missing(format!("release {number} could not be read: {error}")))?
            .ok_or_else(|| missing(format!("release {number} is not in the database")))?;
        let release = Arc::new(release);
        let mut known = self.known();
        // What was read before a change is not remembered past it.
        if known.kinds_version == asked_at {
            if known.releases.len() >= MOST {
                known.releases.clear();
            }
            known.releases.insert((kind, number), Arc::clone(&release));
        }
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
