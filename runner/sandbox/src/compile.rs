//! From bytes to a handler that is ready to run, once per digest, and the memory that keeps it.
//!
//! Compiling is the one thing here whose time and memory no limit of wasmtime's bounds, so it runs
//! on its own threads, few at once, and each digest once however many ask.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use stokehold_domain::Digest;
use stokehold_domain::problem::clean;
use tokio::sync::Semaphore;
use wasmtime::component::Component;
use wasmtime::{Engine, Module};
use wasmtime_wasi::p2::bindings::CommandPre;

use crate::admit::{Form, Gate};
use crate::component::bindings::StandardPre;
use crate::control::lock;
use crate::handler::{Entry, Loaded};
use crate::state::State;
use crate::{Handler, MissingImport, Refusal};

/// Everything that turns bytes into handlers: built once per sandbox.
pub(crate) struct Compiler {
    pub(crate) engine: Engine,
    pub(crate) gate: Gate,
    pub(crate) components: wasmtime::component::Linker<State>,
    pub(crate) commands: wasmtime::Linker<State>,
}

impl Compiler {
    /// Compiles on the calling thread and resolves the imports.
    pub(crate) fn compile(&self, digest: Digest, bytes: &[u8]) -> Result<Handler, Refusal> {
        let admitted = self.gate.look(bytes)?;
        let (entry, code_bytes) = match admitted.form {
            Form::Component => {
                let (component, size) = self.component(&admitted.bytes)?;
                let pre = self.components.instantiate_pre(&component).map_err(unlinked)?;
                (Entry::Component(StandardPre::new(pre).map_err(no_entry)?), size)
            }
            Form::CommandComponent => {
                let (component, size) = self.component(&admitted.bytes)?;
                let pre = self.components.instantiate_pre(&component).map_err(unlinked)?;
                (Entry::CommandComponent(CommandPre::new(pre).map_err(no_entry)?), size)
            }
            Form::Command => {
                let module =
                    Module::from_binary(&self.engine, &admitted.bytes).map_err(uncompiled)?;
                let size = length(module.image_range());
                let start = module.get_export_index("_start").ok_or_else(|| Refusal::Export {
                    reason: "the module has no `_start` function".to_owned(),
                })?;
                let pre = self.commands.instantiate_pre(&module).map_err(unlinked)?;
                check_start(&module)?;
                (Entry::Command { pre, start }, size)
            }
        };
        Ok(Handler(Arc::new(Loaded { digest, code_bytes, entry })))
    }

    fn component(&self, bytes: &[u8]) -> Result<(Component, u64), Refusal> {
        let component = Component::from_binary(&self.engine, bytes).map_err(uncompiled)?;
        let size = length(component.image_range());
        Ok((component, size))
    }
}

fn check_start(module: &Module) -> Result<(), Refusal> {
    let takes_nothing = module
        .get_export("_start")
        .and_then(|export| export.func().cloned())
        .is_some_and(|ty| ty.params().len() == 0 && ty.results().len() == 0);
    if takes_nothing {
        return Ok(());
    }
    Err(Refusal::Export {
        reason: "`_start` must be a function without parameters and results".to_owned(),
    })
}

fn length(range: std::ops::Range<*const u8>) -> u64 {
    (range.end.addr() - range.start.addr()) as u64
}

fn uncompiled(error: wasmtime::Error) -> Refusal {
    let reason = clean(&format!("{error:#}"), 1_000);
    // The pool's shape limits are reported when the module is made, in these words.
    if reason.contains("exceeds the limit") || reason.contains("limit of") {
        return Refusal::Shape { reason };
    }
    Refusal::Compile { reason }
}

fn unlinked(error: wasmtime::Error) -> Refusal {
    Refusal::Import(vec![MissingImport {
        name: clean(&format!("{error:#}"), 1_000),
        advice: "its type or version differs from what this node offers; update the toolchain"
            .to_owned(),
    }])
}

