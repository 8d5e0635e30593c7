//! The routes, one method each.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use reqwest::{Method, header};
use serde::Serialize;
use stokehold_api::wire::{
    Activation, Attempt, BackfillRequest, CancelMany, CancelRequest, Cancelled, CreatedKey,
    Drained, Enqueued, EnqueuedBatch, FireInfo, Job, JobBatch, JobChange, JobPage, KindChange,
    KindInfo, List, LogLine, ManyDone, ModuleInfo, NewJob, NewKey, NewRelease, PauseInfo,
    PauseRequest, PruneRequest, Pruned, ReleaseInfo, ResumeRequest, Resumed, RetryMany,
    RetryRequest, RunnerInfo, ScheduleInfo, ScheduleRequest, UploadedModule,
};
use stokehold_domain::{JobId, JobState};

use super::{Client, ClientError};

/// An upload is compiled before it is answered.
const UPLOAD_LIMIT: Duration = Duration::from_secs(300);
/// Ten thousand jobs are one transaction.
const BATCH_LIMIT: Duration = Duration::from_secs(120);
/// What a long poll may take beyond the time it asks for.
const POLL_SLACK: Duration = Duration::from_secs(15);

/// Which jobs to list.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct JobQuery {
    /// Only of this kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kind: Option<String>,
    /// Only in one of these states, separated by commas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) state: Option<String>,
    /// Only with this tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tag: Option<String>,
    /// Only with these pairs as metadata, in the form of parameters.
    #[serde(flatten)]
    pub(crate) metadata: BTreeMap<String, String>,
    /// Jobs on one page.
    pub(crate) limit: usize,
    /// Where the last page ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cursor: Option<String>,
}

impl JobQuery {
    /// A query for jobs in any of the states; any state at all when there is none.
    pub(crate) fn new(kind: Option<String>, states: &[JobState]) -> Self {
        let words: Vec<&str> = states.iter().map(|state| state.as_str()).collect();
        let state = (!words.is_empty()).then(|| words.join(","));
        JobQuery { kind, state, ..JobQuery::default() }
    }
}

impl Client {
    /// Stores a module; the answer carries the admission report.
    pub(crate) async fn upload_module(&self, bytes: Bytes) -> Result<UploadedModule, ClientError> {
        let mut call = self.call(Method::PUT, &["modules"]).limit(UPLOAD_LIMIT);
        call.request = call.request.header(header::CONTENT_TYPE, "application/wasm").body(bytes);
        self.read(call).await
    }

    /// All modules, newest first.
    pub(crate) async fn modules(&self) -> Result<List<ModuleInfo>, ClientError> {
        self.read(self.call(Method::GET, &["modules"])).await
    }

    /// Deletes modules that no release uses, or says which those are.
    pub(crate) async fn prune_modules(&self, wish: &PruneRequest) -> Result<Pruned, ClientError> {
        self.read(self.call(Method::POST, &["modules", "prune"]).json(wish)).await
    }

    /// All kinds by name.
    pub(crate) async fn kinds(&self) -> Result<List<KindInfo>, ClientError> {
        self.read(self.call(Method::GET, &["kinds"])).await
    }

    /// One kind.
    pub(crate) async fn kind(&self, name: &str) -> Result<KindInfo, ClientError> {
        self.read(self.call(Method::GET, &["kinds", name])).await
    }

    /// Makes the kind when it is absent and changes what is given.
    pub(crate) async fn put_kind(
        &self,
        name: &str,
        change: &KindChange,
    ) -> Result<KindInfo, ClientError> {
        self.read(self.call(Method::PUT, &["kinds", name]).json(change)).await
    }

    /// The releases of a kind, newest first.
    pub(crate) async fn releases(&self, kind: &str) -> Result<List<ReleaseInfo>, ClientError> {
        self.read(self.call(Method::GET, &["kinds", kind, "releases"])).await
    }

