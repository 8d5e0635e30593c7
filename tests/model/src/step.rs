//! What each step does.

use crate::clients::Edit;
use crate::world::{Held, OpenClaim, Seen, Stage};
use crate::{Action, Claim, Final, Mutant, Next, Record, Row, World, Write};

impl World {
    /// Takes one of the steps that are possible.
    pub fn step(&mut self, action: &Action) {
        match action {
            Action::Begin(node) => self.begin(*node),
            Action::DrawToken(node) => {
                let token = self.queue.draw();
                self.node(*node).drawn = Some(token);
            }
            Action::Look(node, jobs) => self.look(*node, jobs.clone()),
            Action::Commit(node) => self.commit(*node),
            Action::RollBack(node) => self.roll_back(*node),
            Action::StopWaiting(node) => self.stop_waiting(*node),
            Action::AskForClaim(node, number) => self.ask_for_claim(*node, *number),
            Action::End(node, held, next) => self.end(*node, *held, *next),
            Action::Settle { node, held, heard } => self.settle(*node, *held, *heard),
            Action::MarkSuspect(node, job) => {
                self.queue.suspects[usize::from(*node)] = Some(*job);
            }
            Action::PassLease(node) => {
                self.expiries -= u8::from(self.node(*node).up);
                self.queue.pass_lease(*node);
            }
            Action::Beat(node) => {
                self.queue.beat(*node);
            }
            Action::MarkDead(node) | Action::Stop(node) => self.queue.end_lease(*node),
            Action::ForgetRunner(node) => self.queue.forget_runner(*node),
            Action::Crash(node) => self.crash(*node),
            Action::SweepLook(job, runner, number) => self.sweep = Some((*job, *runner, *number)),
            Action::SweepWrite => {
                if let Some((job, runner, number)) = self.sweep.take() {
                    self.gave_back(job, runner, number);
                }
            }
            Action::ForgetClaims => self.queue.forget_claims(),
            Action::MakeDue(job) => self.queue.make_due(*job),
            Action::Cancel(job) => self.told_to_cancel(*job),
            Action::Change(job) => {
                self.changes -= 1;
                self.queue.edit(*job, Edit::default());
            }
            Action::FollowCancel(job) => {
                if self.queue.follow_cancel(*job) {
                    self.taken_from(*job, None);
                }
            }
        }
        // A claim may take any of them, and nothing asks in which order they came.
        self.queue.ready.sort_unstable();
        self.queue.claims.sort_unstable_by_key(|claim| (claim.runner, claim.number));
    }

    /// Takes away what no step and no property reads any more: records of writes that no node can send
    /// again, and claims that hold nothing, which never hold anything again.
    pub fn fold(&mut self) {
        let World { queue, nodes, folded, .. } = self;
        for ((job, id), folded) in queue.jobs.iter_mut().zip(0u8..).zip(folded) {
            let is_read = |record: &Record| {
                let mut held = nodes.iter().flat_map(|node| &node.held);
                held.any(|held| held.job == id && held.token == record.token)
            };
            job.attempts.retain(|record| {
                if is_read(record) {
                    return true;
                }
                folded.0 += u8::from(record.counted);
                folded.1 += u8::from(record.lost == Some(true));
                false
            });
            for record in job.history.iter_mut().filter(|record| !is_read(record)) {
                (record.token, record.attempt) = (0, 0);
                record.runner = record.runner.map(|_| 0);
            }
        }
        let claims = std::mem::take(&mut queue.claims);
        let holds = |claim: &Claim| claim.jobs.iter().any(|job| queue.holds(claim, *job));
        let claims = claims.into_iter().filter(|claim| holds(claim)).collect();
        queue.claims = claims;
        for node in nodes {
            node.answered.clear();
        }
    }

    fn node(&mut self, node: u8) -> &mut crate::world::Node {
        &mut self.nodes[usize::from(node)]
    }

    /// A claim begins: what it sees from now on is as it is now.
    fn begin(&mut self, runner: u8) {
        let seen = self.queue.ready.iter().filter_map(|job| {
            let Row { token, place, version, .. } = self.queue.row(*job)?;
            Some(Seen { job: *job, token, place, version })
        });
        let seen = Some(seen.collect());
        self.node(runner).seen = seen;
    }

