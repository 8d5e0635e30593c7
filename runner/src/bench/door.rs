//! The ways into the queue that a load can take.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::value::RawValue;
use stokehold_api::wire;
use stokehold_domain::Blob;
use stokehold_queue::{Database, NewJob};

use super::api::Api;
use super::bed::Bed;
use super::workload::{Entrance, Features, Workload};
use crate::client::Client;

/// One way in, with what it needs open.
pub(crate) struct Door {
    way: Way,
    api: Option<Api>,
}

#[derive(Clone)]
enum Way {
    Sql(Box<Database>),
    Single(Client),
    Bulk(Client),
}

/// One client's use of a door. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Caller {
    way: Way,
    job: Template,
    features: Features,
    /// Jobs made so far, by all clones.
    made: Arc<AtomicU64>,
}

/// The job that is enqueued again and again, as each way wants it.
#[derive(Clone)]
enum Template {
    Sql(NewJob),
    Wire(wire::NewJob),
}

impl Door {
    /// Opens the way in that a workload asks for.
    pub(crate) async fn open(bed: &Bed, workload: &Workload) -> anyhow::Result<Door> {
        if workload.entrance == Entrance::Sql {
            return Ok(Door { way: Way::Sql(Box::new(bed.pool(workload.clients))), api: None });
        }
        let api = Api::start(bed).await?;
        let client = api.client.clone();
        let way = match workload.entrance {
            Entrance::ApiBulk => Way::Bulk(client),
            Entrance::Api | Entrance::Sql => Way::Single(client),
        };
        Ok(Door { way, api: Some(api) })
    }

    /// Someone who enqueues jobs of a kind through it.
    pub(crate) fn caller(&self, kind: &str, payload: &Blob) -> anyhow::Result<Caller> {
        let job = match &self.way {
            Way::Sql(_) => Template::Sql(NewJob::new(kind, payload.clone())),
            Way::Single(_) | Way::Bulk(_) => Template::Wire(on_the_wire(kind, payload)?),
        };
        Ok(Caller {
            way: self.way.clone(),
            job,
            features: Features::default(),
            made: Arc::default(),
        })
    }

    /// The API process, if there is one.
    pub(crate) fn api(&self) -> Option<&Api> {
        self.api.as_ref()
    }

    /// Closes it: connections end, and the API process.
    pub(crate) async fn close(self) -> anyhow::Result<()> {
        if let Way::Sql(database) = &self.way {
            database.close().await;
        }
        match self.api {
            Some(api) => api.stop().await,
            None => Ok(()),
        }
    }
}

impl Caller {
    /// Whose jobs use these features, as far as they come in by SQL.
    pub(crate) fn using(self, features: &Features) -> Caller {
        Caller { features: features.clone(), ..self }
    }

    /// Enqueues some jobs; when it returns they are committed.
    pub(crate) async fn enqueue(&self, jobs: usize) -> anyhow::Result<()> {
        match (&self.way, &self.job) {
            (Way::Sql(database), Template::Sql(job)) => {
                let first = self.made.fetch_add(jobs as u64, Ordering::Relaxed);
                let with = |n| NewJob { options: self.features.options(n), ..job.clone() };
                let jobs: Vec<NewJob> = (first..first + jobs as u64).map(with).collect();
                database.enqueue(&jobs).await?;
            }
            (Way::Bulk(client), Template::Wire(job)) => {
                let batch = wire::JobBatch { jobs: vec![job.clone(); jobs] };
                client.enqueue_batch(&batch).await?;
            }
            (Way::Single(client), Template::Wire(job)) => {
                for _ in 0..jobs {
                    client.enqueue(job, None).await?;
                }
            }
            (Way::Sql(_), Template::Wire(_)) | (_, Template::Sql(_)) => {
                unreachable!("a caller's job has the form that its way wants")
            }
        }
        Ok(())
    }
}

fn on_the_wire(kind: &str, payload: &Blob) -> anyhow::Result<wire::NewJob> {
    let mut job = wire::NewJob { kind: kind.to_owned(), ..wire::NewJob::default() };
    if payload.is_json() {
        job.payload = Some(RawValue::from_string(String::from_utf8(payload.bytes.clone())?)?);
    } else {
        job.payload_base64 = Some(STANDARD.encode(&payload.bytes));
    }
    job.media_type = Some(payload.media_type.clone());
    Ok(job)
}