    /// Makes the next release of a kind.
    pub(crate) async fn create_release(
        &self,
        kind: &str,
        release: &NewRelease,
    ) -> Result<ReleaseInfo, ClientError> {
        self.read(self.call(Method::POST, &["kinds", kind, "releases"]).json(release)).await
    }

    /// Points the kind at another release.
    pub(crate) async fn activate(&self, kind: &str, release: i32) -> Result<KindInfo, ClientError> {
        let call = self.call(Method::POST, &["kinds", kind, "activate"]);
        self.read(call.json(&Activation { release })).await
    }

    /// Makes one job; under a key, if there is one, once however often it is asked for.
    pub(crate) async fn enqueue(
        &self,
        job: &NewJob,
        key: Option<&str>,
    ) -> Result<Enqueued, ClientError> {
        let mut call = self.call(Method::POST, &["jobs"]).json(job);
        if let Some(key) = key {
            call.request = call.request.header("idempotency-key", key);
        }
        self.read(call).await
    }

    /// Makes all jobs or none.
    pub(crate) async fn enqueue_batch(
        &self,
        batch: &JobBatch,
    ) -> Result<EnqueuedBatch, ClientError> {
        let call = self.call(Method::POST, &["jobs", "batch"]).limit(BATCH_LIMIT);
        self.read(call.json(batch)).await
    }

    /// One page of jobs, newest first.
    pub(crate) async fn jobs(&self, query: &JobQuery) -> Result<JobPage, ClientError> {
        self.read(self.call(Method::GET, &["jobs"]).query(query)).await
    }

    /// One job.
    pub(crate) async fn job(&self, id: JobId) -> Result<Job, ClientError> {
        self.read(self.call(Method::GET, &["jobs", &id.to_string()])).await
    }

    /// One job, answered when it has ended or after `wait`, whichever comes first.
    pub(crate) async fn await_job(&self, id: JobId, wait: Duration) -> Result<Job, ClientError> {
        let call = self.call(Method::GET, &["jobs", &id.to_string()]);
        self.read(call.query(&[("wait", wait.as_secs())]).limit(wait + POLL_SLACK)).await
    }

    /// The attempts of a job, in order.
    pub(crate) async fn attempts(&self, id: JobId) -> Result<List<Attempt>, ClientError> {
        self.read(self.call(Method::GET, &["jobs", &id.to_string(), "attempts"])).await
    }

    /// What a job's handler logged, in order; the last `lines` of it.
    pub(crate) async fn logs(&self, id: JobId, lines: u32) -> Result<List<LogLine>, ClientError> {
        let call = self.call(Method::GET, &["jobs", &id.to_string(), "logs"]);
        self.read(call.query(&[("limit", lines)])).await
    }

    /// The bytes of a job's result.
    pub(crate) async fn result(&self, id: JobId) -> Result<Bytes, ClientError> {
        let call = self.call(Method::GET, &["jobs", &id.to_string(), "result"]);
        let limit = call.limit;
        let response = self.send(call).await?;
        response.bytes().await.map_err(|source| self.unanswered(source, limit))
    }

    /// Cancels a job that waits.
    pub(crate) async fn cancel(
        &self,
        id: JobId,
        reason: Option<String>,
    ) -> Result<Cancelled, ClientError> {
        let call = self.call(Method::POST, &["jobs", &id.to_string(), "cancel"]);
        self.read(call.json(&CancelRequest { reason })).await
    }

    /// Changes a job that waits.
    pub(crate) async fn change(&self, id: JobId, change: &JobChange) -> Result<Job, ClientError> {
        self.read(self.call(Method::PATCH, &["jobs", &id.to_string()]).json(change)).await
    }

    /// Runs an ended job again.
    pub(crate) async fn retry(
        &self,
        id: JobId,
        wish: &RetryRequest,
    ) -> Result<Enqueued, ClientError> {
        self.read(self.call(Method::POST, &["jobs", &id.to_string(), "retry"]).json(wish)).await
    }

