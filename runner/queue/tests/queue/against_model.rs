//! The real statements beside the model of the protocol: random steps by several runners, each by its own
//! connections, and after each the same answer and the same tables.
//!
//! `STOKEHOLD_SEED` plays one sequence again, `STOKEHOLD_SEQUENCES` more of them.

mod runners;
mod steps;
mod tables;

use std::collections::HashSet;
use std::fmt::Debug;

use stokehold_domain::KindId;
use stokehold_model::{Mutant, Queue as Model};
use stokehold_queue::runners::LeaseConnection;
use stokehold_queue::{Claimed, Database, DatabaseOptions, Plans, reaper};
use tokio::task::JoinSet;

use crate::support::{LEASE, Queue};

/// Sequences, and steps of each.
const SEQUENCES: u64 = 400;
const STEPS: usize = 40;
/// Databases at work at the same time.
const PLAYS: u64 = 4;

/// Numbers that follow from a seed.
struct Dice(u64);

impl Dice {
    /// A number below this.
    fn below(&mut self, limit: usize) -> usize {
        // splitmix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((bits ^ (bits >> 31)) % limit.max(1) as u64) as usize
    }

    fn one_in(&mut self, limit: usize) -> bool {
        self.below(limit) == 0
    }

    /// One of them, by its number.
    fn number(&mut self, of: usize) -> Option<u8> {
        (of > 0).then(|| u8::try_from(self.below(of)).unwrap())
    }
}

/// One sequence.
struct Play<'a> {
    queue: &'a Queue,
    kind: KindId,
    /// Connections of nodes: runners take turns with them.
    nodes: &'a [Database],
    beats: LeaseConnection,
    dice: Dice,
    model: Model,
    /// Nothing is claimed.
    paused: bool,
    /// Of each job, its lane and attempts.
    policies: Vec<(i8, u8)>,
    /// Of each runner, every attempt that it ever heard of: it writes about those that are long over too.
    heard: Vec<Vec<Claimed>>,
    /// Of each runner, claims of which it did not hear.
    unheard: Vec<Vec<i64>>,
    last_number: i64,
    /// What was done, for whoever reads a failure.
    done: Vec<String>,
    /// What was answered.
    seen: &'a mut HashSet<String>,
}

impl Play<'_> {
    async fn run(&mut self, steps: usize) {
        tables::clear(self.queue).await;
        self.enqueue().await;
        self.register().await;
        for _ in 0..steps {
            let before = self.model.ready.clone();
            self.step().await;
            tables::compare(self.queue, &mut self.model, &before, &self.done).await;
        }
    }

    /// Notes an answer; of the ids in it there are too many.
    fn saw(&mut self, what: &str, answer: impl Debug) {
        let answer = format!("{what} {answer:?}");
        let name = answer.split("(JobId").next().unwrap_or_default().trim_end_matches(" ()");
        self.seen.insert(name.to_owned());
    }

    fn node(&mut self) -> &Database {
        let node = self.dice.below(self.nodes.len());
        &self.nodes[node]
    }
}

/// Plays sequences beside a model, and returns all that was answered.
async fn play(seeds: impl Iterator<Item = u64>, mutant: Option<Mutant>) -> HashSet<String> {
    let mut seen = HashSet::new();
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let nodes: Vec<Database> = (0..3)
        .map(|_| {
            let options = DatabaseOptions::new(queue.options.clone());
            Database::lazy(DatabaseOptions { max_connections: 2, plans: Plans::Kept, ..options })
        })
        .collect();
    for seed in seeds {
        // Shown with a failure, and only then.
        println!("STOKEHOLD_SEED={seed}");
        let mut play = Play {
            queue: &queue,
            kind,
            nodes: &nodes,
            beats: LeaseConnection::new(&queue.database, LEASE),
            dice: Dice(seed),
            model: Model::new(u8::try_from(reaper::MAX_LOST).unwrap(), mutant),
            paused: false,
            policies: Vec::new(),
            heard: Vec::new(),
            unheard: Vec::new(),
            last_number: 0,
            done: Vec::new(),
            seen: &mut seen,
        };
        play.run(STEPS).await;
    }
    seen
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}

/// What has to be answered some time, or the sequences do not reach it.
const ANSWERS: [&str; 20] = [
    "claimed",
    "claimed unheard",
    "fate Applied",
    "fate AlreadyApplied",
    "fate Stale",
    "fate Gone",
    "turn true",
    "turn false",
    "given back",
    "discarded",
    "beat false",
    "cancel Cancelled",
    "cancel Requested",
    "cancel Ended(Completed)",
    "followed",
    "edit Done",
    "edit Runs",
    "edit Ended(Discarded)",
    "retry Before",
    "retry Completed",
];

#[tokio::test]
async fn whatever_runners_and_clients_do_the_statements_answer_as_the_model_does() {
    if let Some(seed) = setting("STOKEHOLD_SEED") {
        play(std::iter::once(seed), None).await;
        return;
    }
    let sequences = setting("STOKEHOLD_SEQUENCES").unwrap_or(SEQUENCES);
    let mut playing = JoinSet::new();
    for first in 0..PLAYS {
        playing.spawn(play((first..sequences).step_by(PLAYS as usize), None));
    }
    let seen: HashSet<String> = playing.join_all().await.into_iter().flatten().collect();
    let never: Vec<&str> = ANSWERS.into_iter().filter(|answer| !seen.contains(*answer)).collect();
    assert!(never.is_empty(), "never: {never:?}");
}

/// Faults that show in what one statement does, after a few steps; the others need nodes, which play no part
/// here, or a rare way to them.
const TOLD_APART: [Mutant; 14] = [
    Mutant::GuardOnState,
    Mutant::GuardOnAttempt,
    Mutant::GuardOrEqual,
    Mutant::ReleaseUnguarded,
    Mutant::CancelledUnguarded,
    Mutant::ClaimWithoutLease,
    Mutant::ClaimLeavesReady,
    Mutant::SweepKeepsToken,
    Mutant::SweepCounts,
    Mutant::SweepBlamesAll,
    Mutant::BeatRevives,
    Mutant::CancelWithoutReady,
    Mutant::RequestDropped,
    Mutant::TickWithoutReady,
];

#[tokio::test]
async fn a_model_that_is_built_wrong_is_told_from_the_statements() {
    let mut unnoticed = Vec::new();
    for mutant in TOLD_APART {
        // The failure that is wanted here is printed all the same.
        let played = tokio::spawn(play(0..SEQUENCES, Some(mutant))).await;
        if !played.is_err_and(|error| error.is_panic()) {
            unnoticed.push(mutant);
        }
    }
    assert!(unnoticed.is_empty(), "{unnoticed:?}");
}
