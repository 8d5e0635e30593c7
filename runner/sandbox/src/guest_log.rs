//! The file that guest lines are appended to as they are written: for log shippers, and a witness of
//! what ran that does not depend on the database.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;
use stokehold_domain::{ClaimToken, JobId, Level, LogLine};

use crate::StartError;

/// An append-only file of JSON lines, shared by every process that names it.
#[derive(Debug)]
pub(crate) struct GuestLogFile {
    file: File,
    failures: AtomicU64,
}

#[derive(Serialize)]
struct Entry<'a> {
    job_id: JobId,
    attempt: u16,
    token: ClaimToken,
    level: Level,
    message: &'a str,
    fields: &'a [(String, String)],
    pid: u32,
}

impl GuestLogFile {
    pub(crate) fn open(path: &Path) -> Result<Self, StartError> {
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .map_err(|source| StartError::GuestLogFile { path: path.to_owned(), source })?;
        Ok(GuestLogFile { file, failures: AtomicU64::new(0) })
    }

    /// One line, one write: the kernel appends it whole, so lines of several processes never mix.
    /// A failure is counted and costs the guest nothing.
    pub(crate) fn append(&self, job_id: JobId, attempt: u16, token: ClaimToken, line: &LogLine) {
        let entry = Entry {
            job_id,
            attempt,
            token,
            level: line.level,
            message: &line.message,
            fields: &line.fields,
            pid: std::process::id(),
        };
        let whole = serde_json::to_vec(&entry).is_ok_and(|mut text| {
            text.push(b'\n');
            (&self.file).write(&text).is_ok_and(|written| written == text.len())
        });
        if !whole {
            self.failures.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Lines that could not be written.
    pub(crate) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }
}
