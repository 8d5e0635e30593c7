//! What can happen next.

use crate::world::{Node, Seen, Stage};
use crate::{Action, Final, Lease, Mutant, Next, Queue, Scope, Waits, World};

impl Node {
    /// Whether a claim finds the ready row of which it knows.
    fn finds(&self, job: u8, queue: &Queue) -> bool {
        let (Some(seen), Some(row)) = (&self.seen, queue.row(job)) else { return true };
        let stands =
            |seen: &&Seen| (seen.job, seen.token, seen.place) == (job, row.token, row.place);
        seen.iter().any(|seen| stands(&seen))
    }
}

impl World {
    /// Everything that can happen next. Nothing, once every job has ended and no node has anything to say.
    pub fn actions(&self, scope: &Scope, actions: &mut Vec<Action>) {
        if self.is_over() {
            return;
        }
        for (node, runner) in self.nodes.iter().zip(0u8..) {
            self.claiming(scope, node, runner, actions);
            for (place, held) in node.held.iter().enumerate() {
                match held.stage {
                    Stage::Runs => {
                        actions.extend(
                            scope.nexts.iter().map(|next| Action::End(runner, place, *next)),
                        );
                        if self.queue.cancels.contains(&held.job) {
                            let next = Next::Finish(Final::Cancelled);
                            actions.push(Action::End(runner, place, next));
                        }
                        let suspect = self.queue.suspects[usize::from(runner)];
                        let lost = self.queue.row(held.job).is_some_and(|row| row.lost > 0);
                        if lost && suspect != Some(held.job) {
                            actions.push(Action::MarkSuspect(runner, held.job));
                        }
                    }
                    Stage::Ended(..) => {
                        let node = runner;
                        if self.nodes[usize::from(node)].up {
                            actions.push(Action::Settle { node, held: place, heard: true });
                        }
                        if self.lost_answers > 0 || !self.nodes[usize::from(node)].up {
                            actions.push(Action::Settle { node, held: place, heard: false });
                        }
                    }
                }
            }
            self.leases(scope, node, runner, actions);
        }
        self.database(scope, actions);
    }

    fn claiming(&self, scope: &Scope, node: &Node, runner: u8, actions: &mut Vec<Action>) {
        if let Some(open) = &node.open {
            actions.push(Action::Commit(runner));
            if self.lost_answers > 0 || !node.up || !open.awaited {
                actions.push(Action::RollBack(runner));
            }
            if open.awaited && node.up && self.lost_answers > 0 {
                actions.push(Action::StopWaiting(runner));
            }
        }
        if !node.up {
            return;
        }
        for number in &node.unheard {
            // Asked before the claim commits, it will be asked again.
            let under_way = node.open.as_ref().is_some_and(|open| open.claim.number == *number);
            if !under_way || self.queue.is(Mutant::AskedForOnce) {
                actions.push(Action::AskForClaim(runner, *number));
            }
        }
        let early = self.queue.is(Mutant::TokenBeforeLook);
        if early && node.drawn.is_none() && self.queue.last_token < scope.claims {
            actions.push(Action::DrawToken(runner));
        }
        let has_token =
            if early { node.drawn.is_some() } else { self.queue.last_token < scope.claims };
        if node.open.is_some() || !has_token {
            return;
        }
        // The lease is looked at as of the snapshot.
        if node.seen.is_none() && !self.queue.may_claim(runner) {
            return;
        }
        if scope.changes > 0 && node.seen.is_none() {
            actions.push(Action::Begin(runner));
            return;
        }
        let is_free = |job: &u8| !self.is_locked(*job) && node.finds(*job, &self.queue);
        let free: Vec<u8> = self.queue.ready.iter().copied().filter(is_free).collect();
        actions.extend(free.iter().map(|job| Action::Look(runner, vec![*job])));
        if node.seen.is_some() && free.is_empty() {
            actions.push(Action::Look(runner, Vec::new()));
        }
        if free.len() > 1 {
            actions.push(Action::Look(runner, free));
        }
    }

    fn leases(&self, scope: &Scope, node: &Node, runner: u8, actions: &mut Vec<Action>) {
        match self.queue.lease(runner) {
            Lease::Live if self.expiries > 0 || !node.up => actions.push(Action::PassLease(runner)),
            Lease::Over => {
                actions.push(Action::MarkDead(runner));
                if node.up {
                    actions.push(Action::Beat(runner));
                }
            }
            Lease::Ended => {
                if node.up && self.queue.is(Mutant::BeatRevives) {
                    actions.push(Action::Beat(runner));
                }
                let claims = self.queue.claims.iter().any(|claim| claim.runner == runner);
                if scope.endings && !claims && node.open.is_none() && node.seen.is_none() {
                    actions.push(Action::ForgetRunner(runner));
                }
            }
            Lease::Live | Lease::Forgotten => {}
        }
        if scope.endings && self.queue.lease(runner) == Lease::Live {
            actions.push(Action::Stop(runner));
        }
        if node.up && self.crashes > 0 {
            actions.push(Action::Crash(runner));
        }
    }

    fn database(&self, scope: &Scope, actions: &mut Vec<Action>) {
        match self.sweep {
            Some(_) => actions.push(Action::SweepWrite),
            None => {
                let lost = self.queue.lost().into_iter();
                actions.extend(
                    lost.map(|(job, runner, number)| Action::SweepLook(job, runner, number)),
                );
            }
        }
        let mut forgetting = self.queue.clone();
        forgetting.forget_claims();
        if forgetting.claims.len() < self.queue.claims.len() {
            actions.push(Action::ForgetClaims);
        }
        for job in 0..scope.jobs {
            let row = self.queue.row(job);
            if row.is_some_and(|row| row.state != Waits::Available) {
                actions.push(Action::MakeDue(job));
            }
            // Who cancels waits for a claim that is under way.
            if self.is_locked(job) {
                continue;
            }
            let changes =
                row.is_some_and(|row| row.state != Waits::Available) || self.queue.is_ready(job);
            if self.changes > 0 && changes {
                actions.push(Action::Change(job));
            }
            if job < scope.cancelled && row.is_some() && !self.promised.contains(&job) {
                actions.push(Action::Cancel(job));
            }
            let waits =
                row.is_none_or(|row| row.state != Waits::Available || self.queue.is_ready(job));
            if waits && self.queue.cancels.contains(&job) {
                actions.push(Action::FollowCancel(job));
            }
        }
    }
}
