//! Faults that are put into the model: each must break a property, or the property says nothing.

use std::collections::BTreeSet;

use stateright::{Checker, HasDiscoveries, Model};
use stokehold_model::properties::{
    AS_CHANGED, CANCEL_STANDS, HOLDER_WRITES, NO_ATTEMPT_BURNT, NO_BYSTANDER, NO_STALE_WRITE,
    NONE_LOST, NOT_TAKEN_AWAY, ONE_EXECUTION, Property, TOLD_TRUE,
};
use stokehold_model::{Mutant, Scope};

use crate::scopes::{Explored, faulty};

/// Which jobs it takes, and the property that breaks.
fn breaks(mutant: Mutant) -> (u8, Property) {
    match mutant {
        Mutant::GuardOnState
        | Mutant::GuardOnAttempt
        | Mutant::GuardOrEqual
        | Mutant::ReleaseUnguarded
        | Mutant::CancelledUnguarded
        | Mutant::AskedAgainUnguarded => (1, NO_STALE_WRITE),
        Mutant::NothingChangedIsSuccess => (1, TOLD_TRUE),
        // By a runner whose row is gone, so that no sweep finds the claim.
        Mutant::ClaimWithoutLease => (1, NONE_LOST),
        // It holds nothing: the job's own token is above it.
        Mutant::TokenBeforeLook => (1, NONE_LOST),
        Mutant::ClaimLeavesReady => (1, ONE_EXECUTION),
        Mutant::AskedForOnce => (1, NONE_LOST),
        // The second job of the claim is in no claim any more.
        Mutant::AnsweredEarly => (2, NONE_LOST),
        Mutant::SweepUnchecked | Mutant::SweepByClaimAlone => (1, NOT_TAKEN_AWAY),
        Mutant::SweepBeforeDeath | Mutant::BeatRevives => (1, ONE_EXECUTION),
        // The claim of the dead runner holds it still, and it is ready.
        Mutant::SweepKeepsToken => (1, NONE_LOST),
        Mutant::SweepCounts => (1, NO_ATTEMPT_BURNT),
        Mutant::SweepBlamesAll => (1, NO_BYSTANDER),
        Mutant::ForgottenEarly => (1, HOLDER_WRITES),
        Mutant::CancelWithoutReady => (1, NOT_TAKEN_AWAY),
        Mutant::EditLeavesReady => (1, AS_CHANGED),
        Mutant::RequestDropped => (1, CANCEL_STANDS),
        Mutant::TickWithoutReady => (1, NONE_LOST),
    }
}

#[test]
fn every_fault_breaks_the_property_that_guards_against_it() {
    for mutant in Mutant::ALL {
        let (jobs, (property, _)) = breaks(mutant);
        let changes = u8::from(mutant == Mutant::EditLeavesReady);
        let checker = Explored::new(Scope { changes, ..faulty(mutant, jobs) })
            .checker()
            .finish_when(HasDiscoveries::AllOf(BTreeSet::from([property])))
            .spawn_bfs()
            .join();
        let Some(path) = checker.discovery(property) else {
            panic!("{mutant:?} breaks nothing; expected not to hold: {property}");
        };
        let states = checker.unique_state_count();
        let steps = path.into_actions();
        println!("{mutant:?}: after {} steps, {states} states: not so: {property}", steps.len());
        println!("  {steps:?}");
    }
}
