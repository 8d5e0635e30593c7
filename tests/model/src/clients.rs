//! What applications and people ask for, and whole sweeps: what the statements of the queue crate are
//! compared with step by step.

use crate::{Final, GivenBack, Lease, Mutant, Queue, Waits};

/// A change of a job that waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Edit {
    /// Another lane.
    pub priority: Option<i8>,
    /// Another time: whether it has come.
    pub is_due: Option<bool>,
    /// Other attempts in all.
    pub max_attempts: Option<u8>,
}

/// What came of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edited {
    /// It is as it should be.
    Done,
    /// It runs.
    Runs,
    /// It had ended.
    Before(Final),
}

/// What came of running an ended job again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retried {
    /// There is a new job.
    As(u8),
    /// There was one before.
    Before(u8),
    /// It is completed.
    Completed,
    /// It has not ended.
    Live,
}

/// What a sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reaped {
    /// Runners that it marked dead.
    pub runners: u8,
    /// Jobs that are available again.
    pub available: u8,
    /// Jobs that were discarded.
    pub discarded: u8,
}

impl Queue {
    /// What a claim of a lane takes: the first ones in order of position.
    pub fn picks(&self, runner: u8, priority: i8, most: usize) -> Vec<u8> {
        let in_lane = |job: &u8| self.row(*job).is_some_and(|row| row.priority == priority);
        let lane = self.ready.iter().copied().filter(in_lane);
        if self.may_claim(runner) { lane.take(most).collect() } else { Vec::new() }
    }

    /// `stokehold.edit_job`.
    pub fn edit(&mut self, job: u8, edit: Edit) -> Edited {
        let Some(row) = self.row(job) else {
            let ended = self.jobs[usize::from(job)].history.last().and_then(|end| end.ended);
            return Edited::Before(ended.expect("a job that does not live has ended"));
        };
        if row.state == Waits::Available && !self.is_ready(job) {
            return Edited::Runs;
        }
        let state = match (edit.is_due, row.state) {
            (None, state) => state,
            (Some(true), _) => Waits::Available,
            (Some(false), Waits::Retryable) => Waits::Retryable,
            (Some(false), _) => Waits::Scheduled,
        };
        let priority = edit.priority.unwrap_or(row.priority);
        if state != Waits::Available || priority != row.priority {
            self.ready.retain(|ready| *ready != job);
        }
        if state == Waits::Available && !self.is_ready(job) {
            self.ready.push(job);
        }
        // The ready row is made anew even where it stood.
        let leaves = self.is(Mutant::EditLeavesReady);
        let row = self.row_mut(job).expect("it was looked at");
        (row.state, row.priority) = (state, priority);
        row.max_attempts = edit.max_attempts.unwrap_or(row.max_attempts);
        row.version += 1;
        row.place += u8::from(!leaves);
        Edited::Done
    }

    /// `stokehold.retry_job`, for a job that had this lane and so many attempts.
    pub fn retry(&mut self, job: u8, even_completed: bool, lane: (i8, u8)) -> Retried {
        let old = &self.jobs[usize::from(job)];
        if old.row.is_some() {
            return Retried::Live;
        }
        let completed = old.history.iter().any(|end| end.ended == Some(Final::Completed));
        if completed && !even_completed {
            return Retried::Completed;
        }
        if let Some(new) = old.retried_as {
            return Retried::Before(new);
        }
        let new = self.enqueue(true, lane.0, lane.1);
        self.jobs[usize::from(job)].retried_as = Some(new);
        Retried::As(new)
    }

    /// A whole sweep.
    pub fn reap(&mut self) -> Reaped {
        let mut reaped = Reaped::default();
        for lease in self.leases.iter_mut().filter(|lease| **lease == Lease::Over) {
            *lease = Lease::Ended;
            reaped.runners += 1;
        }
        for (job, runner, number) in self.lost() {
            match self.give_back(job, runner, number) {
                Some(GivenBack::Available) => reaped.available += 1,
                Some(GivenBack::Discarded) => reaped.discarded += 1,
                None => {}
            }
        }
        self.forget_claims();
        reaped
    }

    /// All that `stokehold.follow_cancels` does; says how many were cancelled.
    pub fn follow_cancels(&mut self) -> usize {
        self.cancels.clone().into_iter().filter(|job| self.follow_cancel(*job)).count()
    }
}
