//! Leases and what follows their end: `expire.sql`, `give_back.sql`, `forget_claims.sql`.

use crate::{Final, Lease, Mutant, Queue, Record, Waits};

/// What became of a lost job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GivenBack {
    /// It is available again.
    Available,
    /// Runners died under it too often.
    Discarded,
}

impl Queue {
    /// A beat; false tells the runner that its id is dead for ever.
    pub fn beat(&mut self, runner: u8) -> bool {
        let lease = self.lease(runner);
        let revives = self.is(Mutant::BeatRevives) && lease == Lease::Ended;
        let alive = matches!(lease, Lease::Live | Lease::Over) || revives;
        if alive {
            self.leases[usize::from(runner)] = Lease::Live;
        }
        alive
    }

    /// The runner's time is over.
    pub fn pass_lease(&mut self, runner: u8) {
        self.leases[usize::from(runner)] = Lease::Over;
    }

    /// The runner is marked dead, or stops.
    pub fn end_lease(&mut self, runner: u8) {
        self.leases[usize::from(runner)] = Lease::Ended;
    }

    /// The row of a runner that ended long ago and holds nothing is removed.
    pub fn forget_runner(&mut self, runner: u8) {
        self.leases[usize::from(runner)] = Lease::Forgotten;
    }

    /// Whether the runner's jobs are to be given back.
    pub fn is_swept(&self, runner: u8) -> bool {
        match self.lease(runner) {
            Lease::Ended => true,
            Lease::Over => self.is(Mutant::SweepBeforeDeath),
            Lease::Live | Lease::Forgotten => false,
        }
    }

    /// What a sweep sees: jobs, and the claims by which runners hold them that no longer live.
    pub fn lost(&self) -> Vec<(u8, u8, u16)> {
        let swept = self.claims.iter().filter(|claim| self.is_swept(claim.runner));
        let mut lost = Vec::new();
        for claim in swept {
            let held = claim.jobs.iter().filter(|job| {
                self.holds(claim, **job)
                    || (self.is(Mutant::SweepByClaimAlone)
                        && self.row(**job).is_some_and(|row| row.state == Waits::Available)
                        && !self.is_ready(**job))
            });
            lost.extend(held.map(|job| (*job, claim.runner, claim.number)));
        }
        lost
    }

    /// Gives back what a sweep saw, if it is still so under the lock: available again, or discarded when
    /// runners died under it too often.
    pub fn give_back(&mut self, job: u8, runner: u8, number: u16) -> Option<GivenBack> {
        let claim = self.claim(runner, number)?;
        let unchecked = self.is(Mutant::SweepUnchecked) || self.is(Mutant::SweepByClaimAlone);
        if !unchecked && !self.holds(claim, job) {
            return None;
        }
        let (token, row) = (claim.token, self.row(job)?);
        let suspect = self.suspects[usize::from(runner)] == Some(job);
        let blamed = suspect || self.is(Mutant::SweepBlamesAll);
        let lost = if row.lost == 0 || blamed { row.lost + 1 } else { row.lost };
        let record = Record {
            token,
            runner: Some(runner),
            attempt: row.attempt + 1,
            ended: None,
            counted: false,
            lost: Some(suspect),
        };
        self.jobs[usize::from(job)].attempts.push(record);
        if lost >= self.max_lost {
            self.ready.retain(|ready| *ready != job);
            self.end(job, Record { ended: Some(Final::Discarded), ..record });
            return Some(GivenBack::Discarded);
        }
        let (keeps, counts) = (self.is(Mutant::SweepKeepsToken), self.is(Mutant::SweepCounts));
        let row = self.row_mut(job)?;
        row.lost = lost;
        row.state = Waits::Available;
        row.token = if keeps { row.token } else { token };
        row.attempt += u8::from(counts);
        if !self.is_ready(job) {
            self.ready.push(job);
        }
        Some(GivenBack::Available)
    }

    /// Forgets the claims of runners that ended, of which nothing is held any more.
    pub fn forget_claims(&mut self) {
        let early = self.is(Mutant::ForgottenEarly);
        let over: Vec<bool> = self
            .claims
            .iter()
            .map(|claim| {
                let holds = claim.jobs.iter().any(|job| self.holds(claim, *job));
                self.lease(claim.runner) == Lease::Ended && (early || !holds)
            })
            .collect();
        let mut over = over.into_iter();
        self.claims.retain(|_| !over.next().unwrap_or(false));
    }
}