fn no_entry(error: wasmtime::Error) -> Refusal {
    Refusal::Export { reason: clean(&format!("{error:#}"), 1_000) }
}

/// Handlers by digest, within a budget of bytes of code. A refusal is remembered too: the same bytes
/// are refused again without compiling them again.
pub(crate) struct Cache {
    budget_bytes: u64,
    known: Mutex<Known>,
    flights: Mutex<HashMap<Digest, Arc<tokio::sync::Mutex<()>>>>,
    compiling: Arc<Semaphore>,
}

#[derive(Default)]
struct Known {
    entries: HashMap<Digest, Entered>,
    total_bytes: u64,
    clock: u64,
}

struct Entered {
    answer: Result<Handler, Refusal>,
    bytes: u64,
    used: u64,
}

/// What a remembered refusal weighs, in bytes.
const REFUSAL_BYTES: u64 = 4 << 10;

impl Cache {
    pub(crate) fn new(budget_bytes: u64, compile_slots: usize) -> Self {
        Cache {
            budget_bytes,
            known: Mutex::default(),
            flights: Mutex::default(),
            compiling: Arc::new(Semaphore::new(compile_slots)),
        }
    }

    pub(crate) fn get(&self, digest: &Digest) -> Option<Result<Handler, Refusal>> {
        let mut known = lock(&self.known);
        known.clock += 1;
        let now = known.clock;
        let entered = known.entries.get_mut(digest)?;
        entered.used = now;
        Some(entered.answer.clone())
    }

    fn put(&self, digest: Digest, answer: Result<Handler, Refusal>) {
        let bytes = answer.as_ref().map_or(REFUSAL_BYTES, Handler::code_bytes);
        let mut known = lock(&self.known);
        known.clock += 1;
        let used = known.clock;
        known.total_bytes += bytes;
        if let Some(old) = known.entries.insert(digest, Entered { answer, bytes, used }) {
            known.total_bytes -= old.bytes;
        }
        // The newest stays even if it is larger than the whole budget: it is about to be used.
        while known.total_bytes > self.budget_bytes && known.entries.len() > 1 {
            let oldest = known.entries.iter().min_by_key(|(_, entered)| entered.used);
            let Some(digest) = oldest.map(|(digest, _)| *digest) else { break };
            if let Some(old) = known.entries.remove(&digest) {
                known.total_bytes -= old.bytes;
            }
        }
    }

    /// The handler, compiled if it is not known. The compilation goes on if the caller stops
    /// waiting, and its result is kept.
    pub(crate) async fn load(
        self: &Arc<Self>,
        compiler: &Arc<Compiler>,
        threads: &tokio::runtime::Handle,
        digest: Digest,
        bytes: &[u8],
    ) -> Result<Handler, Refusal> {
        if let Some(answer) = self.get(&digest) {
            return answer;
        }
        let flight = Arc::clone(lock(&self.flights).entry(digest).or_default());
        let turn = flight.lock_owned().await;
        if let Some(answer) = self.get(&digest) {
            lock(&self.flights).remove(&digest);
            return answer;
        }
        // The semaphore is never closed.
        let permit = Arc::clone(&self.compiling).acquire_owned().await;
        let (cache, compiler) = (Arc::clone(self), Arc::clone(compiler));
        let bytes = bytes.to_vec();
        let compiled = threads.spawn_blocking(move || {
            // Held here and not by the caller, who may stop waiting.
            let _held = (turn, permit);
            // A panic in the compiler is a verdict about the upload, not an outage.
            let compile = AssertUnwindSafe(|| compiler.compile(digest, &bytes));
            let answer = catch_unwind(compile).unwrap_or_else(|_| {
                Err(Refusal::Compile { reason: "the compiler broke down over it".to_owned() })
            });
            cache.put(digest, answer.clone());
            lock(&cache.flights).remove(&digest);
            answer
        });
        compiled.await.unwrap_or_else(|_| {
            Err(Refusal::Compile { reason: "the sandbox went away meanwhile".to_owned() })
        })
    }
}
