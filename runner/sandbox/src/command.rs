//! Entering a plain program: WASI preview 1 natively, or a `wasi:cli/run` component.

use wasmtime::{InstancePre, ModuleExport, Store};
use wasmtime_wasi::I32Exit;
use wasmtime_wasi::p2::bindings::CommandPre;

use crate::state::State;

/// Instantiates the module and runs `_start`. An exit status arrives as an error of type
/// [`I32Exit`]; returning is status 0.
pub(crate) async fn enter(
    store: &mut Store<State>,
    pre: &InstancePre<State>,
    start: &ModuleExport,
) -> wasmtime::Result<()> {
    let instance = pre.instantiate_async(&mut *store).await?;
    let start = instance
        .get_module_export(&mut *store, start)
        .and_then(|export| export.into_func())
        .ok_or_else(|| wasmtime::Error::msg("`_start` is not a function"))?
        .typed::<(), ()>(&*store)?;
    start.call_async(store, ()).await
}

/// Instantiates the component and calls `wasi:cli/run`.
pub(crate) async fn enter_component(
    store: &mut Store<State>,
    pre: &CommandPre<State>,
) -> wasmtime::Result<()> {
    let command = pre.instantiate_async(&mut *store).await?;
    match command.wasi_cli_run().call_run(store).await? {
        Ok(()) => Ok(()),
        Err(()) => Err(I32Exit(1).into()),
    }
}
