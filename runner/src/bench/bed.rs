//! What is measured on: a database, made for it or given, and everything that the benchmark puts
//! into it and takes away again.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use anyhow::Context;
use reqwest::Url;
use stokehold_domain::{Digest, KindId, KindLimits, Limits};
use stokehold_queue::bench::{Standing, drop_database};
use stokehold_queue::database::ensure_database;
use stokehold_queue::{Database, DatabaseOptions, KindPolicy, NewModule};
use stokehold_sandbox::{Sandbox, SandboxConfig};

use super::handler::Handler;
use crate::cli::database;
use crate::cli::fault::Fault;
use crate::cli::output::Output;
use crate::cli::text::counted;
use crate::dev::{self, DatabaseChoice, Opened, ThrowAway};
use crate::postgres::Binaries;
use crate::services;

/// How long one of our own calls may take: filling tables and reading a million times takes longer
/// than anything that a node asks.
const CALL_DEADLINE: Duration = Duration::from_secs(900);
/// The cache of a scratch server: a quarter of 4 GiB, as usual advice has it.
const SHARED_BUFFERS: &str = "shared_buffers=1GB";
const STATEMENTS: &str = "pg_stat_statements";

/// Which database, and what it must bring along.
#[derive(Clone, Debug, Default)]
pub(crate) struct BedOptions {
    /// One that is there; without it a scratch server is made.
    pub(crate) url: Option<String>,
    /// Measure although others use it.
    pub(crate) force: bool,
    /// Leave everything in a database that was there.
    pub(crate) keep: bool,
    /// Count statements, on a scratch server that can.
    pub(crate) statements: bool,
}

/// A database under measurement.
pub(crate) struct Bed {
    /// Its address.
    pub(crate) url: String,
    /// A pool for the benchmark's own calls.
    pub(crate) database: Database,
    /// Where remarks go.
    pub(crate) output: Output,
    ending: Ending,
    prefix: String,
    number: AtomicU32,
    modules: Mutex<Vec<Digest>>,
    admitting: Sandbox,
    // The server ends before its folder goes.
    opened: Opened,
    folder: ThrowAway,
}

/// What is to become of the database in the end.
enum Ending {
    /// It goes with its server.
    ThrownAway,
    /// It stays, without what is ours.
    Tidied,
    /// It stays as it is, for others to look at.
    Kept,
    /// It is dropped, by way of the database of that address.
    Dropped { server_url: String, name: String },
}

/// A kind that the benchmark made.
#[derive(Clone, Debug)]
pub(crate) struct BenchKind {
    /// Its row.
    pub(crate) id: KindId,
    /// Its name.
    pub(crate) name: String,
}

impl Bed {
    /// Opens the database, makes the schema in an empty one, and makes sure that nobody else uses it.
    pub(crate) async fn open(options: BedOptions, output: &Output) -> anyhow::Result<Bed> {
        let folder = ThrowAway::make()?;
        let is_scratch = options.url.is_none();
        let choice = match options.url {
            Some(url) => DatabaseChoice::Url(url),
            None => DatabaseChoice::Scratch(scratch_settings(options.statements)?),
        };
        let opened = dev::open_database(choice).await?;
        let ending = match (is_scratch, options.keep) {
            (true, _) => Ending::ThrownAway,
            (false, true) => Ending::Kept,
            (false, false) => Ending::Tidied,
        };
        let statements = options.statements && is_scratch;
        match Bed::on(&opened.url, options.force, statements).await {
            Ok(parts) => Ok(Bed::of(parts, opened, folder, ending, output)),
            Err(error) => {
                opened.close().await?;
                Err(error)
            }
        }
    }

