//! Nodes around the database, and whatever can happen next.
//!
//! A node is one registration of a runner. It may be slow, frozen or cut off at any moment, which shows as
//! steps that it does not take; it never learns more than an answer says. That it gives its lease up early
//! and hands everything back is among the ways in which it may go on, and nothing relies on it. What a node
//! that died had sent may arrive long after.

use crate::{Cancelled, Claim, Fate, GivenBack, Mutant, Next, Queue, Write};

/// How much is explored.
#[derive(Clone, Debug)]
pub struct Scope {
    /// Jobs, all enqueued at the start.
    pub jobs: u8,
    /// Attempts of each.
    pub max_attempts: u8,
    /// Losses that discard a job.
    pub max_lost: u8,
    /// Runners, all registered at the start.
    pub runners: u8,
    /// Tokens that may be drawn.
    pub claims: u16,
    /// Answers that may be lost.
    pub lost_answers: u8,
    /// Processes that may die.
    pub crashes: u8,
    /// Leases whose time may be over while the process lives.
    pub expiries: u8,
    /// Jobs that somebody may cancel: those below this number.
    pub cancelled: u8,
    /// Changes of jobs that wait. With any, a claim has its snapshot before it locks what it found.
    pub changes: u8,
    /// Runners may stop, and be forgotten.
    pub endings: bool,
    /// States that differ only in what nobody reads any more count as one.
    pub folded: bool,
    /// Ways in which an attempt may end, beside being cancelled on request.
    pub nexts: Vec<Next>,
    /// What is built wrong.
    pub mutant: Option<Mutant>,
}

/// Where an attempt is in its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// The handler runs.
    Runs,
    /// It has ended; the outcome waits to be written, or an answer to that was lost.
    Ended(Next, bool),
}

/// An attempt that a node knows of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Held {
    /// The job.
    pub job: u8,
    /// The claim's token.
    pub token: u16,
    /// The claim's number.
    pub number: u16,
    /// The attempt, from 1.
    pub attempt: u8,
    /// What it runs.
    pub version: u8,
    /// Where it is.
    pub stage: Stage,
}

/// A claim that has looked and not committed: its ready rows are locked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OpenClaim {
    /// What it will be.
    pub claim: Claim,
    /// Earlier claims that it will forget.
    pub answered: Vec<u16>,
    /// What it saw of the jobs.
    pub versions: Vec<u8>,
    /// The node still waits for the answer.
    pub awaited: bool,
}

/// What a claim that has begun saw of a ready job: its token and place, by which it finds the ready row, and
/// what is to be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Seen {
    /// The job.
    pub job: u8,
    /// Its own token.
    pub token: u16,
    /// Its ready row.
    pub place: u8,
    /// What is to be run.
    pub version: u8,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    /// Its process lives. What a dead one holds are writes that were sent before.
    pub up: bool,
    /// The statement that is under way.
    pub open: Option<OpenClaim>,
    /// Claims of which it heard nothing.
    pub unheard: Vec<u16>,
    /// Claims of which every job has a final answer.
    pub answered: Vec<u16>,
    /// What it holds.
    pub held: Vec<Held>,
    /// What the claim saw that has begun.
    pub seen: Option<Vec<Seen>>,
    /// A token that was drawn too early.
    pub drawn: Option<u16>,
}

/// Something that must never happen, and did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wrong {
    /// A write took effect that was not by the claim that holds the job.
    StaleWrite,
    /// A write by the claim that holds the job was refused.
    HolderRefused,
    /// A node was told that its write took effect, and it did not.
    ToldWrong,
    /// A job was taken from the claim that holds it, whose runner had not ended.
    TakenAway,
}

/// Everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    /// The database.
    pub queue: Queue,
    /// The nodes.
    pub nodes: Vec<Node>,
    /// What a sweep saw and has not given back yet: job, runner and number of the claim.
    pub sweep: Option<(u8, u8, u16)>,
    /// By which claim each job is held, told by what happened and not by the tables.
    pub holders: Vec<Option<(u8, u16)>>,
    /// Jobs of which somebody was told that they will be cancelled.
    pub promised: Vec<u8>,
    /// Of each job, failures that counted and losses that it was blamed for, whose records are folded away.
    pub folded: Vec<(u8, u8)>,
    /// What went wrong.
    pub wrong: Option<Wrong>,
    /// Answers that may still be lost.
    pub lost_answers: u8,
    /// Processes that may still die.
    pub crashes: u8,
    /// Leases whose time may still be over while the process lives.
    pub expiries: u8,
    /// Jobs may still be changed so often.
    pub changes: u8,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the words are those of the protocol; `step` says what each does")]
