//! Log lines, kept by the host with the attempt.
//!
//! The macros are those of the `log` crate; everything that any crate logs through it (and, with
//! the feature `tracing`, through `tracing`) arrives as well. Past its budget the host keeps the
//! first and the last lines and counts the rest: logging never fails.

pub use ::log::{debug, error, info, trace, warn};

use ::log::kv::{Error as FieldError, Key, Value, VisitSource};
use ::log::{LevelFilter, Metadata, Record};

use crate::bindings::stokehold::job::log as host;

/// How much a line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// For following every step.
    Trace,
    /// For finding a fault.
    Debug,
    /// Worth knowing.
    Info,
    /// Something is odd.
    Warn,
    /// Something failed.
    Error,
}

/// Sends one line with its fields to the host, whatever level the handler asked for.
pub fn emit(level: Level, message: &str, fields: &[(String, String)]) {
    if cfg!(target_family = "wasm") {
        host::emit(level.into(), message, fields);
    } else {
        // There is no host in a native test: the line goes where its reader looks.
        let fields: String = fields.iter().map(|(key, value)| format!(" {key}={value}")).collect();
        eprintln!("{level:?} {message}{fields}");
    }
}

impl From<Level> for host::Level {
    fn from(level: Level) -> Self {
        match level {
            Level::Trace => Self::Trace,
            Level::Debug => Self::Debug,
            Level::Info => Self::Info,
            Level::Warn => Self::Warn,
            Level::Error => Self::Error,
        }
    }
}

impl From<::log::Level> for Level {
    fn from(level: ::log::Level) -> Self {
        match level {
            ::log::Level::Trace => Self::Trace,
            ::log::Level::Debug => Self::Debug,
            ::log::Level::Info => Self::Info,
            ::log::Level::Warn => Self::Warn,
            ::log::Level::Error => Self::Error,
        }
    }
}

/// Sends what is logged to the host, up to the level that the attribute names.
pub(crate) fn install(level: &str) {
    let filter = level.parse().unwrap_or(LevelFilter::Info);
    // Only the first logger of a process counts; one that the handler installed earlier stays.
    if ::log::set_logger(&HostLogger).is_ok() {
        ::log::set_max_level(filter);
    }
    #[cfg(feature = "tracing")]
    crate::tracing::install(filter);
}

struct HostLogger;

impl ::log::Log for HostLogger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= ::log::max_level()
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let mut fields = Fields(vec![("target".to_owned(), record.target().to_owned())]);
        // Collecting into a vector cannot fail.
        let _ = record.key_values().visit(&mut fields);
        emit(record.level().into(), &record.args().to_string(), &fields.0);
    }

    fn flush(&self) {}
}

struct Fields(Vec<(String, String)>);

impl<'kvs> VisitSource<'kvs> for Fields {
    fn visit_pair(&mut self, key: Key<'kvs>, value: Value<'kvs>) -> Result<(), FieldError> {
        self.0.push((key.as_str().to_owned(), value.to_string()));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_of_a_record_become_pairs() {
        let mut fields = Fields(Vec::new());
        let pairs = [("width", 3), ("height", 4)];
        ::log::kv::Source::visit(&pairs[..], &mut fields).expect("a vector takes all");
        let expected = [("width".to_owned(), "3".to_owned()), ("height".into(), "4".into())];
        assert_eq!(fields.0, expected);
    }
}