    /// Another database on the same server, to compare this one with.
    pub(crate) async fn sibling(&self) -> anyhow::Result<Bed> {
        let name = self.fresh_name("database").replace('.', "_");
        ensure_database(&self.url, &name).await?;
        let mut url = Url::parse(&self.url).context("the database's address cannot be read")?;
        url.set_path(&name);
        let opened = dev::open_database(DatabaseChoice::Url(url.into())).await?;
        let folder = ThrowAway::make()?;
        match Bed::on(&opened.url, true, false).await {
            Ok(parts) => {
                let ending = Ending::Dropped { server_url: self.url.clone(), name };
                Ok(Bed::of(parts, opened, folder, ending, &self.output))
            }
            Err(error) => {
                drop_database(&self.url, &name).await?;
                Err(error)
            }
        }
    }

    fn of(
        (database, admitting): (Database, Sandbox),
        opened: Opened,
        folder: ThrowAway,
        ending: Ending,
        output: &Output,
    ) -> Bed {
        Bed {
            url: opened.url.clone(),
            database,
            output: *output,
            ending,
            prefix: run_prefix(),
            number: AtomicU32::new(0),
            modules: Mutex::default(),
            admitting,
            opened,
            folder,
        }
    }

    async fn on(url: &str, force: bool, statements: bool) -> anyhow::Result<(Database, Sandbox)> {
        let options = DatabaseOptions { call_deadline: CALL_DEADLINE, ..database::options(url)? };
        let database = Database::connect(options).await?;
        // An empty database is ours to fill; whose schema is another one has others who rely on it.
        if database.schema_version().await? == 0 {
            database.migrate().await?;
        } else {
            database.check_schema().await?;
        }
        if !force {
            refuse_company(database.standing().await?)?;
        }
        if statements {
            database.count_statements().await?;
        }
        // It admits modules and runs nothing.
        let config = SandboxConfig { slots: 2, guest_threads: 1, ..SandboxConfig::default() };
        Ok((database, services::start_sandbox(config).await?))
    }

    /// Whether a scratch server could count statements.
    pub(crate) fn can_count_statements() -> bool {
        Binaries::find(None).is_ok_and(|binaries| binaries.has_library(STATEMENTS))
    }

    /// Where children leave what they say.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A name that nothing else in the database has.
    pub(crate) fn fresh_name(&self, word: &str) -> String {
        format!("{}{word}{}", self.prefix, self.number.fetch_add(1, Ordering::Relaxed))
    }

    /// The queue that the benchmark's kinds are in and its nodes serve, so that they leave alone
    /// whatever else there is.
    pub(crate) fn queue(&self) -> String {
        self.prefix.trim_end_matches('.').to_owned()
    }

    /// A kind of its own for a run, so that what stands in the database already does not count. One
    /// that is not active is claimed from when [`Bed::activate`] says so.
    pub(crate) async fn kind(&self, handler: &Handler, active: bool) -> anyhow::Result<BenchKind> {
        self.limited_kind(handler, active, &Limits::DEFAULT).await
    }

    /// The same with limits of its own.
    pub(crate) async fn limited_kind(
        &self,
        handler: &Handler,
        active: bool,
        limits: &Limits,
    ) -> anyhow::Result<BenchKind> {
        let admission = self.admitting.admit(&handler.bytes)?;
        let report = serde_json::to_value(&admission)?;
        let digest = admission.digest;
        let module = NewModule { digest, bytes: &handler.bytes, report: &report };
        if self.database.put_module(module).await? {
            self.modules.lock().unwrap_or_else(|error| error.into_inner()).push(digest);
        }
        let name = self.fresh_name("kind");
        let policy = KindPolicy { queue: self.queue(), ..KindPolicy::default() };
        let (kind, _) = self.database.put_kind(&name, &policy).await?;
        self.database.create_release(&name, digest, limits, active).await?;
        Ok(BenchKind { id: kind.id, name })
    }

    /// Gives a kind limits.
    pub(crate) async fn limit(&self, kind: &BenchKind, limits: &KindLimits) -> anyhow::Result<()> {
        let policy =
            KindPolicy { queue: self.queue(), limits: limits.clone(), ..KindPolicy::default() };
        self.database.put_kind(&kind.name, &policy).await?;
        Ok(())
    }

