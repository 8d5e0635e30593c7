//! The sandbox itself: engine, pool, guest threads and the handlers loaded into it.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::FutureExt;
use stokehold_domain::{Attempt, Blob, Digest, Limits};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Semaphore, SemaphorePermit};
use wasmtime::{Engine, Store};

use crate::admit::Gate;
use crate::attempt::{Surroundings, execute};
use crate::compile::{Cache, Compiler};
use crate::guest_log::GuestLogFile;
use crate::imports::PREVIEW1;
use crate::state::State;
use crate::task::{self, Running};
use crate::ticker::Ticker;
use crate::{
    Admission, Control, Handler, PoolMetrics, Refusal, Report, SandboxConfig, StartError, context,
    engine, pool, self_test,
};

/// How long an attempt waits for a slot before it is handed back. Who runs the sandbox starts no more
/// attempts than there are slots, but one that was dropped keeps its slot until its guest is gone.
const SLOT_WAIT: Duration = Duration::from_secs(2);

/// Runs handlers. Cheap to clone; the last clone takes the guest threads with it.
#[derive(Clone)]
pub struct Sandbox(Arc<Inner>);

struct Inner {
    guests: Guests,
    around: Arc<Surroundings>,
    compiler: Arc<Compiler>,
    cache: Arc<Cache>,
    slots: Semaphore,
    slot_count: usize,
    ticker: Ticker,
}

/// The runtime of the guests. Dropping a runtime blocks, which is forbidden inside another one, so
/// it is left to end by itself.
struct Guests(Option<Runtime>);

impl Guests {
    fn start(threads: usize) -> Result<Self, StartError> {
        let number = AtomicUsize::new(0);
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name_fn(move || format!("guest-{}", number.fetch_add(1, Ordering::Relaxed)))
            .enable_time()
            .build()
            .map_err(StartError::Threads)?;
        Ok(Guests(Some(runtime)))
    }

    fn handle(&self) -> &tokio::runtime::Handle {
        self.0.as_ref().expect("taken only when dropped").handle()
    }
}

impl Drop for Guests {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Sandbox {
    /// Builds the engine and its pool, starts the guest threads and the thread that interrupts them,
    /// and proves that an endless loop is stopped.
    ///
    /// # Errors
    /// A [`StartError`] that names the number and the setting. There is no falling back: a sandbox
    /// with other limits than the configured ones is no sandbox.
    pub fn start(config: SandboxConfig) -> Result<Sandbox, StartError> {
        config.check()?;
        pool::check_address_space(&config)?;
        let guest_log = config.guest_log_file.as_deref().map(GuestLogFile::open).transpose()?;
        let engine = engine::build(&config)?;
        let compiler = compiler(&engine, &config).map_err(|error| StartError::Engine {
            slots: config.slots,
            reason: format!("{error:#}"),
        })?;
        let ticker = Ticker::start(&engine)?;
        let guests = Guests::start(config.guest_threads)?;
        let around = Surroundings {
            engine,
            guest_log: guest_log.map(Arc::new),
            cancel_grace: config.cancel_grace,
        };
        let sandbox = Sandbox(Arc::new(Inner {
            guests,
            around: Arc::new(around),
            compiler: Arc::new(compiler),
            cache: Arc::new(Cache::new(config.code_cache_bytes, config.compile_slots)),
            slots: Semaphore::new(config.slots),
            slot_count: config.slots,
            ticker,
        }));
        self_test::endless_loop_is_stopped(&sandbox)?;
        Ok(sandbox)
    }

    /// Looks at an upload without compiling it: is it WebAssembly, within limits, of a form that can
    /// be run, importing only what is offered. Takes time linear in its size, so call it off the
    /// threads that must stay responsive.
    ///
    /// # Errors
    /// A [`Refusal`] with a stable code, what was wrong and what to do.
    pub fn admit(&self, bytes: &[u8]) -> Result<Admission, Refusal> {
        self.0.compiler.gate.report(bytes)
    }

