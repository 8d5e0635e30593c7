//! Where a guest's output goes: lines into the log, or bytes into the result of a command.
//!
//! These streams never fail and never wait. A pipe that reports itself full ends a program that only
//! wanted to log (Rust's `println!` panics), so what does not fit is counted and dropped instead.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use serde_json::{Map, Value};
use stokehold_domain::Level;
use stokehold_domain::log::MAX_LINE_BYTES;
use stokehold_domain::problem::clean;
use tokio::io::AsyncWrite;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};

use crate::control::{Shared, lock};
use crate::meter::FUEL_PER_BYTE;
use crate::panic_text::PanicText;

/// Fuel of a line beside its bytes: many empty lines are not free.
const FUEL_PER_LINE: u64 = 100;
/// Bytes that a guest may write in one go. The host buffers no more than this for it.
const PERMIT_BYTES: usize = 64 << 10;
/// Lines of standard error kept for the message of a failure.
const LAST_LINES: usize = 8;
/// Bytes of each of them that are kept.
const LAST_LINE_BYTES: usize = 500;

/// The output of one attempt, of which the streams hold clones.
#[derive(Debug)]
pub(crate) struct Stdio {
    pub(crate) stderr: Arc<Lines>,
    /// Lines of a typed handler, or the result of a command.
    pub(crate) stdout: Stdout,
}

#[derive(Debug)]
pub(crate) enum Stdout {
    Lines(Arc<Lines>),
    Result(Arc<ResultBytes>),
}

impl Stdio {
    pub(crate) fn result_is_over(&self) -> bool {
        matches!(&self.stdout, Stdout::Result(result) if result.is_over())
    }

    /// Logs what the guest wrote without ending the line.
    pub(crate) fn finish(&self) {
        self.stderr.finish();
        if let Stdout::Lines(lines) = &self.stdout {
            lines.finish();
        }
    }
}

/// Something that takes output and never refuses it.
pub(crate) trait Sink: Send + Sync + 'static {
    fn take(&self, bytes: &[u8]);
}

/// Output cut into log lines.
#[derive(Debug)]
pub(crate) struct Lines {
    shared: Arc<Shared>,
    cutter: Mutex<Cutter>,
}

#[derive(Debug, Default)]
struct Cutter {
    pending: Vec<u8>,
    last: VecDeque<String>,
    panic: PanicText,
}

impl Lines {
    pub(crate) fn new(shared: Arc<Shared>) -> Arc<Self> {
        Arc::new(Lines { shared, cutter: Mutex::default() })
    }

    fn finish(&self) {
        let mut cutter = lock(&self.cutter);
        if !cutter.pending.is_empty() {
            let line = std::mem::take(&mut cutter.pending);
            self.log(&mut cutter, &line);
        }
    }

    fn log(&self, cutter: &mut Cutter, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        let text = text.trim_end_matches('\r');
        self.shared.owe_fuel(FUEL_PER_LINE);
        let (level, message, fields) =
            structured(text).unwrap_or_else(|| (Level::Info, text.to_owned(), Vec::new()));
        cutter.panic.read(text);
        if !message.trim().is_empty() {
            if cutter.last.len() == LAST_LINES {
                cutter.last.pop_front();
            }
            cutter.last.push_back(clean(&message, LAST_LINE_BYTES));
        }
        self.shared.emit(level, &message, &fields);
    }

    /// The last lines that say anything, oldest first.
    pub(crate) fn last(&self, count: usize) -> Vec<String> {
        let cutter = lock(&self.cutter);
        let skipped = cutter.last.len().saturating_sub(count);
        cutter.last.iter().skip(skipped).cloned().collect()
    }

    /// The message of a panic that was printed, if one was.
    pub(crate) fn panic_text(&self) -> Option<String> {
        lock(&self.cutter).panic.message()
    }
}

impl Sink for Lines {
    fn take(&self, mut bytes: &[u8]) {
        self.shared.owe_for_log(bytes.len());
        let mut cutter = lock(&self.cutter);
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            let line = if cutter.pending.is_empty() {
                bytes[..end].to_vec()
            } else {
                cutter.hold(&bytes[..end]);
                std::mem::take(&mut cutter.pending)
            };
            self.log(&mut cutter, &line);
            bytes = &bytes[end + 1..];
        }
        cutter.hold(bytes);
    }
}

