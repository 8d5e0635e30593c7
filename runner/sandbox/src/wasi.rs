//! WASI for handlers: clocks and randomness are real, stdin and stdout are the job, and everything
//! that would reach outside (files, sockets, name lookup, the node's environment) answers that it is
//! not permitted. All of it links, because every language's standard library imports it.

use wasmtime::component::ResourceTable;
use wasmtime_wasi::p1::WasiP1Ctx;
use wasmtime_wasi::p2::pipe::MemoryInputPipe;
use wasmtime_wasi::{WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};

use crate::state::State;
use crate::stdio::{Pipe, Stdout};

/// Handles a guest may hold at once: streams, pollables, descriptors.
pub(crate) const MAX_HANDLES: usize = 10_000;
/// Random bytes a guest may ask for in one call.
const MAX_RANDOM_BYTES: u64 = 64 << 10;

/// The WASI state of one attempt, made when the guest first asks for anything: a handler that only
/// computes pays nothing for it.
pub(crate) enum Wasi {
    Unused,
    Component(Box<(WasiCtx, ResourceTable)>),
    Command(Box<WasiP1Ctx>),
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        self.meter.count_call();
        if matches!(self.wasi, Wasi::Unused) {
            let mut table = ResourceTable::new();
            table.set_max_capacity(MAX_HANDLES);
            self.wasi = Wasi::Component(Box::new((builder(self).build(), table)));
        }
        match &mut self.wasi {
            Wasi::Component(parts) => WasiCtxView { ctx: &mut parts.0, table: &mut parts.1 },
            Wasi::Command(p1) => p1.ctx(),
            Wasi::Unused => unreachable!("made above"),
        }
    }
}

impl State {
    /// The preview-1 view, for commands.
    pub(crate) fn preview1(&mut self) -> &mut WasiP1Ctx {
        self.meter.count_call();
        if !matches!(self.wasi, Wasi::Command(_)) {
            let mut p1 = builder(self).build_p1();
            p1.ctx().table.set_max_capacity(MAX_HANDLES);
            self.wasi = Wasi::Command(Box::new(p1));
        }
        match &mut self.wasi {
            Wasi::Command(p1) => p1,
            Wasi::Component(_) | Wasi::Unused => unreachable!("made above"),
        }
    }
}

fn builder(state: &mut State) -> WasiCtxBuilder {
    let mut builder = WasiCtxBuilder::new();
    builder
        .max_random_size(MAX_RANDOM_BYTES)
        .allow_tcp(false)
        .allow_udp(false)
        .allow_ip_name_lookup(false)
        .stderr(Pipe(state.stdio.stderr.clone()));
    match &state.stdio.stdout {
        Stdout::Lines(lines) => {
            builder.stdout(Pipe(lines.clone()));
        }
        Stdout::Result(result) => {
            builder.stdout(Pipe(result.clone()));
            let payload = state.take_payload();
            builder.stdin(MemoryInputPipe::new(payload.bytes)).arg(&state.attempt.kind);
            for (name, value) in environment(state, &payload.media_type) {
                builder.env(name, value);
            }
        }
    }
    builder
}

/// The environment of a command: facts about its job and nothing of the node's.
fn environment(state: &State, media_type: &str) -> Vec<(String, String)> {
    let attempt = &state.attempt;
    let mut pairs = vec![
        ("JOB_ID".to_owned(), attempt.job_id.to_string()),
        ("JOB_KIND".to_owned(), attempt.kind.clone()),
        ("JOB_QUEUE".to_owned(), attempt.queue.clone()),
        ("JOB_ATTEMPT".to_owned(), attempt.attempt.to_string()),
        ("JOB_MAX_ATTEMPTS".to_owned(), attempt.max_attempts.to_string()),
        ("JOB_DEADLINE_MS".to_owned(), state.deadline_unix_ms.to_string()),
        ("JOB_CONTENT_TYPE".to_owned(), media_type.to_owned()),
        ("JOB_IDEMPOTENCY_KEY".to_owned(), attempt.idempotency_key()),
    ];
    for (name, value) in &attempt.metadata {
        pairs.push((format!("JOB_META_{}", variable(name)), value.replace('\0', "")));
    }
    pairs
}

fn variable(name: &str) -> String {
    let fit = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    name.chars().map(fit).collect()
}
