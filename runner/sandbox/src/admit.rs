//! Admission: a cheap, bounded look at an upload that says what it is or why it is not taken.
//! Nothing is compiled here and none of its code runs.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use stokehold_domain::problem::clean;
use stokehold_domain::{Digest, EngineLimits};

use crate::componentise::componentise;
use crate::imports::permissions;
use crate::structure::{Structure, inspect};
use crate::{Producers, Refusal};

/// The contract that a handler follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Abi {
    /// A component that exports `stokehold:job/handler`.
    Component,
    /// A program: payload on stdin, result on stdout, logs on stderr, exit status as verdict. A WASI
    /// preview-1 module with `_start`, or a component that exports `wasi:cli/run`.
    Command,
}

/// What an upload is. Texts in it were made by the uploader: escape them before showing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Admission {
    /// The sha256 of the upload.
    pub digest: Digest,
    /// The contract it follows.
    pub abi: Abi,
    /// The size of the upload, in bytes.
    pub size_bytes: u64,
    /// What it may reach, one line each: the powers first, then the standard library's inert imports
    /// in one line.
    pub imports: Vec<String>,
    /// Where it says it comes from.
    pub producers: Producers,
    /// Functions in all its modules.
    pub functions: u64,
    /// Core modules in it.
    pub core_modules: u64,
    /// Linear memory it starts with, in bytes, before it grows any.
    pub initial_memory_bytes: u64,
    /// True when it came as a core module with component metadata and was made into a component.
    pub componentised: bool,
    /// What its author should know.
    pub notes: Vec<String>,
    /// The component made from it, if one was made. Storing the upload is enough: loading makes the
    /// component again.
    #[serde(skip)]
    pub component_bytes: Option<Vec<u8>>,
}

/// What is to be compiled, and how it will be entered.
pub(crate) struct Admitted<'a> {
    pub(crate) bytes: Cow<'a, [u8]>,
    pub(crate) form: Form,
    found: Structure,
    imports: Vec<String>,
}

/// The three forms a handler comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Component,
    Command,
    CommandComponent,
}

/// What admission has to know of the node.
pub(crate) struct Gate {
    /// The functions of WASI preview 1 that are linked.
    pub(crate) preview1: BTreeSet<String>,
    /// The most linear memory that a handler can be given, in bytes.
    pub(crate) max_memory_bytes: u64,
}

impl Gate {
    pub(crate) fn report(&self, bytes: &[u8]) -> Result<Admission, Refusal> {
        let admitted = self.look(bytes)?;
        let abi = match admitted.form {
            Form::Component => Abi::Component,
            Form::Command | Form::CommandComponent => Abi::Command,
        };
        let notes = notes(&admitted);
        let component_bytes = match admitted.bytes {
            Cow::Borrowed(_) => None,
            Cow::Owned(component) => Some(component),
        };
        Ok(Admission {
            digest: Digest(Sha256::digest(bytes).into()),
            abi,
            size_bytes: bytes.len() as u64,
            imports: admitted.imports,
            producers: admitted.found.producers,
            functions: admitted.found.functions,
            core_modules: admitted.found.modules,
            initial_memory_bytes: admitted.found.initial_memory_bytes,
            componentised: component_bytes.is_some(),
            notes,
            component_bytes,
        })
    }

    pub(crate) fn look<'a>(&self, bytes: &'a [u8]) -> Result<Admitted<'a>, Refusal> {
        let most_bytes = EngineLimits::MODULE_BYTES as u64;
        if bytes.len() as u64 > most_bytes {
            return Err(Refusal::TooLarge { size_bytes: bytes.len() as u64, most_bytes });
        }
        recognise(bytes)?;
        let found = inspect(bytes, self.max_memory_bytes)?;
        if !found.is_component && is_inside_of_component(&found) {
            let component = componentise(bytes)?;
            let mut found = inspect(&component, self.max_memory_bytes)?;
            // The adapter's memory is the host's doing, but it counts against the same limit.
            found.producers.tools.retain(|tool| !tool.starts_with("wit-component"));
            return self.judge(Cow::Owned(component), found);
        }
        self.judge(Cow::Borrowed(bytes), found)
    }

    fn judge<'a>(&self, bytes: Cow<'a, [u8]>, found: Structure) -> Result<Admitted<'a>, Refusal> {
        let form = form(&found)?;
        let imports = permissions(&found, &self.preview1).map_err(Refusal::Import)?;
        Ok(Admitted { bytes, form, found, imports })
    }
}