impl Cutter {
    /// Keeps the start of a line that is too long; its rest would be cut anyway.
    fn hold(&mut self, bytes: &[u8]) {
        let room = MAX_LINE_BYTES.saturating_sub(self.pending.len());
        self.pending.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}

/// Level, message and fields.
type Structured = (Level, String, Vec<(String, String)>);

/// A line that is a JSON object with `level` and `msg` (or `message`); its other members become
/// fields.
fn structured(text: &str) -> Option<Structured> {
    if !text.starts_with('{') {
        return None;
    }
    let mut object: Map<String, Value> = serde_json::from_str(text).ok()?;
    let level = match object.get("level")?.as_str()?.to_ascii_lowercase().as_str() {
        "trace" => Level::Trace,
        "debug" => Level::Debug,
        "info" | "notice" => Level::Info,
        "warn" | "warning" => Level::Warn,
        "error" | "err" | "fatal" | "critical" | "panic" => Level::Error,
        _ => return None,
    };
    let key = if object.contains_key("msg") { "msg" } else { "message" };
    let message = object.get(key)?.as_str()?.to_owned();
    object.remove("level");
    object.remove(key);
    let fields = object.into_iter().map(|(name, value)| match value {
        Value::String(text) => (name, text),
        other => (name, other.to_string()),
    });
    Some((level, message, fields.collect()))
}

/// What a command printed, up to its limit and counted beyond.
#[derive(Debug)]
pub(crate) struct ResultBytes {
    shared: Arc<Shared>,
    most_bytes: u64,
    written: Mutex<Written>,
}

#[derive(Debug, Default)]
struct Written {
    bytes: Vec<u8>,
    total: u64,
}

impl ResultBytes {
    pub(crate) fn new(shared: Arc<Shared>, most_bytes: u64) -> Arc<Self> {
        Arc::new(ResultBytes { shared, most_bytes, written: Mutex::default() })
    }

    pub(crate) fn is_over(&self) -> bool {
        self.total() > self.most_bytes
    }

    /// Bytes written so far, kept or not.
    pub(crate) fn total(&self) -> u64 {
        lock(&self.written).total
    }

    pub(crate) fn take_bytes(&self) -> Vec<u8> {
        std::mem::take(&mut lock(&self.written).bytes)
    }
}

impl Sink for ResultBytes {
    fn take(&self, bytes: &[u8]) {
        self.shared.owe_fuel(bytes.len() as u64 * FUEL_PER_BYTE);
        let mut written = lock(&self.written);
        written.total += bytes.len() as u64;
        if written.total <= self.most_bytes {
            written.bytes.extend_from_slice(bytes);
        }
    }
}

/// A stream of WASI over a sink.
pub(crate) struct Pipe<S>(pub(crate) Arc<S>);

impl<S> Clone for Pipe<S> {
    fn clone(&self) -> Self {
        Pipe(Arc::clone(&self.0))
    }
}

impl<S: Sink> StdoutStream for Pipe<S> {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

impl<S> IsTerminal for Pipe<S> {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl<S: Sink> OutputStream for Pipe<S> {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.0.take(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(PERMIT_BYTES)
    }
}

#[wasmtime_wasi::async_trait]
impl<S: Sink> Pollable for Pipe<S> {
    async fn ready(&mut self) {}
}

impl<S: Sink> AsyncWrite for Pipe<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let taken = &buf[..buf.len().min(PERMIT_BYTES)];
        self.0.take(taken);
        Poll::Ready(Ok(taken.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_json_line_with_level_and_message_is_structured_and_any_other_is_text() {
        let (level, message, fields) =
            structured(r#"{"level":"WARN","msg":"slow","took_ms":12,"who":"a"}"#).unwrap();
        assert_eq!((level, message.as_str()), (Level::Warn, "slow"));
        assert_eq!(fields, [("took_ms".into(), "12".into()), ("who".into(), "a".into())]);
        for plain in [r#"{"msg":"no level"}"#, r#"{"level":"info"}"#, "{", "x", r#"[1]"#] {
            assert!(structured(plain).is_none(), "{plain}");
        }
    }

    #[test]
    fn a_line_may_come_in_pieces_and_one_without_end_is_cut() {
        let lines = Lines::new(Arc::default());
        lines.take(b"one\ntw");
        lines.take(b"o\r\n");
        for _ in 0..100 {
            lines.take(&[b'x'; 1000]);
        }
        lines.finish();
        let last = lines.last(10);
        assert_eq!(last[..2], ["one", "two"]);
        assert_eq!(last[2].len(), LAST_LINE_BYTES);
        assert!(lock(&lines.cutter).pending.is_empty());
    }

    #[test]
    fn a_result_over_its_limit_is_counted_and_not_kept() {
        let result = ResultBytes::new(Arc::default(), 10);
        result.take(&[1; 10]);
        assert!(!result.is_over());
        result.take(&[1; 1000]);
        assert!(result.is_over());
        assert_eq!((result.total(), result.take_bytes().len()), (1010, 10));
    }
}