    /// Lets a kind's jobs run, and wakes the nodes.
    pub(crate) async fn activate(&self, kind: &BenchKind) -> anyhow::Result<()> {
        self.database.activate_release(&kind.name, 1).await?;
        self.database.wake_runners().await?;
        Ok(())
    }

    /// A pool beside the bed's own, with the deadlines of an ordinary client.
    pub(crate) fn pool(&self, connections: usize) -> Database {
        let options = self.database.options();
        Database::lazy(DatabaseOptions {
            max_connections: connections.try_into().unwrap_or(u32::MAX),
            call_deadline: Duration::from_secs(60),
            ..options.clone()
        })
    }

    /// Takes everything away: the scratch server, a database of our own, or our own rows in one that
    /// stays.
    pub(crate) async fn close(self) -> anyhow::Result<()> {
        let removed = match &self.ending {
            Ending::ThrownAway | Ending::Kept | Ending::Dropped { .. } => Ok(0),
            Ending::Tidied => {
                let modules =
                    self.modules.lock().unwrap_or_else(|error| error.into_inner()).clone();
                self.database.remove_bench(&self.prefix, &modules).await
            }
        };
        self.database.close().await;
        if let Ending::Dropped { server_url, name } = &self.ending {
            drop_database(server_url, name).await?;
        }
        self.opened.close().await?;
        removed?;
        Ok(())
    }
}

fn scratch_settings(statements: bool) -> anyhow::Result<Vec<String>> {
    let mut settings = vec![SHARED_BUFFERS.to_owned()];
    if statements {
        if !Binaries::find(None)?.has_library(STATEMENTS) {
            let fault = Fault::not_found(format!("this PostgreSQL comes without {STATEMENTS}"));
            let hint =
                "Install the package with its contributed modules, or leave --statements out.";
            return Err(fault.hint(hint).into());
        }
        settings.push(format!("shared_preload_libraries={STATEMENTS}"));
    }
    Ok(settings)
}

/// A benchmark must neither be disturbed nor disturb.
fn refuse_company(standing: Standing) -> Result<(), Fault> {
    let Standing { live_jobs, live_runners } = standing;
    let many = |number: i64| usize::try_from(number).unwrap_or_default();
    if live_jobs > 0 {
        let jobs = if live_jobs > Standing::MOST_COUNTED {
            format!("more than {} live jobs", Standing::MOST_COUNTED)
        } else {
            counted(many(live_jobs), "live job")
        };
        return Err(Fault::invalid(format!(
            "the database has {jobs} in it, which would disturb the \
            measurement and be disturbed by it"
        ))
        .hint(
            "Take another database, wait until they have ended, or say --force to measure \
                 beside them.",
        ));
    }
    if live_runners > 0 {
        let runners = counted(many(live_runners), "runner");
        return Err(Fault::invalid(format!(
            "{runners} on this database would take part in the work"
        ))
        .hint("Stop them, or say --force to measure beside them."));
    }
    Ok(())
}

/// `bench.` and a few digits that no other run has had, then a dot.
fn run_prefix() -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("bench.{:x}-{:x}.", now.as_millis(), std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn company_is_refused_with_its_number_and_what_to_do() {
        let refused = |live_jobs, live_runners| {
            let fault = refuse_company(Standing { live_jobs, live_runners }).unwrap_err();
            assert!(fault.hint.unwrap().contains("--force"));
            fault.message
        };
        assert!(refused(1, 0).starts_with("the database has 1 live job in it"));
        assert!(refused(100_001, 2).contains("more than 100000 live jobs"));
        assert!(refused(0, 2).starts_with("2 runners on this database"));
        refuse_company(Standing { live_jobs: 0, live_runners: 0 }).unwrap();
    }

    #[test]
    fn names_of_a_run_fit() {
        let name = format!("{}kind{}", run_prefix(), u32::MAX);
        stokehold_domain::check_name("kind", &name).unwrap();
    }
}