    /// The look of a claim: what it found is locked, and then the token is drawn.
    fn look(&mut self, runner: u8, jobs: Vec<u8>) {
        if jobs.is_empty() {
            self.node(runner).seen = None;
            return;
        }
        let drawn = self.node(runner).drawn.take();
        let token = drawn.unwrap_or_else(|| self.queue.draw());
        let seen = self.node(runner).seen.take();
        let version = |job: &u8| match &seen {
            Some(seen) => seen.iter().find(|seen| seen.job == *job).map_or(0, |seen| seen.version),
            None => self.queue.row(*job).map_or(0, |row| row.version),
        };
        let versions = jobs.iter().map(version).collect();
        let node = self.node(runner);
        // Numbers only have to differ for one runner.
        let claim = Claim { runner, number: token, token, jobs };
        let answered = std::mem::take(&mut node.answered);
        node.open = Some(OpenClaim { claim, answered, versions, awaited: true });
    }

    fn commit(&mut self, runner: u8) {
        let Some(open) = self.node(runner).open.take() else { return };
        let OpenClaim { claim, answered, versions, awaited } = open;
        for job in &claim.jobs {
            self.holders[usize::from(*job)] = Some((runner, claim.number));
        }
        self.queue.take(claim.clone(), &answered);
        if awaited && self.node(runner).up {
            self.start(runner, &claim, claim.jobs.iter().copied().zip(versions));
        }
    }

    /// The statement came to nothing, and the node knows no more than that it got no answer.
    fn roll_back(&mut self, runner: u8) {
        let Some(open) = self.node(runner).open.take() else { return };
        if open.awaited && self.node(runner).up {
            self.unheard(runner, &open);
            self.lost_answers -= 1;
        }
    }

    fn stop_waiting(&mut self, runner: u8) {
        let Some(mut open) = self.node(runner).open.take() else { return };
        open.awaited = false;
        self.unheard(runner, &open);
        self.node(runner).open = Some(open);
        self.lost_answers -= 1;
    }

    fn unheard(&mut self, runner: u8, open: &OpenClaim) {
        let node = self.node(runner);
        node.unheard.push(open.claim.number);
        node.answered.extend(&open.answered);
    }

    /// Asks what came of a claim that can commit no more; before that, the answer is not taken as final.
    fn ask_for_claim(&mut self, runner: u8, number: u16) {
        let jobs = self.queue.reclaim(runner, number);
        self.node(runner).unheard.retain(|unheard| *unheard != number);
        if let Some(claim) = self.queue.claim(runner, number).cloned() {
            let versions = jobs.iter().map(|job| self.queue.row(*job).map_or(0, |row| row.version));
            let versions: Vec<u8> = versions.collect();
            self.start(runner, &claim, jobs.into_iter().zip(versions));
        }
    }

    fn start(&mut self, runner: u8, claim: &Claim, jobs: impl Iterator<Item = (u8, u8)>) {
        for (job, version) in jobs {
            let attempt = self.queue.row(job).map_or(0, |row| row.attempt) + 1;
            let Claim { number, token, .. } = *claim;
            let held = Held { job, token, number, attempt, version, stage: Stage::Runs };
            self.node(runner).held.push(held);
        }
        self.node(runner).held.sort_unstable_by_key(|held| (held.job, held.token));
    }

    /// A handler ends; after the last attempt a failure ends the job.
    fn end(&mut self, runner: u8, place: usize, next: Next) {
        let held = self.nodes[usize::from(runner)].held[place];
        let max = self.queue.row(held.job).map_or(u8::MAX, |row| row.max_attempts);
        let next = if next == Next::Retry && held.attempt >= max {
            Next::Finish(Final::Discarded)
        } else {
            next
        };
        self.node(runner).held[place].stage = Stage::Ended(next, false);
    }

    /// One outcome is written.
    fn settle(&mut self, runner: u8, place: usize, heard: bool) {
        let Held { job, token, number, attempt, stage, .. } =
            self.nodes[usize::from(runner)].held[place];
        let Stage::Ended(next, again) = stage else { return };
        self.settled(runner, Write { job, token, number, attempt, next, again });
        if !heard && self.node(runner).up {
            self.lost_answers -= 1;
            // What is built right asks again in the same words, and only a mutant has to know.
            let again = self.queue.mutant.is_some();
            self.node(runner).held[place].stage = Stage::Ended(next, again);
            return;
        }
        let early = self.queue.is(Mutant::AnsweredEarly);
        let node = self.node(runner);
        node.held.remove(place);
        let open = node.held.iter().any(|held| held.number == number);
        if node.up && (early || !open) && !node.answered.contains(&number) {
            node.answered.push(number);
        }
    }

    /// The process dies. What it had sent may still arrive.
    fn crash(&mut self, runner: u8) {
        self.crashes -= 1;
        let node = self.node(runner);
        node.up = false;
        node.held.retain(|held| held.stage != Stage::Runs);
        node.unheard.clear();
        node.answered.clear();
        node.drawn = None;
        node.seen = None;
    }
}
