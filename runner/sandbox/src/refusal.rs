//! Why an upload is not taken: each reason with a stable code, what was wrong, and what to do.

use std::fmt;

/// An upload, refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// More bytes than are taken.
    #[error(
        "the upload has {size_bytes} bytes; at most {most_bytes} are taken: strip debug sections or build with optimisation for size"
    )]
    TooLarge {
        /// Its size.
        size_bytes: u64,
        /// The limit.
        most_bytes: u64,
    },
    /// Something other than a WebAssembly binary.
    #[error("this is {found}, not a WebAssembly binary: {advice}")]
    NotWasm {
        /// What it looks like.
        found: &'static str,
        /// What to do.
        advice: &'static str,
    },
    /// Machine code, which is made here and never taken from outside.
    #[error(
        "this is a precompiled wasmtime artifact, which holds machine code: upload the .wasm it was made from"
    )]
    Precompiled,
    /// It does not validate.
    #[error("the module is invalid at byte {offset}: {reason}")]
    Invalid {
        /// What the validator said.
        reason: String,
        /// Where, in bytes from the start.
        offset: u64,
    },
    /// It uses a proposal that is not offered.
    #[error(
        "the module uses {proposal} at byte {offset}, which is not offered ({reason}): {advice}"
    )]
    Proposal {
        /// The proposal's name.
        proposal: &'static str,
        /// What the validator said.
        reason: String,
        /// Where, in bytes from the start.
        offset: u64,
        /// The compiler setting that usually turns it off.
        advice: &'static str,
    },
    /// It is too much of something for its compilation to be safe.
    #[error("the module has {number} {what} at byte {offset}; at most {most} are taken: {advice}")]
    Structure {
        /// What is counted.
        what: &'static str,
        /// How many there are, at least.
        number: u64,
        /// The limit.
        most: u64,
        /// Where the limit was passed.
        offset: u64,
        /// What to do.
        advice: &'static str,
    },
    /// It exports nothing that can be run.
    #[error("nothing to run: {reason}")]
    Export {
        /// What was looked for, what was found and what to do.
        reason: String,
    },
    /// It imports what is not offered.
    #[error("imports that are not offered: {}", Listed(.0))]
    Import(Vec<MissingImport>),
    /// It has a component type and could not be made into a component.
    #[error(
        "the module carries component metadata and could not be made into a component: {reason}. Upload the component itself, made with `wasm-tools component new`"
    )]
    Componentise {
        /// What the encoder said.
        reason: String,
    },
    /// It does not fit the shape of this node's pool.
    #[error("the module does not fit the instance pool: {reason}")]
    Shape {
        /// What wasmtime said, with its numbers.
        reason: String,
    },
    /// The compiler gave up or fell over.
    #[error("the module could not be compiled: {reason}")]
    Compile {
        /// What wasmtime said.
        reason: String,
    },
}

/// An import that nothing here provides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingImport {
    /// Its name: `module.field` of a core module, the interface of a component.
    pub name: String,
    /// Why it is missing and what to do.
    pub advice: String,
}

impl Refusal {
    /// The stable code of the reason.
    pub fn code(&self) -> &'static str {
        match self {
            Refusal::TooLarge { .. } => "module.too-large",
            Refusal::NotWasm { .. } => "module.not-wasm",
            Refusal::Precompiled => "module.precompiled",
            Refusal::Invalid { .. } => "module.invalid",
            Refusal::Proposal { .. } => "module.unsupported-proposal",
            Refusal::Structure { .. } => "module.structure",
            Refusal::Componentise { .. } => "module.componentise",
            Refusal::Shape { .. } => "module.shape",
            Refusal::Compile { .. } => "module.compile",
            Refusal::Export { .. } => "contract.export",
            Refusal::Import(_) => "contract.import",
        }
    }
}

/// At most this many imports are named in one message.
const NAMED_IMPORTS: usize = 20;

struct Listed<'a>(&'a [MissingImport]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, import) in self.0.iter().take(NAMED_IMPORTS).enumerate() {
            let separator = if n > 0 { "; " } else { "" };
            write!(f, "{separator}{} ({})", import.name, import.advice)?;
        }
        match self.0.len().saturating_sub(NAMED_IMPORTS) {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}
