//! The protocol as it is built, explored in full.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use stateright::{Checker, Model};
use stokehold_model::Scope;
use stokehold_model::properties::{ALWAYS, SOMETIMES};

use crate::scopes::{
    Explored, NOT_STUCK, changed, full, handed_back, more_claims, two_losses, unfolded,
};

/// What the full scope has at least.
const FEWEST_STATES: usize = 1_000_000;
/// How long exploring it may take.
const LONGEST: Duration = Duration::from_secs(90);

/// Explores a scope, in which nothing forbidden may happen, and returns how many states it has and what of
/// that which must be possible is.
fn explore(name: &str, scope: Scope) -> (usize, HashSet<&'static str>) {
    let begun = Instant::now();
    let threads = std::thread::available_parallelism().map_or(1, Into::into);
    // Depth first: of what is still to be looked at, little has to be remembered.
    let checker = Explored::new(scope).checker().threads(threads).spawn_dfs().join();
    let states = checker.unique_state_count();
    println!(
        "{name}: {states} states by {} steps, up to {} deep, in {:.1} s",
        checker.state_count(),
        checker.max_depth(),
        begun.elapsed().as_secs_f64()
    );
    let found = checker.discoveries();
    for (property, _) in ALWAYS.iter().chain([&NOT_STUCK]) {
        if let Some(path) = found.get(property) {
            panic!("{name}: not so: {property}\n{path}");
        }
    }
    (states, found.into_keys().collect())
}

#[test]
fn every_property_holds_in_every_state_of_the_full_scope() {
    let begun = Instant::now();
    let (states, _) = explore("two jobs, everything goes wrong once", full());
    assert!(states >= FEWEST_STATES, "{states} states only");
    assert!(begun.elapsed() < LONGEST, "{:?}", begun.elapsed());
}

#[test]
fn every_property_holds_beyond_it_and_everything_that_should_be_possible_is() {
    let mut possible = HashSet::new();
    possible.extend(explore("one job, four claims, two leases lost", two_losses()).1);
    possible.extend(explore("two jobs, handed back", handed_back()).1);
    possible.extend(explore("two jobs that are changed", changed()).1);
    possible.extend(explore("two jobs, three claims", more_claims()).1);
    possible.extend(explore("one job, runners stop and are forgotten", unfolded()).1);
    for (property, _) in SOMETIMES {
        assert!(possible.contains(property), "never: {property}");
    }
}