pub enum Action {
    Begin(u8),
    DrawToken(u8),
    Look(u8, Vec<u8>),
    Commit(u8),
    RollBack(u8),
    StopWaiting(u8),
    AskForClaim(u8, u16),
    End(u8, usize, Next),
    Settle { node: u8, held: usize, heard: bool },
    MarkSuspect(u8, u8),
    PassLease(u8),
    Beat(u8),
    MarkDead(u8),
    Stop(u8),
    ForgetRunner(u8),
    Crash(u8),
    SweepLook(u8, u8, u16),
    SweepWrite,
    ForgetClaims,
    MakeDue(u8),
    Cancel(u8),
    Change(u8),
    FollowCancel(u8),
}

impl World {
    /// Jobs that are ready, and runners that live.
    pub fn new(scope: &Scope) -> Self {
        let mut queue = Queue::new(scope.max_lost, scope.mutant);
        for _ in 0..scope.jobs {
            queue.enqueue(true, 0, scope.max_attempts);
        }
        let node = Node {
            up: true,
            open: None,
            unheard: Vec::new(),
            answered: Vec::new(),
            held: Vec::new(),
            seen: None,
            drawn: None,
        };
        for _ in 0..scope.runners {
            queue.register();
        }
        World {
            queue,
            nodes: vec![node; usize::from(scope.runners)],
            sweep: None,
            holders: vec![None; usize::from(scope.jobs)],
            promised: Vec::new(),
            folded: vec![(0, 0); usize::from(scope.jobs)],
            wrong: None,
            lost_answers: scope.lost_answers,
            crashes: scope.crashes,
            expiries: scope.expiries,
            changes: scope.changes,
        }
    }

    /// Whether every job has ended and nothing is under way.
    pub fn is_over(&self) -> bool {
        self.queue.jobs.iter().all(|job| job.row.is_none())
            && self.queue.cancels.is_empty()
            && self.nodes.iter().all(|node| node.open.is_none() && node.held.is_empty())
    }

    /// Whether a claim that is under way has the job's ready row.
    pub fn is_locked(&self, job: u8) -> bool {
        let mut open = self.nodes.iter().filter_map(|node| node.open.as_ref());
        open.any(|open| open.claim.jobs.contains(&job))
    }

    pub(crate) fn told_to_cancel(&mut self, job: u8) {
        match self.queue.cancel(job) {
            Cancelled::Requested => self.promised.push(job),
            Cancelled::Now => self.taken_from(job, None),
            Cancelled::Before(_) => {}
        }
        self.promised.sort_unstable();
    }

    /// The job was taken from whoever held it: by that claim itself, or because its runner had ended.
    pub(crate) fn taken_from(&mut self, job: u8, by: Option<(u8, u16)>) {
        let holder = &mut self.holders[usize::from(job)];
        if holder.is_some() && *holder != by {
            self.wrong = Some(Wrong::TakenAway);
        }
        *holder = None;
    }

    pub(crate) fn gave_back(&mut self, job: u8, runner: u8, number: u16) {
        let given: Option<GivenBack> = self.queue.give_back(job, runner, number);
        if given.is_some() {
            self.taken_from(job, Some((runner, number)));
        }
    }

    pub(crate) fn settled(&mut self, runner: u8, write: Write) -> Fate {
        let fate = self.queue.settle(runner, write);
        let holds = self.holders[usize::from(write.job)] == Some((runner, write.number));
        match fate {
            Fate::Applied if !holds => self.wrong = Some(Wrong::StaleWrite),
            Fate::Applied => self.holders[usize::from(write.job)] = None,
            Fate::AlreadyApplied if !self.queue.wrote(runner, write) => {
                self.wrong = Some(Wrong::ToldWrong);
            }
            Fate::Stale | Fate::Gone if holds => self.wrong = Some(Wrong::HolderRefused),
            Fate::AlreadyApplied | Fate::Stale | Fate::Gone => {}
        }
        fate
    }
}