    /// Compiles the bytes stored under a digest and resolves their imports, once however many ask.
    /// The caller vouches that the bytes are those of the digest.
    ///
    /// # Errors
    /// What [`Sandbox::admit`] refuses, and what only the compiler finds.
    pub async fn load(&self, digest: Digest, bytes: &[u8]) -> Result<Handler, Refusal> {
        let threads = self.0.guests.handle();
        self.0.cache.load(&self.0.compiler, threads, digest, bytes).await
    }

    /// The handler, if it is loaded.
    pub fn cached(&self, digest: &Digest) -> Option<Handler> {
        self.0.cache.get(digest)?.ok()
    }

    /// The threads that guests run on. What is spawned here shares them with guests, so it must not
    /// compute for long, and it has no network.
    pub fn threads(&self) -> &tokio::runtime::Handle {
        self.0.guests.handle()
    }

    /// Runs one attempt in a fresh instance on the guest threads. It ends by its deadline or a second
    /// later at most, and within a second of an order through `control`. Dropping the future stops
    /// the guest too.
    pub async fn run(
        &self,
        handler: &Handler,
        attempt: Attempt,
        limits: &Limits,
        control: Control,
    ) -> Report {
        let (sandbox, handler, limits) = (self.clone(), handler.clone(), *limits);
        let run = async move { sandbox.run_here(&handler, attempt, &limits, control).await };
        Running(self.threads().spawn(run)).join().await
    }

    /// The same on the thread that polls it, which must be one of [`Sandbox::threads`]: for who runs
    /// many short attempts and would pay more for the handing over than for the running.
    pub async fn run_here(
        &self,
        handler: &Handler,
        attempt: Attempt,
        limits: &Limits,
        control: Control,
    ) -> Report {
        // Declared first, so returned last: after the instance is gone.
        let Some(_slot) = slot(&self.0.slots).await else {
            return task::no_slot(self.0.slot_count, SLOT_WAIT);
        };
        // What a panic leaves behind is the store, which is dropped with the future, and the control,
        // whose parts are whole at every step. In one expression: a future that is passed on is
        // copied, and this one is large.
        AssertUnwindSafe(execute(&self.0.around, handler, attempt, limits, &control.0))
            .catch_unwind()
            .await
            .unwrap_or_else(|panic| task::broken(&*panic, &control))
    }

    /// What is in use now.
    pub fn pool_metrics(&self) -> PoolMetrics {
        let running = self.0.slot_count - self.0.slots.available_permits();
        PoolMetrics {
            running: running as u64,
            slots: self.0.slot_count as u64,
            guest_log_failures: self.0.around.guest_log.as_ref().map_or(0, |file| file.failures()),
            ..pool::metrics(&self.0.around.engine)
        }
    }

    /// Time since guests were last interrupted. More than a second means that this node can no longer
    /// stop a loop and should not go on.
    pub fn ticker_age(&self) -> Duration {
        self.0.ticker.age()
    }

    pub(crate) fn compiler(&self) -> &Compiler {
        &self.0.compiler
    }

    pub(crate) fn guests(&self) -> &tokio::runtime::Handle {
        self.0.guests.handle()
    }
}

async fn slot(slots: &Semaphore) -> Option<SemaphorePermit<'_>> {
    if let Ok(slot) = slots.try_acquire() {
        return Some(slot);
    }
    tokio::time::timeout(SLOT_WAIT, slots.acquire()).await.ok()?.ok()
}

impl fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sandbox").field("pool", &self.pool_metrics()).finish_non_exhaustive()
    }
}

