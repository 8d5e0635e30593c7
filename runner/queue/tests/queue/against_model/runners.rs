//! The steps of runners: claims, and outcomes of all that they ever held.

use std::time::Duration;

use stokehold_domain::{ClaimToken, JobState, Next};
use stokehold_model::{Claim, Fate as ModelFate, Final, Next as ModelNext, Write};
use stokehold_queue::{ClaimNumber, Claimed, Ended, Fate, LaneQuota};

use super::Play;
use super::steps::{LATER, place, runner_id, state};
use crate::support::ended;

impl Play<'_> {
    /// What a claim of the runner forgets: those of which nothing is held.
    fn answered(&mut self, runner: u8) -> Vec<i64> {
        if self.dice.one_in(2) {
            return Vec::new();
        }
        let claims = self.model.claims.iter().filter(|claim| claim.runner == runner);
        let over =
            claims.filter(|claim| !claim.jobs.iter().any(|job| self.model.holds(claim, *job)));
        over.map(|claim| i64::from(claim.number)).collect()
    }

    /// What the model takes for a claim, with what it says about each job.
    fn model_claims(
        &mut self,
        runner: u8,
        number: i64,
        lane: LaneQuota,
        answered: &[i64],
    ) -> Vec<u8> {
        let (priority, most) = (i8::try_from(lane.priority).unwrap(), lane.quota as usize);
        let jobs = if self.paused { Vec::new() } else { self.model.picks(runner, priority, most) };
        let token = if jobs.is_empty() { 0 } else { self.model.draw() };
        let number = u16::try_from(number).unwrap();
        let answered: Vec<u16> =
            answered.iter().map(|number| u16::try_from(*number).unwrap()).collect();
        self.model.take(Claim { runner, number, token, jobs: jobs.clone() }, &answered);
        jobs
    }

    fn check_claimed(&self, claimed: &[Claimed], expected: &[u8]) {
        let got: Vec<_> = claimed
            .iter()
            .map(|job| (place(job.id), job.token.0, u64::from(job.attempt), u64::from(job.lost)))
            .collect();
        let expected: Vec<_> = expected
            .iter()
            .map(|job| {
                let row = self.model.row(*job).unwrap();
                let token = self.model.holder(*job).unwrap().token;
                (*job, i64::from(token), u64::from(row.attempt) + 1, u64::from(row.lost))
            })
            .collect();
        assert_eq!(got, expected, "after\n{}", self.done.join("\n"));
    }

    /// A new claim of a runner.
    fn new_claim(&mut self, runner: u8) -> (ClaimNumber, LaneQuota) {
        self.last_number += 1;
        let answered = self.answered(runner);
        let (priority, quota) = (self.lane().into(), 1 + self.dice.below(3) as i32);
        let lane = LaneQuota { kind_id: self.kind, priority, after_position: 0, quota };
        (ClaimNumber { number: self.last_number, answered }, lane)
    }

    pub(super) async fn claim(&mut self, heard: bool) {
        let runner = self.any_runner();
        let (claim, lane) = self.new_claim(runner);
        self.done.push(format!("runner {runner} claims as {claim:?}, {lane:?}, heard: {heard}"));
        let claimed = self.node().claim(runner_id(runner), &claim, &[lane]).await.unwrap();
        let expected = self.model_claims(runner, claim.number, lane, &claim.answered);
        self.check_claimed(&claimed, &expected);
        if heard {
            claimed.iter().for_each(|_| self.saw("claimed", ()));
            self.heard[usize::from(runner)].extend(claimed);
        } else {
            self.unheard[usize::from(runner)].push(claim.number);
        }
    }

    pub(super) async fn ask_for_claim(&mut self) {
        let runner = self.any_runner();
        let Some(number) = self.unheard[usize::from(runner)].pop() else { return };
        self.done.push(format!("runner {runner} asks for claim {number}"));
        let mut claimed = self.node().reclaim(runner_id(runner), number).await.unwrap();
        claimed.sort_unstable_by_key(|job| job.id);
        let mut expected = self.model.reclaim(runner, u16::try_from(number).unwrap());
        expected.sort_unstable();
        self.check_claimed(&claimed, &expected);
        claimed.iter().for_each(|_| self.saw("claimed unheard", ()));
        self.heard[usize::from(runner)].extend(claimed);
    }

    /// Outcomes of a few jobs that the runner once held, now and then under a wrong token.
    fn outcomes(&mut self, runner: u8, only_final: bool) -> Vec<(Ended, Write)> {
        let heard = self.heard[usize::from(runner)].clone();
        let mut outcomes: Vec<(Ended, Write)> = Vec::new();
        for _ in 0..self.dice.below(4) {
            let Some(place_of) = self.dice.number(heard.len()) else { break };
            let claimed = &heard[usize::from(place_of)];
            if outcomes.iter().any(|(ended, _)| ended.job_id == claimed.id) {
                continue;
            }
            let next = match self.dice.below(if only_final { 3 } else { 8 }) {
                0 => ModelNext::Finish(Final::Completed),
                1 => ModelNext::Finish(Final::Discarded),
                2 => ModelNext::Finish(Final::Cancelled),
                3 | 4 => ModelNext::Retry,
                5 => ModelNext::Snooze,
                6 => ModelNext::HandBack,
                _ if self.dice.one_in(2) => ModelNext::HandBackUnstarted,
                _ => ModelNext::HandBackLater,
            };
            let token = claimed.token.0 + i64::from(self.dice.one_in(8));
            let write = Write {
                job: place(claimed.id),
                token: u16::try_from(token).unwrap(),
                number: u16::try_from(claimed.claim).unwrap(),
                attempt: u8::try_from(claimed.attempt).unwrap(),
                next,
                again: false,
            };
            let ended = Ended { token: ClaimToken(token), ..outcome(claimed, next) };
            outcomes.push((ended, write));
        }
        outcomes
    }

    pub(super) async fn settle(&mut self) {
        let runner = self.any_runner();
        let (ended, writes): (Vec<_>, Vec<_>) = self.outcomes(runner, false).into_iter().unzip();
        self.done.push(format!("runner {runner} settles {writes:?}"));
        let fates = self.node().settle(runner_id(runner), &ended).await.unwrap();
        let expected: Vec<Fate> = writes
            .iter()
            .map(|write| match self.model.settle(runner, *write) {
                ModelFate::Applied => Fate::Applied,
                ModelFate::AlreadyApplied => Fate::AlreadyApplied,
                ModelFate::Stale => Fate::Stale,
                ModelFate::Gone => Fate::Gone,
            })
            .collect();
        assert_eq!(fates, expected, "after\n{}", self.done.join("\n"));
        fates.iter().for_each(|fate| self.saw("fate", fate));
    }

    pub(super) async fn turn(&mut self) {
        let runner = self.any_runner();
        let (ended, writes): (Vec<_>, Vec<_>) = self.outcomes(runner, true).into_iter().unzip();
        let (claim, lane) = self.new_claim(runner);
        self.done.push(format!("turn of runner {runner}: {writes:?}, {claim:?}, {lane:?}"));
        let turn = self.node().turn(runner_id(runner), &ended, &claim, &[lane]).await.unwrap();
        let settled = writes.iter().map(|write| self.model.settle(runner, *write));
        let applied: Vec<bool> = settled.map(|fate| fate == ModelFate::Applied).collect();
        assert_eq!(turn.applied, applied, "after\n{}", self.done.join("\n"));
        applied.iter().for_each(|applied| self.saw("turn", applied));
        let expected = self.model_claims(runner, claim.number, lane, &claim.answered);
        self.check_claimed(&turn.claimed, &expected);
        self.heard[usize::from(runner)].extend(turn.claimed);
    }
}

/// The outcome as a node writes it.
fn outcome(claimed: &Claimed, next: ModelNext) -> Ended {
    let (code, next) = match next {
        ModelNext::Finish(Final::Completed) => ("ok", Next::Finish(JobState::Completed)),
        ModelNext::Finish(ended) => ("handler.permanent", Next::Finish(state(ended))),
        ModelNext::Retry => ("handler.retry", Next::Retry(LATER)),
        ModelNext::Snooze => ("handler.snooze", Next::Snooze(LATER)),
        ModelNext::HandBack => ("node.draining", Next::HandBack(Duration::ZERO)),
        ModelNext::HandBackUnstarted => {
            let next = Next::HandBack(Duration::ZERO);
            return Ended { receipt: None, ..ended(claimed, "node.draining", next) };
        }
        ModelNext::HandBackLater => ("host.fault", Next::HandBack(LATER)),
    };
    ended(claimed, code, next)
}