    /// Runs ended jobs again, or counts them.
    pub(crate) async fn retry_many(&self, wish: &RetryMany) -> Result<ManyDone, ClientError> {
        let call = self.call(Method::POST, &["jobs", "retry"]).limit(BATCH_LIMIT);
        self.read(call.json(wish)).await
    }

    /// Cancels jobs, or counts them.
    pub(crate) async fn cancel_many(&self, wish: &CancelMany) -> Result<ManyDone, ClientError> {
        let call = self.call(Method::POST, &["jobs", "cancel"]).limit(BATCH_LIMIT);
        self.read(call.json(wish)).await
    }

    /// What is paused.
    pub(crate) async fn pauses(&self) -> Result<List<PauseInfo>, ClientError> {
        self.read(self.call(Method::GET, &["pauses"])).await
    }

    /// Pauses, and says what is paused then.
    pub(crate) async fn pause(&self, wish: &PauseRequest) -> Result<List<PauseInfo>, ClientError> {
        self.read(self.call(Method::POST, &["pause"]).json(wish)).await
    }

    /// Resumes.
    pub(crate) async fn resume(&self, wish: &ResumeRequest) -> Result<Resumed, ClientError> {
        self.read(self.call(Method::POST, &["resume"]).json(wish)).await
    }

    /// All schedules.
    pub(crate) async fn schedules(&self) -> Result<List<ScheduleInfo>, ClientError> {
        self.read(self.call(Method::GET, &["schedules"])).await
    }

    /// One schedule with its fires.
    pub(crate) async fn schedule(&self, name: &str) -> Result<ScheduleInfo, ClientError> {
        self.read(self.call(Method::GET, &["schedules", name])).await
    }

    /// Makes a schedule or changes it.
    pub(crate) async fn put_schedule(
        &self,
        name: &str,
        wish: &ScheduleRequest,
    ) -> Result<ScheduleInfo, ClientError> {
        self.read(self.call(Method::PUT, &["schedules", name]).json(wish)).await
    }

    /// Pauses or resumes a schedule, as the word says.
    pub(crate) async fn turn_schedule(
        &self,
        name: &str,
        word: &str,
    ) -> Result<ScheduleInfo, ClientError> {
        self.read(self.call(Method::POST, &["schedules", name, word])).await
    }

    /// Makes a job of a schedule now.
    pub(crate) async fn run_schedule(&self, name: &str) -> Result<FireInfo, ClientError> {
        self.read(self.call(Method::POST, &["schedules", name, "run"])).await
    }

    /// Fires times that are past, or says which it would.
    pub(crate) async fn backfill(
        &self,
        name: &str,
        wish: &BackfillRequest,
    ) -> Result<List<FireInfo>, ClientError> {
        let call = self.call(Method::POST, &["schedules", name, "backfill"]).limit(BATCH_LIMIT);
        self.read(call.json(wish)).await
    }

    /// Deletes a schedule.
    pub(crate) async fn delete_schedule(&self, name: &str) -> Result<(), ClientError> {
        self.send(self.call(Method::DELETE, &["schedules", name])).await.map(drop)
    }

    /// Runners that live or ended lately.
    pub(crate) async fn runners(&self) -> Result<List<RunnerInfo>, ClientError> {
        self.read(self.call(Method::GET, &["runners"])).await
    }

    /// Tells runners of this id or name to stop in order.
    pub(crate) async fn drain(&self, runner: &str) -> Result<Drained, ClientError> {
        self.read(self.call(Method::POST, &["runners", runner, "drain"])).await
    }

    /// Makes a key; the answer is the only place its text is ever shown.
    pub(crate) async fn create_key(&self, name: &str) -> Result<CreatedKey, ClientError> {
        self.read(self.call(Method::POST, &["keys"]).json(&NewKey { name: name.to_owned() })).await
    }
}
