//! Outcomes: `finish.sql`, `release.sql` and `fate.sql`.

use crate::{Claim, Final, Mutant, Queue, Record, Row, Waits};

/// What follows an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Next {
    /// The job ends.
    Finish(Final),
    /// It is tried again later; the attempt counts.
    Retry,
    /// It goes on later; the attempt does not count.
    Snooze,
    /// It is available again; the attempt does not count.
    HandBack,
    /// The same before its handler started: no record is made.
    HandBackUnstarted,
    /// It is tried again later, for a fault of the node; the attempt does not count.
    HandBackLater,
}

/// An outcome, as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Write {
    /// The job.
    pub job: u8,
    /// The claim's token.
    pub token: u16,
    /// The claim's number.
    pub number: u16,
    /// The attempt, from 1.
    pub attempt: u8,
    /// What follows.
    pub next: Next,
    /// An answer to the same was lost.
    pub again: bool,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fate {
    /// It took effect now.
    Applied,
    /// It had taken effect before.
    AlreadyApplied,
    /// The claim is no longer this runner's.
    Stale,
    /// The job has ended otherwise.
    Gone,
}

impl Queue {
    /// Writes an outcome under its claim, or says why not.
    pub fn settle(&mut self, runner: u8, write: Write) -> Fate {
        let Some(row) = self.row(write.job) else {
            return self.fate(runner, write, Fate::Gone);
        };
        if !self.may_write(runner, write, row) {
            return self.fate(runner, write, Fate::Stale);
        }
        let record = Record {
            token: write.token,
            runner: Some(runner),
            attempt: row.attempt + 1,
            ended: None,
            counted: write.next == Next::Retry,
            lost: None,
        };
        match write.next {
            Next::Finish(state) => self.end(write.job, Record { ended: Some(state), ..record }),
            next => self.release(write.job, next, record),
        }
        Fate::Applied
    }

    /// The guard of every write.
    fn may_write(&self, runner: u8, write: Write, row: Row) -> bool {
        let runs = row.state == Waits::Available && !self.is_ready(write.job);
        let claim = self.claim(runner, write.number).filter(|claim| claim.token == write.token);
        let below = |claim: &Claim| row.state == Waits::Available && row.token < claim.token;
        let unguarded = match self.mutant {
            Some(Mutant::GuardOnState) => true,
            Some(Mutant::GuardOnAttempt) => row.attempt + 1 == write.attempt,
            Some(Mutant::GuardOrEqual) => {
                let up_to =
                    |claim: &Claim| row.state == Waits::Available && row.token <= claim.token;
                return claim.is_some_and(up_to);
            }
            Some(Mutant::ReleaseUnguarded) => !matches!(write.next, Next::Finish(_)),
            Some(Mutant::CancelledUnguarded) => write.next == Next::Finish(Final::Cancelled),
            Some(Mutant::AskedAgainUnguarded) => write.again,
            _ => false,
        };
        (unguarded && runs) || claim.is_some_and(below)
    }

    fn release(&mut self, job: u8, next: Next, record: Record) {
        let state = match next {
            Next::Retry | Next::HandBackLater => Waits::Retryable,
            Next::Snooze => Waits::Scheduled,
            Next::HandBack | Next::HandBackUnstarted | Next::Finish(_) => Waits::Available,
        };
        let row = self.row_mut(job).expect("it was looked at");
        row.state = state;
        row.token = record.token;
        row.attempt += u8::from(record.counted);
        if state == Waits::Available {
            self.ready.push(job);
        }
        if next != Next::HandBackUnstarted {
            self.jobs[usize::from(job)].attempts.push(record);
        }
        if self.is(Mutant::RequestDropped) {
            self.cancels.retain(|asked| *asked != job);
        }
    }

    /// Why a write changed nothing.
    fn fate(&self, runner: u8, write: Write, otherwise: Fate) -> Fate {
        let taken_for_success = self.is(Mutant::NothingChangedIsSuccess) && write.again;
        if taken_for_success || self.wrote(runner, write) {
            Fate::AlreadyApplied
        } else {
            otherwise
        }
    }

    /// Whether there is a record that this write made.
    pub fn wrote(&self, runner: u8, write: Write) -> bool {
        let job = &self.jobs[usize::from(write.job)];
        job.history.iter().chain(&job.attempts).any(|record| {
            record.token == write.token && record.runner == Some(runner) && record.lost.is_none()
        })
    }
}
