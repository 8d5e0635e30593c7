//! The database: what the tables about jobs hold, and the statements that change them.
//!
//! Jobs and runners are numbers from 0, in order of their making.

use crate::Mutant;

/// Where a live job is; one that runs is available and not ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Waits {
    /// For its time.
    Scheduled,
    /// For a claim, or for the end of one.
    Available,
    /// For its time, after a failure.
    Retryable,
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Final {
    /// Well.
    Completed,
    /// Badly.
    Discarded,
    /// Not wanted any more.
    Cancelled,
}

/// A row of `jobs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    /// Where it is.
    pub state: Waits,
    /// Of the last claim that has ended.
    pub token: u16,
    /// Attempts that counted.
    pub attempt: u8,
    /// Attempts in all.
    pub max_attempts: u8,
    /// Runners that died under it.
    pub lost: u8,
    /// Its lane.
    pub priority: i8,
    /// What is to be run: grows with every change.
    pub version: u8,
    /// Which of the ready rows that it had since its last claim stands now.
    pub place: u8,
}

/// A row of `job_history` or `job_attempts`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// Of the claim that wrote it, or of the last one before.
    pub token: u16,
    /// Whose claim that was.
    pub runner: Option<u8>,
    /// The attempt, from 1; of a job that was cancelled as it waited, those that counted.
    pub attempt: u8,
    /// The state that it ended in; `None` in `job_attempts`.
    pub ended: Option<Final>,
    /// It counted.
    pub counted: bool,
    /// The sweep wrote it: the runner was lost, and had or had not said that it ran this very job.
    pub lost: Option<bool>,
}

/// A job from its enqueueing on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Job {
    /// While it lives.
    pub row: Option<Row>,
    /// Outcomes; there must never be two.
    pub history: Vec<Record>,
    /// Attempts that did not end it.
    pub attempts: Vec<Record>,
    /// The job that it was retried as.
    pub retried_as: Option<u8>,
}

/// A row of `claims`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Claim {
    /// Whose.
    pub runner: u8,
    /// Which of the runner's.
    pub number: u16,
    /// The fence.
    pub token: u16,
    /// All that it took.
    pub jobs: Vec<u8>,
}

/// How a runner stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lease {
    /// It lives.
    Live,
    /// Its time is over and nobody has noticed yet.
    Over,
    /// Marked dead or stopped.
    Ended,
    /// Its row was removed.
    Forgotten,
}

/// What cancelling found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// It waited.
    Now,
    /// It runs: a request is left.
    Requested,
    /// It had ended.
    Before(Final),
}

/// The tables.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Queue {
    /// `jobs`, `job_history` and `job_attempts`.
    pub jobs: Vec<Job>,
    /// `ready`, in order of position.
    pub ready: Vec<u8>,
    /// `claims`.
    pub claims: Vec<Claim>,
    /// `runners`.
    pub leases: Vec<Lease>,
    /// The suspect that each runner says it runs.
    pub suspects: Vec<Option<u8>>,
    /// `cancels`.
    pub cancels: Vec<u8>,
    /// The sequence of tokens.
    pub last_token: u16,
    /// Losses that discard a job.
    pub max_lost: u8,
    /// What is built wrong.
    pub mutant: Option<Mutant>,
}

impl Queue {
    /// Nothing yet.
    pub fn new(max_lost: u8, mutant: Option<Mutant>) -> Self {
        Queue {
            jobs: Vec::new(),
            ready: Vec::new(),
            claims: Vec::new(),
            leases: Vec::new(),
            suspects: Vec::new(),
            cancels: Vec::new(),
            last_token: 0,
            max_lost,
            mutant,
        }
    }

