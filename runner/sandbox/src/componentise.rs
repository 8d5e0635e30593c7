//! Turns a core module that carries a component type (what wit-bindgen leaves behind on
//! `wasm32-wasip1` and `wasm32-unknown-unknown`) into the component it stands for.

use stokehold_domain::problem::clean;
use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER,
};
use wit_component::ComponentEncoder;

use crate::Refusal;

/// The component around a core module. The module has passed the gate already; the caller passes
/// the result through it too.
pub(crate) fn componentise(module: &[u8]) -> Result<Vec<u8>, Refusal> {
    let encoded = ComponentEncoder::default()
        .module(module)
        .and_then(|encoder| {
            encoder.adapter(
                WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME,
                WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER,
            )
        })
        .and_then(|mut encoder| encoder.encode());
    encoded.map_err(|error| Refusal::Componentise { reason: clean(&format!("{error:#}"), 1_000) })
}
