//! A handler ready to run: compiled, its imports resolved.

use std::fmt;
use std::sync::Arc;

use stokehold_domain::Digest;
use wasmtime::{InstancePre, ModuleExport};
use wasmtime_wasi::p2::bindings::CommandPre;

use crate::Abi;
use crate::component::bindings::StandardPre;
use crate::state::State;

/// A compiled handler. Cheap to clone; belongs to the sandbox that loaded it.
#[derive(Clone)]
pub struct Handler(pub(crate) Arc<Loaded>);

pub(crate) struct Loaded {
    pub(crate) digest: Digest,
    pub(crate) code_bytes: u64,
    pub(crate) entry: Entry,
}

/// How the guest is entered. Imports were checked when this was made, so what is missing is found at
/// load, not in the middle of the night.
pub(crate) enum Entry {
    /// The typed contract.
    Component(StandardPre<State>),
    /// A WASI preview-1 command, run natively so that its exit status survives.
    Command { pre: InstancePre<State>, start: ModuleExport },
    /// A WASI 0.2 command.
    CommandComponent(CommandPre<State>),
}

impl Handler {
    /// The digest it was loaded under.
    pub fn digest(&self) -> Digest {
        self.0.digest
    }

    /// The contract it follows.
    pub fn abi(&self) -> Abi {
        match self.0.entry {
            Entry::Component(_) => Abi::Component,
            Entry::Command { .. } | Entry::CommandComponent(_) => Abi::Command,
        }
    }

    /// Size of its machine code and the data beside it, in bytes.
    pub fn code_bytes(&self) -> u64 {
        self.0.code_bytes
    }
}

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handler")
            .field("digest", &self.digest())
            .field("abi", &self.abi())
            .finish_non_exhaustive()
    }
}
