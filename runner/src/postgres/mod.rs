//! A PostgreSQL server as our own child process: what `stokehold dev`, the demo and the tests run on.
//!
//! The server binaries are those of the machine; nothing is downloaded here. The cluster lives in a
//! private folder, speaks over a socket in it and not over the network, and is durable unless it is
//! meant to be thrown away. One process owns a folder at a time: it holds a lock on it. The server
//! dies with its owner, however that ends: the kernel sends it a fast-shutdown signal.

mod binaries;
mod cluster;
mod folder;
pub(crate) mod keeper;
mod server;

pub(crate) use binaries::{Binaries, FOLDER_VARIABLE};
pub(crate) use folder::Folder;
pub(crate) use server::{Durability, Server};
