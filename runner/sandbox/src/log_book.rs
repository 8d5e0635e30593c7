//! The log of one attempt while it is being written.

use std::sync::Arc;
use std::time::Instant;

use stokehold_domain::{ClaimToken, JobId, Level, LogLine, LogTail};

use crate::guest_log::GuestLogFile;

/// Lines of an attempt not yet taken, within a budget over the whole attempt.
#[derive(Debug, Default)]
pub(crate) struct LogBook {
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    job_id: JobId,
    token: ClaimToken,
    attempt: u16,
    started: Instant,
    budget_bytes: u64,
    taken_bytes: u64,
    tail: LogTail,
    file: Option<Arc<GuestLogFile>>,
}

/// Whose log it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Author {
    pub(crate) job_id: JobId,
    pub(crate) token: ClaimToken,
    pub(crate) attempt: u16,
}

impl LogBook {
    pub(crate) fn open(
        &mut self,
        author: Author,
        started: Instant,
        budget_bytes: u64,
        file: Option<Arc<GuestLogFile>>,
    ) {
        self.open = Some(Open {
            job_id: author.job_id,
            token: author.token,
            attempt: author.attempt,
            started,
            budget_bytes,
            taken_bytes: 0,
            tail: LogTail::new(budget_bytes),
            file,
        });
    }

    pub(crate) fn emit(&mut self, level: Level, message: &str, fields: &[(String, String)]) {
        let Some(open) = &mut self.open else { return };
        let offset_us = u64::try_from(open.started.elapsed().as_micros()).unwrap_or(u64::MAX);
        let line = LogLine::new(offset_us, level, message, fields);
        if let Some(file) = &open.file {
            file.append(open.job_id, open.attempt, open.token, &line);
        }
        open.tail.push(line);
    }

    /// Lines since the last call. Half the budget is kept back for the end of the log.
    pub(crate) fn take_new_lines(&mut self) -> Vec<LogLine> {
        let Some(open) = &mut self.open else { return Vec::new() };
        if open.tail.is_empty() || open.taken_bytes + open.tail.kept_bytes() > open.budget_bytes / 2
        {
            return Vec::new();
        }
        open.taken_bytes += open.tail.kept_bytes();
        let rest = LogTail::new(open.budget_bytes - open.taken_bytes);
        std::mem::replace(&mut open.tail, rest).into_lines()
    }

    /// All lines not taken; ends the log.
    pub(crate) fn close(&mut self) -> Vec<LogLine> {
        self.open.take().map(|open| open.tail.into_lines()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AUTHOR: Author = Author { job_id: JobId(1), token: ClaimToken(1), attempt: 1 };

    #[test]
    fn lines_are_taken_once_and_the_whole_stays_within_the_budget() {
        let mut book = LogBook::default();
        book.open(AUTHOR, Instant::now(), 4096, None);
        let mut taken = Vec::new();
        for n in 0..1_000 {
            book.emit(Level::Info, &format!("line {n}"), &[]);
            if n % 10 == 0 {
                taken.extend(book.take_new_lines());
            }
        }
        let rest = book.close();
        assert_eq!(taken.first().unwrap().message, "line 0");
        assert_eq!(rest.last().unwrap().message, "line 999");
        let text: usize = taken.iter().chain(&rest).map(|line| line.message.len()).sum();
        assert!(text <= 4096, "{text} bytes kept");
        assert!(rest.iter().any(|line| line.message.contains("lines dropped")));
    }

    #[test]
    fn nothing_is_logged_before_the_attempt_or_after_it() {
        let mut book = LogBook::default();
        book.emit(Level::Info, "early", &[]);
        book.open(AUTHOR, Instant::now(), 4096, None);
        assert!(book.close().is_empty());
        book.emit(Level::Info, "late", &[]);
        assert!(book.take_new_lines().is_empty() && book.close().is_empty());
    }
}
