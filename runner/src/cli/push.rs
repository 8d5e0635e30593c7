//! `stokehold push`: upload a handler and make it a release of a kind.

use std::path::PathBuf;

use bytes::Bytes;
use serde::Serialize;
use stokehold_api::wire::{KindChange, Limits, NewRelease, ReleaseInfo, UploadedModule};
use stokehold_domain::EngineLimits;

use super::kind::kind_name;
use super::limits::LimitArgs;
use super::output::Output;
use super::payload::read_file;
use super::server::Server;
use super::{module, units};

/// Push a handler: upload the module, make a release of a kind, activate it
///
/// FILE is a WebAssembly component that exports stokehold:job/handler, or any WASI command: then the
/// payload is its stdin, the result its stdout, the log its stderr, and its exit status says whether
/// it worked. The kind is made when it is absent. Every push makes a new numbered release; jobs of
/// the kind run it from their next attempt on.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  stokehold push resize.wasm --kind image.resize
  stokehold push report.wasm --kind report --queue slow --timeout 10m --memory 512MiB
  stokehold push resize.wasm --kind image.resize --no-activate    then: stokehold kind activate")]
pub(crate) struct Args {
    /// The compiled handler, a .wasm file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The kind of job that it handles, such as image.resize
    #[arg(long, short, value_name = "KIND", value_parser = kind_name)]
    kind: String,
    /// The queue that the kind's jobs wait in; a new kind has `default`
    #[arg(long, short, value_name = "QUEUE")]
    queue: Option<String>,
    /// Tries in all for the kind's jobs; a new kind has 20
    #[arg(long, value_name = "N")]
    max_attempts: Option<u32>,
    /// Make the release and let jobs go on with the present one
    #[arg(long)]
    no_activate: bool,
    #[command(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    server: Server,
}

/// The JSON document.
#[derive(Serialize)]
struct Pushed<'a> {
    module: &'a UploadedModule,
    release: &'a ReleaseInfo,
}

/// Runs the command.
pub(crate) async fn run(args: Args, output: &Output) -> anyhow::Result<()> {
    let client = args.server.client()?;
    let bytes = read_file(&args.file, "module", EngineLimits::MODULE_BYTES as u64)?;
    let uploaded = client.upload_module(Bytes::from(bytes)).await?;
    // After the upload, so that a refused module leaves no empty kind behind.
    let change =
        KindChange { queue: args.queue, max_attempts: args.max_attempts, ..KindChange::default() };
    client.put_kind(&args.kind, &change).await?;
    let wish = NewRelease {
        digest: uploaded.module.digest,
        limits: args.limits.change(),
        activate: !args.no_activate,
    };
    let release = client.create_release(&args.kind, &wish).await?;
    if output.is_json() {
        output.document(&Pushed { module: &uploaded, release: &release })?;
        return Ok(());
    }
    let mut fields = module::fields(&uploaded.module);
    fields.push(("limits", limits(&release.limits)));
    let state = if release.active { "active" } else { "not active" };
    fields.push(("release", format!("{} {}, {state}", release.kind, release.number)));
    output.fields(&fields)?;
    if release.active {
        output.note(format!("try it: stokehold enqueue {} --payload @FILE --wait", release.kind));
    } else {
        output.note(format!(
            "switch to it: stokehold kind activate {} {}",
            release.kind, release.number
        ));
    }
    Ok(())
}

/// Limits in one line.
pub(super) fn limits(limits: &Limits) -> String {
    format!(
        "fuel {}, time {}, memory {}, result {}, log {}, calls {}",
        units::count(limits.fuel),
        units::duration(std::time::Duration::from_millis(limits.timeout_ms)),
        units::bytes(limits.memory_bytes),
        units::bytes(limits.result_bytes),
        units::bytes(limits.log_bytes),
        units::count(limits.host_calls),
    )
}
