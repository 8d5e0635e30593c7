//! An API process for jobs that come in over HTTP.

use std::time::{Duration, Instant};

use anyhow::bail;

use super::bed::Bed;
use super::child::Child;
use super::cpu;
use crate::client::Client;

/// How long it may take to listen.
const START: Duration = Duration::from_secs(30);

/// A `stokehold serve` and a client of it.
pub(crate) struct Api {
    process: Child,
    /// Speaks to it.
    pub(crate) client: Client,
}

impl Api {
    /// Starts it on any free port and waits until it listens.
    pub(crate) async fn start(bed: &Bed) -> anyhow::Result<Api> {
        let name = bed.fresh_name("api");
        let arguments = ["serve", "--listen", "127.0.0.1:0"];
        let process = Child::start(&name, &arguments, &bed.url, bed.folder())?;
        let key = bed.database.create_key(&name).await?.text;
        let begun = Instant::now();
        let url = loop {
            let said = process.said();
            if let Some(url) = said.split_whitespace().find(|word| word.starts_with("http://")) {
                break url.to_owned();
            }
            process.check()?;
            if begun.elapsed() > START {
                bail!("the API does not listen within {} s", START.as_secs());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        Ok(Api { process, client: Client::new(url.parse()?, key)? })
    }

    /// Processor time that it took so far.
    pub(crate) fn cpu(&self) -> Duration {
        cpu::of_process(self.process.pid()).unwrap_or_default()
    }

    /// Stops it and waits for it.
    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        self.process.stop().await
    }
}
