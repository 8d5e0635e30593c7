//! The handlers that a benchmark runs: its own, which do next to nothing, or anybody's module.

use std::path::Path;

use bytes::Bytes;
use stokehold_domain::EngineLimits;

use crate::cli::payload::read_file;

/// The names of the handlers that the binary carries, each with its module.
const OWN: [(&str, &[u8]); 4] = [
    ("noop", include_bytes!(concat!(env!("OUT_DIR"), "/noop.wasm"))),
    ("noop-command", include_bytes!(concat!(env!("OUT_DIR"), "/noop-command.wasm"))),
    (SLEEP, include_bytes!(concat!(env!("OUT_DIR"), "/sleep.wasm"))),
    ("clock", include_bytes!(concat!(env!("OUT_DIR"), "/clock.wasm"))),
];
const SLEEP: &str = "sleep";

/// A module with the name that reports give it.
#[derive(Clone, Debug)]
pub(crate) struct Handler {
    /// One of the own names, or the file's.
    pub(crate) name: String,
    /// The module as it is uploaded.
    pub(crate) bytes: Bytes,
}

impl Handler {
    /// One of our own by its name, else the module in the file.
    pub(crate) fn find(text: &str) -> anyhow::Result<Handler> {
        let own = OWN.iter().find(|(name, _)| *name == text);
        if let Some((name, bytes)) = own {
            return Ok(Handler { name: (*name).to_owned(), bytes: Bytes::from_static(bytes) });
        }
        let path = Path::new(text);
        let bytes = read_file(path, "handler", EngineLimits::MODULE_BYTES as u64)?;
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        Ok(Handler { name, bytes: bytes.into() })
    }

    /// The component that does nothing.
    pub(crate) fn noop() -> Handler {
        let (name, bytes) = OWN[0];
        Handler { name: name.to_owned(), bytes: Bytes::from_static(bytes) }
    }

    /// The command that sleeps for as many milliseconds as its payload says.
    pub(crate) fn sleep() -> Handler {
        let (name, bytes) = OWN[2];
        Handler { name: name.to_owned(), bytes: Bytes::from_static(bytes) }
    }

    /// The command that answers with the time of its first instruction.
    pub(crate) fn clock() -> Handler {
        let (name, bytes) = OWN[3];
        Handler { name: name.to_owned(), bytes: Bytes::from_static(bytes) }
    }

    /// True for the one that sleeps.
    pub(crate) fn sleeps(&self) -> bool {
        self.name == SLEEP
    }

    /// The same code as another module: a section that nobody reads makes its digest differ.
    pub(crate) fn variant(&self, number: u32) -> Handler {
        let mut bytes = self.bytes.to_vec();
        // A custom section: its id, its length, and in it a name with its length and the content.
        bytes.extend([0, 10, 5]);
        bytes.extend(b"bench");
        bytes.extend(number.to_le_bytes());
        Handler { name: format!("{}-{number}", self.name), bytes: bytes.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_handlers_go_by_their_names_and_others_by_their_file() {
        for (name, bytes) in OWN {
            let handler = Handler::find(name).unwrap();
            assert_eq!((handler.name.as_str(), &handler.bytes[..]), (name, bytes));
        }
        let error = Handler::find("nowhere/at.wasm").unwrap_err().to_string();
        assert!(error.contains("there is no handler file nowhere/at.wasm"), "{error}");
    }

    #[tokio::test]
    async fn variants_are_different_modules_that_are_admitted() {
        let config = stokehold_sandbox::SandboxConfig { slots: 2, ..Default::default() };
        let sandbox = crate::services::start_sandbox(config).await.unwrap();
        for handler in [
            Handler::noop(),
            Handler::find("noop-command").unwrap(),
            Handler::sleep(),
            Handler::clock(),
        ] {
            let plain = sandbox.admit(&handler.bytes).unwrap().digest;
            let one = sandbox.admit(&handler.variant(1).bytes).unwrap().digest;
            let other = sandbox.admit(&handler.variant(2).bytes).unwrap().digest;
            assert!(plain != one && one != other, "{}", handler.name);
        }
    }
}
