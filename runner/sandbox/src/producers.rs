//! Which language and tools a module says it comes from.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use stokehold_domain::problem::clean;
use wasmparser::ProducersSectionReader;

/// The names and versions in a module's `producers` sections. Text made by the uploader: escape it
/// before showing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Producers {
    /// Source languages, such as `Rust`.
    pub languages: BTreeSet<String>,
    /// Compilers, linkers and SDKs with their versions.
    pub tools: BTreeSet<String>,
}

/// Entries of each kind that are kept.
const MAX_ENTRIES: usize = 32;
/// Bytes of one entry that are kept.
const MAX_ENTRY_BYTES: usize = 120;

impl Producers {
    /// Adds what one section says. A section that does not parse says nothing.
    pub(crate) fn read(&mut self, section: ProducersSectionReader<'_>) {
        for field in section.into_iter().map_while(Result::ok) {
            let is_language = field.name == "language";
            let entries = if is_language { &mut self.languages } else { &mut self.tools };
            for value in field.values.into_iter().map_while(Result::ok) {
                let text = match value.version {
                    // The edition of a language says little here.
                    _ if is_language => value.name.to_owned(),
                    "" => value.name.to_owned(),
                    version => format!("{} {version}", value.name),
                };
                if entries.len() < MAX_ENTRIES {
                    entries.insert(clean(&text, MAX_ENTRY_BYTES));
                }
            }
        }
    }
}