const HANDLER: &str = "stokehold:job/handler";
const RUN: &str = "wasi:cli/run@0.2.";

fn is_inside_of_component(found: &Structure) -> bool {
    found.has_component_type && found.exports.iter().any(|name| name.contains(HANDLER))
}

fn form(found: &Structure) -> Result<Form, Refusal> {
    if found.is_component {
        let version = found.exports.iter().find_map(|name| {
            name.strip_prefix(HANDLER).map(|version| version.trim_start_matches('@').to_owned())
        });
        return match version {
            Some(version) if version.starts_with("0.1.") => Ok(Form::Component),
            Some(version) => Err(Refusal::Export {
                reason: clean(
                    &format!(
                        "the component exports {HANDLER} {version} and this node runs 0.1.x: rebuild \
                         it against the wit package of that version"
                    ),
                    400,
                ),
            }),
            None if found.exports.iter().any(|name| name.starts_with(RUN)) => {
                Ok(Form::CommandComponent)
            }
            None => Err(nothing_to_run(
                found,
                "the component exports neither stokehold:job/handler@0.1.x nor wasi:cli/run@0.2.x",
            )),
        };
    }
    if found.exports.contains("_start") {
        return Ok(Form::Command);
    }
    Err(nothing_to_run(
        found,
        "the module has no `_start` function: build it as a program (a `main`), not as a library, or \
         as a component with the stokehold:job contract",
    ))
}

fn nothing_to_run(found: &Structure, why: &str) -> Refusal {
    const NAMED_EXPORTS: usize = 12;
    let names: Vec<_> = found.exports.iter().take(NAMED_EXPORTS).map(String::as_str).collect();
    let exports = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
    Refusal::Export { reason: clean(&format!("{why}. It exports: {exports}"), 1_000) }
}

fn notes(admitted: &Admitted<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    if admitted.form == Form::CommandComponent {
        notes.push(
            "a wasi:cli/run component built against WASI older than 0.2.12 can only exit with 0 or 1; \
             build for wasm32-wasip1 or use the typed contract for richer verdicts"
                .to_owned(),
        );
    }
    if matches!(admitted.bytes, Cow::Owned(_)) {
        notes.push("came as a core module and was made into a component".to_owned());
    }
    notes
}

/// Tells a WebAssembly binary from what people upload by mistake.
fn recognise(bytes: &[u8]) -> Result<(), Refusal> {
    let not = |found, advice| Err(Refusal::NotWasm { found, advice });
    let build = "compile your handler for wasm32-wasip1 or wasm32-wasip2 and upload the .wasm";
    match bytes {
        [b'\0', b'a', b's', b'm', ..] => Ok(()),
        [] => not("an empty file", build),
        [0x7f, b'E', b'L', b'F', ..] if wasmtime::Engine::detect_precompiled(bytes).is_some() => {
            Err(Refusal::Precompiled)
        }
        [0x7f, b'E', b'L', b'F', ..] => not("a Linux executable (ELF)", build),
        [0xfe, 0xed, 0xfa, ..] | [0xce | 0xcf, 0xfa, 0xed, 0xfe, ..] => {
            not("a macOS executable (Mach-O)", build)
        }
        [b'M', b'Z', ..] => not("a Windows executable (PE)", build),
        [b'B', b'C', 0xc0, 0xde, ..] => not("LLVM bitcode", "link it: the .wasm is wanted"),
        [b'!', b'<', b'a', b'r', b'c', b'h', ..] => {
            not("a static library (ar archive)", "link it into a program or component")
        }
        [0x1f, 0x8b, ..] => not("a gzip archive", "unpack it and upload the .wasm"),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => not("a zstd archive", "unpack it and upload the .wasm"),
        [b'P', b'K', 3, 4, ..] => not("a zip archive", "unpack it and upload the .wasm"),
        [b'#', b'!', ..] => not("a script", build),
        _ if is_text_format(bytes) => {
            not("WebAssembly text", "assemble it with `wasm-tools parse` or `wat2wasm` first")
        }
        _ => not("something else", build),
    }
}

fn is_text_format(bytes: &[u8]) -> bool {
    let start = &bytes[..bytes.len().min(4096)];
    let text = String::from_utf8_lossy(start);
    let code = text
        .lines()
        .map(str::trim_start)
        .find(|line| !line.is_empty() && !line.starts_with(";;") && !line.starts_with("(;"));
    code.is_some_and(|line| line.starts_with("(module") || line.starts_with("(component"))
}
