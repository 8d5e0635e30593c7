//! Gathers the single jobs of concurrent requests into one enqueueing call.
//!
//! A commit waits for the disk, and while one waits others come in: they go together in the next. So a
//! request on a quiet server is written at once, and a busy one commits once for many. Each request is
//! answered for its own job, after the commit. If the process dies here, no request was answered that is
//! not committed.

use std::mem;

use stokehold_queue::{Database, Enqueued, NewJob, QueueError};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

/// Jobs in one call.
const MOST_JOBS: usize = 500;
/// Payload bytes in one call, beyond its first job.
const MOST_BYTES: usize = 8 << 20;
/// Calls under way at once: while one waits for the disk the other is worked on.
const CALLS: usize = 2;

type Told = oneshot::Sender<Result<Enqueued, QueueError>>;

/// Where requests leave their jobs. Cheap to clone; ends with its last clone.
#[derive(Clone, Debug)]
pub(crate) struct Gatherer {
    jobs: mpsc::Sender<(NewJob, Told)>,
    database: Database,
}

impl Gatherer {
    pub(crate) fn start(database: Database) -> Self {
        let (jobs, gathered) = mpsc::channel(MOST_JOBS);
        tokio::spawn(run(database.clone(), gathered));
        Gatherer { jobs, database }
    }

    /// Enqueues one job, together with others that come at the same time.
    pub(crate) async fn enqueue(&self, job: NewJob) -> Result<Enqueued, QueueError> {
        let (told, answer) = oneshot::channel();
        if let Err(mpsc::error::SendError((job, _))) = self.jobs.send((job, told)).await {
            return one(&self.database, &job).await;
        }
        match answer.await {
            Ok(answer) => answer,
            // The gathering task is gone, which only a panic in it can bring about. Whether it wrote is
            // not known.
            Err(_) => Err(QueueError::Timeout {
                what: "enqueue a job",
                limit: self.database.options().call_deadline,
            }),
        }
    }
}

async fn one(database: &Database, job: &NewJob) -> Result<Enqueued, QueueError> {
    let ids = database.enqueue_all(std::slice::from_ref(job)).await?;
    ids.first().copied().ok_or_else(|| QueueError::Schema(NO_ID.to_owned()))
}

pub(crate) const NO_ID: &str = "the enqueue function made a job and returned no id";

async fn run(database: Database, mut requests: mpsc::Receiver<(NewJob, Told)>) {
    let mut gathered = Vec::with_capacity(MOST_JOBS);
    let mut calls = JoinSet::new();
    let mut open = true;
    while open || !calls.is_empty() || !gathered.is_empty() {
        while !gathered.is_empty() && calls.len() < CALLS {
            let rest = gathered.split_off(fitting(&gathered));
            let call = mem::replace(&mut gathered, rest);
            calls.spawn(write(database.clone(), call));
        }
        let wanted = MOST_JOBS - gathered.len();
        tokio::select! {
            received = requests.recv_many(&mut gathered, wanted), if open && wanted > 0 => {
                open = received > 0;
            }
            Some(_) = calls.join_next() => {}
        }
    }
}

/// How many of the jobs fit into one call: at least one.
fn fitting(gathered: &[(NewJob, Told)]) -> usize {
    let mut bytes = 0;
    let fits = gathered.iter().take_while(|(job, _)| {
        bytes += job.payload.bytes.len();
        bytes <= MOST_BYTES
    });
    fits.count().max(1)
}

/// Writes all jobs that the database takes. One that it refuses is told so and does not hold up the
/// others: the rest goes again without it.
async fn write(database: Database, call: Vec<(NewJob, Told)>) {
    let (mut jobs, mut told): (Vec<NewJob>, Vec<Told>) = call.into_iter().unzip();
    while !jobs.is_empty() {
        let error = match database.enqueue_all(&jobs).await {
            Ok(ids) => {
                for (told, id) in told.into_iter().zip(ids) {
                    // Whoever asked may have hung up.
                    let _ = told.send(Ok(id));
                }
                return;
            }
            Err(error) => error,
        };
        let Some(index) = error.refused_job().filter(|index| *index < jobs.len()) else {
            for (job, told) in jobs.iter().zip(told) {
                // What will not pass may be the fault of one of them: alone, each has its own answer.
                let again = !error.is_temporary() && jobs.len() > 1;
                let answer = if again { one(&database, job).await } else { Err(error.clone()) };
                let _ = told.send(answer);
            }
            return;
        };
        jobs.remove(index);
        let _ = told.remove(index).send(Err(error));
    }
}
