//! Log lines of an attempt, kept within a budget: the first and the last, with a count of the rest.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::problem::clean;

/// The longest log line, in bytes; what is longer is cut.
pub const MAX_LINE_BYTES: usize = 8 << 10;
/// The most fields of a line that are kept.
pub const MAX_FIELDS: usize = 32;

/// How much a line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Finest detail.
    Trace,
    /// For the author.
    Debug,
    /// Normal course.
    Info,
    /// Odd, but going on.
    Warn,
    /// Went wrong.
    Error,
}

impl Level {
    /// The level as people write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Level::Trace => "trace",
            Level::Debug => "debug",
            Level::Info => "info",
            Level::Warn => "warn",
            Level::Error => "error",
        }
    }
}

/// One line that a handler wrote, already cleaned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    /// Microseconds since the attempt began, by the node's monotonic clock.
    pub offset_us: u64,
    /// How much it matters.
    pub level: Level,
    /// The text.
    pub message: String,
    /// Flat pairs beside the text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<(String, String)>,
}

impl LogLine {
    /// A line with every part bounded and cleaned.
    pub fn new(offset_us: u64, level: Level, message: &str, fields: &[(String, String)]) -> Self {
        let mut room = MAX_LINE_BYTES;
        let mut take = |text: &str| {
            let text = clean(text, room);
            room = room.saturating_sub(text.len());
            text
        };
        let message = take(message);
        let fields = fields.iter().take(MAX_FIELDS).map(|(k, v)| (take(k), take(v))).collect();
        LogLine { offset_us, level, message, fields }
    }

    fn cost(&self) -> usize {
        // What a line costs beside its text: the row's and the JSON's own bytes, roughly.
        const OVERHEAD_BYTES: usize = 32;
        let fields: usize = self.fields.iter().map(|(k, v)| k.len() + v.len()).sum();
        OVERHEAD_BYTES + self.message.len() + fields
    }
}

/// Keeps the first quarter of the budget and the last three quarters; counts what fell out between.
/// It never refuses a line and never grows past its budget: a handler cannot end, or hurt the node,
/// by logging.
#[derive(Clone, Debug)]
pub struct LogTail {
    budget: usize,
    head: Vec<LogLine>,
    head_bytes: usize,
    head_full: bool,
    tail: VecDeque<LogLine>,
    tail_bytes: usize,
    dropped: u64,
}

impl LogTail {
    /// Keeps at most about `budget_bytes` of text.
    pub fn new(budget_bytes: u64) -> Self {
        LogTail {
            budget: usize::try_from(budget_bytes).unwrap_or(usize::MAX),
            head: Vec::new(),
            head_bytes: 0,
            head_full: false,
            tail: VecDeque::new(),
            tail_bytes: 0,
            dropped: 0,
        }
    }

    /// Adds a line, dropping from the middle if it does not fit.
    pub fn push(&mut self, line: LogLine) {
        let cost = line.cost();
        if !self.head_full && self.head_bytes + cost <= self.budget / 4 {
            self.head_bytes += cost;
            self.head.push(line);
            return;
        }
        self.head_full = true;
        self.tail_bytes += cost;
        self.tail.push_back(line);
        while self.tail_bytes > self.budget - self.budget / 4 && self.tail.len() > 1 {
            if let Some(oldest) = self.tail.pop_front() {
                self.tail_bytes -= oldest.cost();
                self.dropped += 1;
            }
        }
    }

    /// Lines that fell out.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// What the kept lines cost of the budget, in bytes.
    pub fn kept_bytes(&self) -> u64 {
        (self.head_bytes + self.tail_bytes) as u64
    }

    /// Nothing was logged.
    pub fn is_empty(&self) -> bool {
        self.head.is_empty() && self.tail.is_empty()
    }

    /// The last line kept, if any.
    pub fn last(&self) -> Option<&LogLine> {
        self.tail.back().or(self.head.last())
    }

    /// All kept lines in order. Where lines fell out, a warning stands that says how many.
    pub fn into_lines(self) -> Vec<LogLine> {
        let mut lines = self.head;
        if self.dropped > 0 {
            let offset_us = self.tail.front().map_or(0, |line| line.offset_us);
            let text = format!(
                "{} lines dropped: over the log limit of {} bytes",
                self.dropped, self.budget
            );
            lines.push(LogLine::new(offset_us, Level::Warn, &text, &[]));
        }
        lines.extend(self.tail);
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_keeps_the_first_and_the_last_lines_and_counts_the_rest() {
        let mut tail = LogTail::new(4096);
        for n in 0..10_000 {
            tail.push(LogLine::new(n, Level::Info, &format!("line {n}"), &[]));
        }
        let dropped = tail.dropped();
        let lines = tail.into_lines();
        assert_eq!(lines.first().unwrap().message, "line 0");
        assert_eq!(lines.last().unwrap().message, "line 9999");
        assert_eq!(lines.len() as u64 + dropped, 10_000 + 1);
        assert!(lines.iter().any(|line| line.message.contains("lines dropped")));
    }

    #[test]
    fn one_giant_line_is_cut_and_kept() {
        let mut tail = LogTail::new(100);
        tail.push(LogLine::new(0, Level::Info, &"x".repeat(1 << 20), &[("k".into(), "v".into())]));
        let lines = tail.into_lines();
        assert_eq!(lines[0].message.len(), MAX_LINE_BYTES);
    }
}
