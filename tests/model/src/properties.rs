//! What must hold in every state, and what must be possible.

use crate::world::{Stage, Wrong};
use crate::{Final, Lease, Record, Waits, World};

/// A property by the sentence that says it.
pub type Property = (&'static str, fn(&World) -> bool);

/// At most one outcome, and exactly one of those that have ended.
pub const ONE_OUTCOME: Property =
    ("a job that lives has no outcome, and one that has ended has one", |world| {
        world.queue.jobs.iter().all(|job| job.history.len() == usize::from(job.row.is_none()))
    });

/// No lost job.
pub const NONE_LOST: Property = (
    "a job that lives waits, is ready, or is held by one claim, and somebody knows of it",
    |world| {
        (0u8..)
            .zip(&world.queue.jobs)
            .all(|(id, job)| job.row.is_none() || is_in_one_place(world, id))
    },
);

/// The fence, from both sides.
pub const NO_STALE_WRITE: Property =
    ("no write takes effect but by the claim that holds the job", |world| {
        world.wrong != Some(Wrong::StaleWrite)
    });
/// The fence lets the holder through.
pub const HOLDER_WRITES: Property =
    ("what the claim that holds a job writes takes effect", |world| {
        world.wrong != Some(Wrong::HolderRefused)
    });
/// Answers are true.
pub const TOLD_TRUE: Property =
    ("a node that is told that its write took effect finds it on record", |world| {
        world.wrong != Some(Wrong::ToldWrong)
    });
/// Nobody interferes.
pub const NOT_TAKEN_AWAY: Property = (
    "nobody takes a job from the claim that holds it, but the sweep from a runner that ended",
    |world| world.wrong != Some(Wrong::TakenAway),
);

/// One execution.
pub const ONE_EXECUTION: Property =
    ("no two runners with a live lease run the same job", |world| {
        (0u8..).zip(&world.queue.jobs).all(|(id, _)| live_executions(world, id) <= 1)
    });

/// A lost node costs no attempt.
pub const NO_ATTEMPT_BURNT: Property =
    ("a job has counted the attempts that failed, and no lost node", |world| {
        world.queue.jobs.iter().zip(&world.folded).all(|(job, folded)| {
            let failed = job.attempts.iter().filter(|record| record.counted).count();
            job.row.is_none_or(|row| usize::from(row.attempt) == failed + usize::from(folded.0))
        })
    });

/// A job is discarded for its own losses.
pub const NO_BYSTANDER: Property = (
    "a job is blamed for one loss, and for those of runners that said that they ran it",
    |world| {
        world.queue.jobs.iter().zip(&world.folded).all(|(job, folded)| {
            let blamed = |record: &&Record| record.lost == Some(true);
            let most = 1 + usize::from(folded.1) + job.attempts.iter().filter(blamed).count();
            let discarded = job.history.iter().any(|record| record.lost.is_some());
            job.row.is_none_or(|row| usize::from(row.lost) <= most)
                && (!discarded || usize::from(world.queue.max_lost) <= most)
        })
    },
);

/// A promise to cancel is kept.
pub const CANCEL_STANDS: Property =
    ("what was promised to be cancelled is asked for until the job has ended", |world| {
        world
            .promised
            .iter()
            .all(|job| world.queue.row(*job).is_none() || world.queue.cancels.contains(job))
    });

/// A change that was answered as done is done.
pub const AS_CHANGED: Property = ("what a claim runs is the job as it was changed last", |world| {
    world
        .nodes
        .iter()
        .zip(0u8..)
        .flat_map(|(node, runner)| node.held.iter().map(move |held| (held, runner)))
        .all(|(held, runner)| {
            let holds = world.holders[usize::from(held.job)] == Some((runner, held.number));
            let version = world.queue.row(held.job).map(|row| row.version);
            !holds || version == Some(held.version)
        })
});

/// What must hold always.
pub const ALWAYS: [Property; 11] = [
    ONE_OUTCOME,
    NONE_LOST,
    NO_STALE_WRITE,
    HOLDER_WRITES,
    TOLD_TRUE,
    NOT_TAKEN_AWAY,
    ONE_EXECUTION,
    NO_ATTEMPT_BURNT,
    NO_BYSTANDER,
    CANCEL_STANDS,
    AS_CHANGED,
];

/// What must be reached by some way: without it the rest would be true of a model that does nothing.
pub const SOMETIMES: [Property; 8] = [
    ("every job is completed", |world| {
        world.queue.jobs.iter().all(|job| ended_as(&job.history, Final::Completed))
    }),
    ("a job is discarded after its last attempt", |world| {
        world
            .queue
            .jobs
            .iter()
            .any(|job| ended_as(&job.history, Final::Discarded) && job.history[0].lost.is_none())
    }),
    ("a job is discarded because runners died under it", |world| {
        world.queue.jobs.iter().any(|job| job.history.iter().any(|record| record.lost.is_some()))
    }),
    ("a job is cancelled by the runner that ran it", |world| {
        world
            .queue
            .jobs
            .iter()
            .any(|job| ended_as(&job.history, Final::Cancelled) && job.history[0].runner.is_some())
    }),
    ("a job that was to be cancelled while it ran is cancelled as it waits", |world| {
        world.promised.iter().any(|job| {
            let history = &world.queue.jobs[usize::from(*job)].history;
            ended_as(history, Final::Cancelled) && history[0].runner.is_none()
        })
    }),
    ("a write of a runner that is dead is the first", |world| {
        world.queue.jobs.iter().any(|job| {
            job.history.iter().any(|record| {
                record.lost.is_none()
                    && record.runner.is_some_and(|runner| world.queue.lease(runner) == Lease::Ended)
            })
        })
    }),
    ("two runners run the same job, one of them without a lease", |world| {
        (0u8..).zip(&world.queue.jobs).any(|(id, _)| {
            let runs = |node: &crate::world::Node| {
                node.held.iter().any(|held| held.job == id && held.stage == Stage::Runs)
            };
            world.nodes.iter().filter(|node| runs(node)).count() > 1
        })
    }),
    ("a claim holds a job, and its node did not hear of it yet", |world| {
        world.queue.claims.iter().any(|claim| {
            let node = &world.nodes[usize::from(claim.runner)];
            node.unheard.contains(&claim.number)
                && claim.jobs.iter().any(|job| world.queue.holds(claim, *job))
        })
    }),
];

fn ended_as(history: &[Record], state: Final) -> bool {
    history.iter().any(|record| record.ended == Some(state))
}

fn live_executions(world: &World, job: u8) -> usize {
    let mut live = 0;
    for (node, lease) in world.nodes.iter().zip(&world.queue.leases) {
        if node.up && *lease == Lease::Live {
            let runs = |stage| matches!(stage, Stage::Runs);
            live += node.held.iter().filter(|held| held.job == job && runs(held.stage)).count();
        }
    }
    live
}

fn is_in_one_place(world: &World, id: u8) -> bool {
    let queue = &world.queue;
    let Some(row) = queue.row(id) else { return false };
    let holders: Vec<_> = queue.claims.iter().filter(|claim| queue.holds(claim, id)).collect();
    let ready = queue.ready.iter().filter(|ready| **ready == id).count();
    if row.state != Waits::Available {
        return ready == 0 && holders.is_empty();
    }
    match holders.as_slice() {
        [] => ready == 1,
        [claim] => {
            let node = &world.nodes[usize::from(claim.runner)];
            let known = || {
                node.unheard.contains(&claim.number)
                    || node.held.iter().any(|held| held.job == id && held.number == claim.number)
            };
            // By a runner that knows it, or that the sweep will find.
            ready == 0
                && match queue.lease(claim.runner) {
                    Lease::Live | Lease::Over => !node.up || known(),
                    Lease::Ended => true,
                    Lease::Forgotten => false,
                }
        }
        _ => false,
    }
}
