//! One bounded pass over an upload: is it valid, is its shape one that can be compiled safely, and
//! what does it import and export.
//!
//! wasmtime promises nothing about the time and memory of compiling, and the size of an upload says
//! little: 21 kB of functions with 1,000 parameters each became 77 times as much machine code, one
//! function with 500,000 calls took 1.2 GiB (48.0.8, x86_64). So the things that feed the compiler
//! have limits of their own.

use std::collections::BTreeSet;

use stokehold_domain::EngineLimits;
use wasmparser::{
    BinaryReader, CustomSectionReader, Encoding, FuncToValidate, FuncValidatorAllocations,
    FunctionBody, Operator, Parser, Payload, ProducersSectionReader, TypeRef, ValidPayload,
    Validator, ValidatorResources, WasmFeatures,
};

use crate::Refusal;
use crate::producers::Producers;
use crate::proposals::{OFFERED, responsible};

/// Bytes in one function body.
const BODY_BYTES: u64 = 1 << 20;
/// Locals of one function, parameters not counted.
const LOCALS: u64 = 10_000;
/// Parameters of one function.
const PARAMETERS: u64 = 255;
/// Parameters of all functions.
const PARAMETERS_IN_ALL: u64 = 500_000;
/// Functions in all modules of the upload.
const FUNCTIONS: u64 = 50_000;
/// Types in one section.
const TYPES: u64 = 10_000;
/// Imports or exports in one section.
const IMPORTS: u64 = 1_000;
/// Exports of one module. Programs linked for dynamic loading export a lot.
const EXPORTS: u64 = 10_000;
/// Segments of data in one module.
const DATA_SEGMENTS: u64 = 10_000;
/// Targets of one branch table.
const BRANCH_TARGETS: u64 = 5_000;
/// Targets of all branch tables.
const BRANCH_TARGETS_IN_ALL: u64 = 200_000;
/// Blocks inside one another.
const NESTING: u64 = 1_000;
/// Call sites of one function.
const CALLS: u64 = 50_000;
/// Globals of one module.
const GLOBALS: u64 = 65_536;
/// Segments of table elements in one module.
const ELEMENT_SEGMENTS: u64 = 100_000;
/// Components and modules inside one another.
const DEPTH: u64 = 8;
/// Core modules in one component.
const MODULES: u64 = 64;

/// What the outermost module or component is, and what was found in it.
#[derive(Debug, Default)]
pub(crate) struct Structure {
    pub(crate) is_component: bool,
    /// Imports of the outermost level: (module, field) of a core module, (name, "") of a component.
    pub(crate) imports: Vec<(String, String)>,
    /// Exports of the outermost level.
    pub(crate) exports: BTreeSet<String>,
    /// A custom section says that this core module is the inside of a component.
    pub(crate) has_component_type: bool,
    pub(crate) producers: Producers,
    pub(crate) functions: u64,
    pub(crate) modules: u64,
    /// Linear memory that all modules together start with, in bytes.
    pub(crate) initial_memory_bytes: u64,
}

/// A pass in progress: what was found, and what is counted for the limits alone.
#[derive(Default)]
struct Reading {
    found: Structure,
    max_memory_bytes: u64,
    parameters: u64,
    branch_targets: u64,
    /// Parameters of each function type, of the module being read.
    type_parameters: Vec<u64>,
    outer_types: Vec<Vec<u64>>,
}

/// Reads and validates the whole upload.
pub(crate) fn inspect(bytes: &[u8], max_memory_bytes: u64) -> Result<Structure, Refusal> {
    let mut reading = Reading { max_memory_bytes, ..Reading::default() };
    match reading.read(bytes, OFFERED) {
        Ok(()) => Ok(reading.found),
        Err(Fault::Refused(refusal)) => Err(refusal),
        Err(Fault::Invalid(error)) => Err(explain(&error, bytes)),
    }
}

enum Fault {
    Refused(Refusal),
    Invalid(wasmparser::Error),
}

impl From<wasmparser::Error> for Fault {
    fn from(error: wasmparser::Error) -> Self {
        Fault::Invalid(error)
    }
}