/// Gate and linkers, built once: nothing is ever added for one handler alone.
fn compiler(engine: &Engine, config: &SandboxConfig) -> wasmtime::Result<Compiler> {
    let mut components = wasmtime::component::Linker::new(engine);
    wasmtime_wasi::p2::add_to_linker_async(&mut components)?;
    context::link(&mut components)?;

    let mut commands = wasmtime::Linker::new(engine);
    wasmtime_wasi::p1::add_to_linker_async(&mut commands, State::preview1)?;
    // WASI's own refuses statuses from 126 on with an error that has lost the number.
    commands.allow_shadowing(true);
    commands.func_wrap(
        PREVIEW1,
        "proc_exit",
        |mut caller: wasmtime::Caller<'_, State>, status: i32| -> wasmtime::Result<()> {
            caller.data_mut().meter.count_call();
            Err(wasmtime_wasi::I32Exit(status).into())
        },
    )?;
    commands.allow_shadowing(false);
    let nobody = Attempt::local("", Blob::json(""), 0);
    let state = State::new(nobody, &Limits::DEFAULT, Arc::default(), Instant::now(), true);
    let mut store = Store::new(engine, state);
    let gate = Gate {
        preview1: commands.iter(&mut store).map(|(_, name, _)| name.to_owned()).collect(),
        max_memory_bytes: config.max_memory_bytes,
    };
    Ok(Compiler { engine: engine.clone(), gate, components, commands })
}

#[cfg(test)]
mod tests {
    use stokehold_domain::{FailureCode, Outcome};
    use wasmtime::{Linker, Module};

    use super::*;
    use crate::handler::{Entry, Loaded};

    fn small() -> Sandbox {
        Sandbox::start(SandboxConfig { slots: 2, guest_threads: 1, ..SandboxConfig::default() })
            .unwrap()
    }

    /// A guest whose only import is given.
    fn calling(sandbox: &Sandbox, link: impl FnOnce(&mut Linker<State>)) -> Handler {
        let text = r#"(module (import "test" "call" (func $call))
            (func (export "_start") (call $call)))"#;
        let engine = &sandbox.0.around.engine;
        let module = Module::from_binary(engine, &wat::parse_str(text).unwrap()).unwrap();
        let mut linker = Linker::new(engine);
        link(&mut linker);
        let pre = linker.instantiate_pre(&module).unwrap();
        let start = module.get_export_index("_start").unwrap();
        let entry = Entry::Command { pre, start };
        Handler(Arc::new(Loaded { digest: Digest([1; 32]), code_bytes: 0, entry }))
    }

    fn attempt() -> Attempt {
        Attempt::local("test", Blob::json("null"), 0)
    }

    #[tokio::test]
    async fn a_panic_in_the_host_hands_the_job_back_and_frees_the_slot() {
        let sandbox = small();
        let handler = calling(&sandbox, |linker| {
            linker.func_wrap("test", "call", || -> () { panic!("a bug of ours") }).unwrap();
        });
        for _ in 0..5 {
            let run = sandbox.run(&handler, attempt(), &Limits::DEFAULT, Control::new());
            let outcome = run.await.outcome;
            assert_eq!(outcome.code(), "host.fault");
            assert!(outcome.problem().unwrap().message.contains("a bug of ours"));
        }
        assert!(sandbox.pool_metrics().is_idle(), "{:?}", sandbox.pool_metrics());
    }

    #[tokio::test]
    async fn an_import_that_never_returns_ends_at_the_deadline() {
        let sandbox = small();
        let handler = calling(&sandbox, |linker| {
            linker
                .func_wrap_async("test", "call", |_, (): ()| Box::new(std::future::pending::<()>()))
                .unwrap();
        });
        let limits = Limits { timeout_ms: 50, ..Limits::DEFAULT };
        let report = sandbox.run(&handler, attempt(), &limits, Control::new()).await;
        assert!(matches!(report.outcome, Outcome::Failed(FailureCode::Time, _)));
        assert!(report.receipt.wall_us < 1_050_000, "{:?}", report.receipt);
        assert!(sandbox.pool_metrics().is_idle(), "{:?}", sandbox.pool_metrics());
    }
}
