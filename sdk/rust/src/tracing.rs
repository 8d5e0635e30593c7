//! Sends what `tracing` records to the host: events as lines, and the fields of the spans they
//! happened in with them. Made for one thread: a handler has no other.

use std::fmt::{Debug, Write};
use std::sync::Mutex;

use log::LevelFilter;
use tracing_core::field::{Field, Visit};
use tracing_core::span::{Attributes, Current, Id, Record};
use tracing_core::{Dispatch, Event, Level, Metadata, Subscriber, dispatcher};

use crate::log::{Level as LineLevel, emit};

type Pairs = Vec<(String, String)>;

/// Makes the host the receiver, unless the handler chose another one.
pub(crate) fn install(filter: LevelFilter) {
    let _ = dispatcher::set_global_default(Dispatch::new(HostSubscriber::new(filter)));
}

struct HostSubscriber {
    filter: LevelFilter,
    spans: Mutex<Spans>,
}

/// Ids are places in `all`, from 1. Spans are never dropped before the instance is, which lives
/// for one attempt only.
#[derive(Default)]
struct Spans {
    all: Vec<(&'static Metadata<'static>, Pairs)>,
    entered: Vec<Id>,
}

impl HostSubscriber {
    fn new(filter: LevelFilter) -> Self {
        Self { filter, spans: Mutex::default() }
    }

    fn spans(&self) -> std::sync::MutexGuard<'_, Spans> {
        self.spans.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The line that an event makes: its message, and its fields after those of its spans.
    fn line(&self, event: &Event<'_>) -> (String, Pairs) {
        let spans = self.spans();
        let mut path = String::new();
        let mut pairs = vec![("target".to_owned(), event.metadata().target().to_owned())];
        for (metadata, fields) in spans.entered.iter().filter_map(|id| spans.all.get(place(id))) {
            let separator = if path.is_empty() { "" } else { ">" };
            let _ = write!(path, "{separator}{}", metadata.name());
            pairs.extend(fields.iter().cloned());
        }
        if !path.is_empty() {
            pairs.push(("span".to_owned(), path));
        }
        let mut own = Collected::default();
        event.record(&mut own);
        pairs.extend(own.pairs);
        (own.message, pairs)
    }
}

fn place(id: &Id) -> usize {
    usize::try_from(id.into_u64()).unwrap_or(usize::MAX).wrapping_sub(1)
}

impl Subscriber for HostSubscriber {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        log_level(metadata.level()) <= self.filter
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut fields = Collected::default();
        span.record(&mut fields);
        let mut spans = self.spans();
        spans.all.push((span.metadata(), fields.pairs));
        Id::from_u64(spans.all.len() as u64)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        let mut fields = Collected::default();
        values.record(&mut fields);
        if let Some((_, pairs)) = self.spans().all.get_mut(place(span)) {
            pairs.extend(fields.pairs);
        }
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let (message, pairs) = self.line(event);
        emit(line_level(event.metadata().level()), &message, &pairs);
    }

    fn enter(&self, span: &Id) {
        self.spans().entered.push(span.clone());
    }

    fn exit(&self, span: &Id) {
        let mut spans = self.spans();
        if let Some(last) = spans.entered.iter().rposition(|entered| entered == span) {
            spans.entered.remove(last);
        }
    }

    fn current_span(&self) -> Current {
        let spans = self.spans();
        let found = spans.entered.last().and_then(|id| Some((id, spans.all.get(place(id))?.0)));
        match found {
            Some((id, metadata)) => Current::new(id.clone(), metadata),
            None => Current::none(),
        }
    }
}

#[derive(Default)]
struct Collected {
    message: String,
    pairs: Pairs,
}

impl Visit for Collected {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            self.message.push_str(value);
        } else {
            self.pairs.push((field.name().to_owned(), value.to_owned()));
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

fn log_level(level: &Level) -> log::Level {
    match *level {
        Level::ERROR => log::Level::Error,
        Level::WARN => log::Level::Warn,
        Level::INFO => log::Level::Info,
        Level::DEBUG => log::Level::Debug,
        _ => log::Level::Trace,
    }
}

fn line_level(level: &Level) -> LineLevel {
    log_level(level).into()
}
