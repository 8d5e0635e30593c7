//! The import list, read as a list of permissions.

use std::collections::BTreeSet;

use stokehold_domain::problem::clean;

use crate::MissingImport;
use crate::structure::Structure;

/// The module that WASI preview-1 programs import from.
pub(crate) const PREVIEW1: &str = "wasi_snapshot_preview1";
/// The package of the typed contract.
const CONTRACT: &str = "stokehold:job/";
/// The contract version offered; later functions of the same 0.1 line are found missing at load.
const CONTRACT_VERSION: &str = "0.1.";
/// What the standard libraries of most languages import whether they use it or not. Linked, and
/// answering "not permitted" where they would reach outside.
const STANDARD_LIBRARY: [&str; 6] =
    ["wasi:cli", "wasi:clocks", "wasi:filesystem", "wasi:io", "wasi:random", "wasi:sockets"];
/// The newest WASI 0.2 interfaces offered.
const WASI_VERSION: &str = "0.2.";

/// The interfaces of the contract that a handler may import.
const CONTRACT_INTERFACES: [&str; 5] = ["types", "context", "log", "progress", "spawn"];

/// Names at most this long are repeated to the uploader.
const MAX_NAME_BYTES: usize = 160;

/// One line a permission; the inert standard library in a line of its own. Fails with all imports
/// that are not offered, not the first alone.
pub(crate) fn permissions(
    found: &Structure,
    preview1: &BTreeSet<String>,
) -> Result<Vec<String>, Vec<MissingImport>> {
    let mut permissions = BTreeSet::new();
    let mut standard = BTreeSet::new();
    let mut missing = Vec::new();
    for (module, field) in &found.imports {
        match judge(found.is_component, module, field, preview1) {
            Judged::Power(name) => _ = permissions.insert(name),
            Judged::StandardLibrary(name) => _ = standard.insert(name),
            Judged::Missing(advice) => missing.push(MissingImport {
                name: clean(&joined(module, field), MAX_NAME_BYTES),
                advice,
            }),
        }
    }
    if !missing.is_empty() {
        return Err(missing);
    }
    let mut lines: Vec<String> = permissions.into_iter().collect();
    if !standard.is_empty() {
        let names: Vec<_> = standard.into_iter().collect();
        lines.push(format!("standard library, inert ({})", names.join(", ")));
    }
    Ok(lines)
}

enum Judged {
    Power(String),
    StandardLibrary(String),
    Missing(String),
}

fn judge(is_component: bool, module: &str, field: &str, preview1: &BTreeSet<String>) -> Judged {
    if !is_component {
        return match module {
            PREVIEW1 if preview1.contains(field) => Judged::StandardLibrary(PREVIEW1.to_owned()),
            _ => Judged::Missing(core_advice(module)),
        };
    }
    let (interface, version) = module.split_once('@').unwrap_or((module, ""));
    let package = interface.split_once('/').map_or(interface, |(package, _)| package);
    if let Some(name) = interface.strip_prefix(CONTRACT) {
        return match CONTRACT_INTERFACES.contains(&name) {
            true if version.starts_with(CONTRACT_VERSION) => Judged::Power(interface.to_owned()),
            true => Judged::Missing(format!(
                "this node offers stokehold:job {CONTRACT_VERSION}x; rebuild against that"
            )),
            false => Judged::Missing("the contract has no such interface".to_owned()),
        };
    }
    if STANDARD_LIBRARY.contains(&package) {
        return if version.starts_with(WASI_VERSION) {
            Judged::StandardLibrary(package.to_owned())
        } else {
            Judged::Missing(format!("this node offers WASI {WASI_VERSION}x; rebuild against that"))
        };
    }
    Judged::Missing(match package {
        "wasi:http" => "outgoing HTTP is not granted to handlers on this node".to_owned(),
        _ => "nothing here provides it; remove the dependency that asks for it".to_owned(),
    })
}

fn joined(module: &str, field: &str) -> String {
    if field.is_empty() { module.to_owned() } else { format!("{module}.{field}") }
}

fn core_advice(module: &str) -> String {
    match module {
        PREVIEW1 => "no such function in WASI preview 1; update the toolchain",
        "wbg" | "__wbindgen_placeholder__" | "__wbindgen_externref_xform__" => {
            "built for browsers (wasm-bindgen); use target wasm32-wasip1 or wasm32-wasip2"
        }
        "wasi_unstable" => "an old WASI snapshot; rebuild for wasm32-wasip1",
        "wasi" => "WASI threads are not offered; build without threads",
        "env" => {
            "not linked: a symbol the linker did not find, or an emscripten runtime; link it \
                  statically and target WASI"
        }
        _ => "core modules may import WASI preview 1 only",
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn component(imports: &[&str]) -> Structure {
        Structure {
            is_component: true,
            imports: imports.iter().map(|name| ((*name).to_owned(), String::new())).collect(),
            ..Structure::default()
        }
    }

    #[test]
    fn the_standard_library_is_folded_into_one_inert_line_after_the_powers() {
        let found = component(&[
            "wasi:cli/environment@0.2.3",
            "wasi:io/streams@0.2.3",
            "stokehold:job/spawn@0.1.0",
            "stokehold:job/context@0.1.0",
        ]);
        assert_eq!(
            permissions(&found, &BTreeSet::new()).unwrap(),
            [
                "stokehold:job/context",
                "stokehold:job/spawn",
                "standard library, inert (wasi:cli, wasi:io)"
            ]
        );
    }

    #[test]
    fn every_import_that_is_not_offered_is_named_at_once() {
        let found = component(&[
            "wasi:http/outgoing-handler@0.2.3",
            "stokehold:job/context@0.2.0",
            "stokehold:job/secrets@0.1.0",
            "wasi:cli/run@0.3.0",
            "acme:thing/api",
        ]);
        let missing = permissions(&found, &BTreeSet::new()).unwrap_err();
        assert_eq!(missing.len(), 5);
        assert!(missing[1].advice.contains("0.1.x"), "{missing:?}");
    }
}