fn explain(error: &wasmparser::Error, bytes: &[u8]) -> Refusal {
    let reason = stokehold_domain::problem::clean(error.message(), 500);
    let offset = error.offset() as u64;
    let again = |features: WasmFeatures| {
        Validator::new_with_features(features).validate_all(bytes).map(|_types| ())
    };
    match responsible(error, again) {
        Some(refused) => {
            Refusal::Proposal { proposal: refused.name, reason, offset, advice: refused.advice }
        }
        None => Refusal::Invalid { reason, offset },
    }
}

fn bound(what: &'static str, number: u64, most: u64, offset: usize) -> Result<(), Fault> {
    if number <= most {
        return Ok(());
    }
    let advice = match what {
        "bytes of initial memory" => "lower the initial memory in your linker (`--initial-memory`)",
        _ => "build with optimisation, or split the generated code",
    };
    Err(Fault::Refused(Refusal::Structure { what, number, most, offset: offset as u64, advice }))
}

impl Reading {
    fn read(&mut self, bytes: &[u8], features: WasmFeatures) -> Result<(), Fault> {
        let mut validator = Validator::new_with_features(features);
        let mut scratch = FuncValidatorAllocations::default();
        let mut depth = 0_u64;
        for payload in Parser::new(0).parse_all(bytes) {
            let payload = payload?;
            self.note(&payload, depth)?;
            match validator.payload(&payload)? {
                ValidPayload::Parser(_) => {
                    depth += 1;
                    bound("levels of nesting", depth, DEPTH, 0)?;
                    self.outer_types.push(std::mem::take(&mut self.type_parameters));
                }
                ValidPayload::End(_) => {
                    depth = depth.saturating_sub(1);
                    self.type_parameters = self.outer_types.pop().unwrap_or_default();
                }
                ValidPayload::Func(func, body) => {
                    scratch = self.read_function(func, &body, scratch)?;
                }
                ValidPayload::Ok => {}
            }
        }
        Ok(())
    }

    fn note(&mut self, payload: &Payload<'_>, depth: u64) -> Result<(), Fault> {
        match payload {
            Payload::Version { encoding, range, .. } => match encoding {
                Encoding::Module => {
                    self.found.modules += 1;
                    bound("core modules", self.found.modules, MODULES, range.start)?;
                }
                Encoding::Component => self.found.is_component |= depth == 0,
            },
            Payload::TypeSection(types) => {
                bound("types", types.count().into(), TYPES, types.range().start)?;
                for group in types.clone() {
                    for ty in group?.into_types() {
                        let parameters = match &ty.composite_type.inner {
                            wasmparser::CompositeInnerType::Func(func) => func.params().len(),
                            _ => 0,
                        };
                        self.type_parameters.push(parameters as u64);
                    }
                }
            }
            Payload::ImportSection(imports) => {
                bound("imports", imports.count().into(), IMPORTS, imports.range().start)?;
                for import in imports.clone().into_imports() {
                    let import = import?;
                    if let TypeRef::Memory(ty) = import.ty {
                        self.note_memory(ty.initial, imports.range().start)?;
                    }
                    if depth == 0 {
                        self.found.imports.push((import.module.to_owned(), import.name.to_owned()));
                    }
                }
            }
            Payload::FunctionSection(functions) => {
                let start = functions.range().start;
                self.found.functions += u64::from(functions.count());
                bound("functions", self.found.functions, FUNCTIONS, start)?;
                for ty in functions.clone() {
                    let parameters = self.type_parameters.get(ty? as usize).copied().unwrap_or(0);
                    self.parameters += parameters;
                    bound("parameters of a function", parameters, PARAMETERS, start)?;
                    bound("parameters in all", self.parameters, PARAMETERS_IN_ALL, start)?;
                }
            }
            Payload::TableSection(tables) => {
                for table in tables.clone() {
                    let most = EngineLimits::TABLE_ELEMENTS as u64;
                    bound("elements in a table", table?.ty.initial, most, tables.range().start)?;
                }
            }
            Payload::MemorySection(memories) => {
                for ty in memories.clone() {
                    self.note_memory(ty?.initial, memories.range().start)?;
                }
            }
            Payload::GlobalSection(globals) => {
                bound("globals", globals.count().into(), GLOBALS, globals.range().start)?;
            }
            Payload::ExportSection(exports) => {
                bound("exports", exports.count().into(), EXPORTS, exports.range().start)?;
                if depth == 0 {
                    for export in exports.clone() {
                        self.found.exports.insert(export?.name.to_owned());
                    }
                }
            }
            Payload::ElementSection(elements) => {
                let count = elements.count().into();
                bound("element segments", count, ELEMENT_SEGMENTS, elements.range().start)?;
            }
            Payload::DataSection(data) => {
                bound("data segments", data.count().into(), DATA_SEGMENTS, data.range().start)?;
            }
            Payload::ComponentImportSection(imports) if depth == 0 => {
                bound("imports", imports.count().into(), IMPORTS, imports.range().start)?;
                for import in imports.clone() {
                    self.found.imports.push((import?.name.name.to_owned(), String::new()));
                }
            }
            Payload::ComponentExportSection(exports) if depth == 0 => {
                bound("exports", exports.count().into(), EXPORTS, exports.range().start)?;
                for export in exports.clone() {
                    self.found.exports.insert(export?.name.name.to_owned());
                }
            }
            Payload::CustomSection(section) => self.note_custom(section, depth),
            _ => {}
        }
        Ok(())
    }

