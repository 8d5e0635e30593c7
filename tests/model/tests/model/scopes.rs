//! What is explored, and the model in the form that the checker takes.

use stateright::{Model, Property};
use stokehold_model::properties::{self, ALWAYS, SOMETIMES};
use stokehold_model::{Action, Final, Lease, Mutant, Next, Scope, World};

const COMPLETED: Next = Next::Finish(Final::Completed);

/// Two jobs and two runners. A lease is lost at any time, an answer, and a process; somebody cancels.
pub(crate) fn full() -> Scope {
    Scope {
        jobs: 2,
        max_attempts: 2,
        max_lost: 2,
        runners: 2,
        claims: 2,
        lost_answers: 1,
        crashes: 1,
        expiries: 1,
        cancelled: 1,
        changes: 0,
        endings: false,
        folded: true,
        nexts: vec![COMPLETED, Next::Retry],
        mutant: None,
    }
}

/// The same with jobs that are handed back, where no process dies.
pub(crate) fn handed_back() -> Scope {
    Scope { crashes: 0, nexts: vec![COMPLETED, Next::Retry, Next::HandBack], ..full() }
}

/// One job that goes round more often, up to its last attempt and its last loss.
pub(crate) fn two_losses() -> Scope {
    Scope { jobs: 1, claims: 4, expiries: 2, crashes: 1, ..handed_back() }
}

/// Two jobs that are claimed again in every order.
pub(crate) fn more_claims() -> Scope {
    Scope { claims: 3, lost_answers: 0, cancelled: 0, ..handed_back() }
}

/// One job with every record kept as the tables keep it, and runners that stop and are forgotten.
pub(crate) fn unfolded() -> Scope {
    Scope { jobs: 1, crashes: 1, endings: true, folded: false, ..handed_back() }
}

/// Two jobs that are changed while claims have begun.
pub(crate) fn changed() -> Scope {
    Scope { changes: 2, lost_answers: 0, cancelled: 0, ..handed_back() }
}

/// Where a fault has to show: all that can go wrong, and as many jobs as it takes.
pub(crate) fn faulty(mutant: Mutant, jobs: u8) -> Scope {
    Scope { jobs, claims: 3, expiries: 2, mutant: Some(mutant), ..unfolded() }
}

/// The model of one scope.
#[derive(Clone, Debug)]
pub(crate) struct Explored {
    scope: Scope,
}

impl Explored {
    pub(crate) fn new(scope: Scope) -> Self {
        Explored { scope }
    }

    /// Whether something can happen, or nothing has to any more.
    fn goes_on(&self, world: &World) -> bool {
        // What is under way can always go on.
        if world.sweep.is_some()
            || world.nodes.iter().any(|node| node.open.is_some() || !node.held.is_empty())
        {
            return true;
        }
        let mut actions = Vec::new();
        world.actions(&self.scope, &mut actions);
        let used_up = world.queue.last_token == self.scope.claims
            || !world.queue.leases.contains(&Lease::Live)
            || world
                .nodes
                .iter()
                .zip(&world.queue.leases)
                .all(|(node, lease)| !node.up || *lease != Lease::Live);
        !actions.is_empty() || world.is_over() || used_up
    }
}

/// Nearly every step uses something up or brings a job nearer to its end, and those that can go round, such as
/// a look in vain, take no other away; so a world that never gets stuck comes to an end.
pub(crate) const NOT_STUCK: properties::Property = (
    "while a job lives something can happen, as long as there is a runner and a claim left",
    |_| true,
);

impl Model for Explored {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(&self.scope)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        world.actions(&self.scope, actions);
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        next.step(&action);
        if self.scope.folded {
            next.fold();
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        // The checker wants plain functions, so each property stands here by its place.
        macro_rules! properties {
            ($kind:ident, $list:ident, $($place:literal)*) => {
                [$(Property::$kind($list[$place].0, |_, world| ($list[$place].1)(world))),*]
            };
        }
        let mut all = vec![Property::always(NOT_STUCK.0, Self::goes_on)];
        all.extend::<[_; ALWAYS.len()]>(properties!(always, ALWAYS, 0 1 2 3 4 5 6 7 8 9 10));
        if self.scope.mutant.is_none() {
            all.extend::<[_; SOMETIMES.len()]>(properties!(sometimes, SOMETIMES, 0 1 2 3 4 5 6 7));
        }
        all
    }
}
