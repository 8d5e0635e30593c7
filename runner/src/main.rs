//! Background jobs out of PostgreSQL, each in its own WebAssembly sandbox: the one binary.

mod bench;
mod cli;
mod client;
mod demo;
mod dev;
mod postgres;
mod services;
mod shutdown;
mod telemetry;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