    fn note_memory(&mut self, pages: u64, offset: usize) -> Result<(), Fault> {
        let total = &mut self.found.initial_memory_bytes;
        *total = total.saturating_add(pages.saturating_mul(64 << 10));
        bound("bytes of initial memory", *total, self.max_memory_bytes, offset)
    }

    fn note_custom(&mut self, section: &CustomSectionReader<'_>, depth: u64) {
        if depth == 0 && section.name().starts_with("component-type") {
            self.found.has_component_type = true;
        }
        if section.name() == "producers" {
            let reader = BinaryReader::new(section.data(), section.data_offset());
            if let Ok(producers) = ProducersSectionReader::new(reader) {
                self.found.producers.read(producers);
            }
        }
    }

    fn read_function(
        &mut self,
        func: FuncToValidate<ValidatorResources>,
        body: &FunctionBody<'_>,
        scratch: FuncValidatorAllocations,
    ) -> Result<FuncValidatorAllocations, Fault> {
        let start = body.range().start;
        bound("bytes in a function", body.range().len() as u64, BODY_BYTES, start)?;
        let mut locals = 0_u64;
        for declared in body.get_locals_reader()? {
            locals = locals.saturating_add(u64::from(declared?.0));
        }
        bound("locals of a function", locals, LOCALS, start)?;
        let (mut calls, mut nesting) = (0_u64, 0_u64);
        let mut operators = body.get_operators_reader()?;
        while !operators.eof() {
            let offset = operators.original_position();
            match operators.read()? {
                Operator::Call { .. }
                | Operator::CallIndirect { .. }
                | Operator::ReturnCall { .. }
                | Operator::ReturnCallIndirect { .. } => {
                    calls += 1;
                    bound("call sites in a function", calls, CALLS, offset)?;
                }
                Operator::Block { .. } | Operator::Loop { .. } | Operator::If { .. } => {
                    nesting += 1;
                    bound("nested blocks", nesting, NESTING, offset)?;
                }
                Operator::End => nesting = nesting.saturating_sub(1),
                Operator::BrTable { targets } => {
                    let count = u64::from(targets.len());
                    self.branch_targets += count;
                    bound("targets of a branch table", count, BRANCH_TARGETS, offset)?;
                    let all = self.branch_targets;
                    bound("branch targets in all", all, BRANCH_TARGETS_IN_ALL, offset)?;
                }
                _ => {}
            }
        }
        let mut validator = func.into_validator(scratch);
        validator.validate(body)?;
        Ok(validator.into_allocations())
    }
}