    pub(crate) fn is(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// `stokehold.enqueue_many`: a job that may run at once, or that waits for its time.
    pub fn enqueue(&mut self, at_once: bool, priority: i8, max_attempts: u8) -> u8 {
        let id = u8::try_from(self.jobs.len()).expect("scopes are small");
        let state = if at_once { Waits::Available } else { Waits::Scheduled };
        let row = Row {
            state,
            token: 0,
            attempt: 0,
            max_attempts,
            lost: 0,
            priority,
            version: 0,
            place: 0,
        };
        self.jobs.push(Job {
            row: Some(row),
            history: Vec::new(),
            attempts: Vec::new(),
            retried_as: None,
        });
        if at_once {
            self.ready.push(id);
        }
        id
    }

    /// A runner registers, with its lease begun.
    pub fn register(&mut self) -> u8 {
        self.leases.push(Lease::Live);
        self.suspects.push(None);
        u8::try_from(self.leases.len() - 1).expect("scopes are small")
    }

    /// The live row of a job.
    pub fn row(&self, job: u8) -> Option<Row> {
        self.jobs[usize::from(job)].row
    }

    pub(crate) fn row_mut(&mut self, job: u8) -> Option<&mut Row> {
        self.jobs[usize::from(job)].row.as_mut()
    }

    /// The runner's lease.
    pub fn lease(&self, runner: u8) -> Lease {
        self.leases[usize::from(runner)]
    }

    /// The claim of a runner by its number.
    pub fn claim(&self, runner: u8, number: u16) -> Option<&Claim> {
        self.claims.iter().find(|claim| claim.runner == runner && claim.number == number)
    }

    /// Whether the claim still holds the job.
    pub fn holds(&self, claim: &Claim, job: u8) -> bool {
        claim.jobs.contains(&job) && self.row(job).is_some_and(|row| row.token < claim.token)
    }

    /// The claim that holds the job.
    pub fn holder(&self, job: u8) -> Option<&Claim> {
        self.claims.iter().find(|claim| self.holds(claim, job))
    }

    /// A claim may be made by this runner.
    pub fn may_claim(&self, runner: u8) -> bool {
        self.lease(runner) == Lease::Live || self.is(Mutant::ClaimWithoutLease)
    }

    /// A number from the sequence of tokens: no rollback gives it back.
    pub fn draw(&mut self) -> u16 {
        self.last_token += 1;
        self.last_token
    }

    /// `claim.sql`, as it commits: the ready rows go, the claim stands.
    pub fn take(&mut self, claim: Claim, answered: &[u16]) {
        if !self.is(Mutant::ClaimLeavesReady) {
            self.ready.retain(|job| !claim.jobs.contains(job));
        }
        let runner = claim.runner;
        self.claims.retain(|old| old.runner != runner || !answered.contains(&old.number));
        if !claim.jobs.is_empty() {
            self.claims.push(claim);
        }
    }

    /// `reclaim.sql`: what the claim still holds.
    pub fn reclaim(&self, runner: u8, number: u16) -> Vec<u8> {
        let Some(claim) = self.claim(runner, number) else { return Vec::new() };
        claim.jobs.iter().copied().filter(|job| self.holds(claim, *job)).collect()
    }

    /// Whether the job stands among the ready ones.
    pub fn is_ready(&self, job: u8) -> bool {
        self.ready.contains(&job)
    }

    /// `stokehold.cancel_job`.
    pub fn cancel(&mut self, job: u8) -> Cancelled {
        let Some(row) = self.row(job) else {
            let ended = self.jobs[usize::from(job)].history.last().and_then(|end| end.ended);
            return Cancelled::Before(ended.expect("a job that does not live has ended"));
        };
        let waits = row.state != Waits::Available
            || self.is_ready(job)
            || self.is(Mutant::CancelWithoutReady);
        if !waits {
            if !self.cancels.contains(&job) {
                self.cancels.push(job);
                self.cancels.sort_unstable();
            }
            return Cancelled::Requested;
        }
        self.ready.retain(|ready| *ready != job);
        self.end(
            job,
            Record {
                token: row.token,
                runner: None,
                attempt: row.attempt,
                ended: Some(Final::Cancelled),
                counted: false,
                lost: None,
            },
        );
        Cancelled::Now
    }

    /// `stokehold.follow_cancels`, of one job: cancels it if it waits again, forgets the request if it has
    /// ended.
    pub fn follow_cancel(&mut self, job: u8) -> bool {
        let waits =
            self.row(job).is_none_or(|row| row.state != Waits::Available || self.is_ready(job));
        if !waits || !self.cancels.contains(&job) {
            return false;
        }
        let cancelled = self.cancel(job) == Cancelled::Now;
        self.cancels.retain(|asked| *asked != job);
        cancelled
    }

    /// `tick.sql`, of one job whose time has come.
    pub fn make_due(&mut self, job: u8) {
        let row = self.row_mut(job).expect("a job that waits lives");
        row.state = Waits::Available;
        if !self.is(Mutant::TickWithoutReady) {
            self.ready.push(job);
        }
    }

    /// The job leaves the live table and becomes history.
    pub(crate) fn end(&mut self, job: u8, record: Record) {
        let job = &mut self.jobs[usize::from(job)];
        job.row = None;
        job.history.push(record);
    }
}
