//! The states of a job and the transitions between them.
//!
//! The table below is the one place that says what may follow what. The queue's statements repeat
//! it as guards in their WHERE clauses and the tables as CHECK constraints.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Where a job is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    /// Waits for its `run_at`.
    Scheduled,
    /// May be claimed now.
    Available,
    /// Claimed by a runner whose lease is alive.
    Running,
    /// Failed with tries left; waits for its `run_at`.
    Retryable,
    /// Cannot be claimed until an event frees it.
    Pending,
    /// Ended well.
    Completed,
    /// Ended badly, for good.
    Discarded,
    /// Ended because someone no longer wanted it.
    Cancelled,
}

use JobState::{
    Available, Cancelled, Completed, Discarded, Pending, Retryable, Running, Scheduled,
};

/// Who makes a transition, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Actor {
    /// An application or the API.
    Client,
    /// The runner that holds the claim.
    Runner,
    /// Any node's regular sweep.
    Sweep,
}

/// Every allowed transition.
pub const TRANSITIONS: &[(JobState, JobState, Actor)] = &[
    (Scheduled, Available, Actor::Sweep),
    (Retryable, Available, Actor::Sweep),
    (Pending, Available, Actor::Sweep),
    (Available, Running, Actor::Runner),
    (Running, Completed, Actor::Runner),
    (Running, Discarded, Actor::Runner),
    (Running, Cancelled, Actor::Runner),
    (Running, Retryable, Actor::Runner),
    // Snoozed.
    (Running, Scheduled, Actor::Runner),
    // Handed back, unstarted or because the node stops: no attempt is counted.
    (Running, Available, Actor::Runner),
    // The node died.
    (Running, Available, Actor::Sweep),
    (Running, Discarded, Actor::Sweep),
    // Not started before it expired; told by whoever claims it, or by the sweep.
    (Scheduled, Discarded, Actor::Sweep),
    (Available, Discarded, Actor::Sweep),
    (Retryable, Discarded, Actor::Sweep),
    (Pending, Discarded, Actor::Sweep),
    (Scheduled, Cancelled, Actor::Client),
    (Available, Cancelled, Actor::Client),
    (Retryable, Cancelled, Actor::Client),
    (Pending, Cancelled, Actor::Client),
];

impl JobState {
    /// Every state, in the order of a job's life.
    pub const ALL: [JobState; 8] =
        [Scheduled, Available, Running, Retryable, Pending, Completed, Discarded, Cancelled];

    /// The word that the API, the tables and people use.
    pub fn as_str(self) -> &'static str {
        match self {
            Scheduled => "scheduled",
            Available => "available",
            Running => "running",
            Retryable => "retryable",
            Pending => "pending",
            Completed => "completed",
            Discarded => "discarded",
            Cancelled => "cancelled",
        }
    }

    /// The job has its one outcome; nothing changes any more.
    pub fn is_final(self) -> bool {
        matches!(self, Completed | Discarded | Cancelled)
    }

    /// The job waits and can be cancelled at once.
    pub fn is_waiting(self) -> bool {
        matches!(self, Scheduled | Available | Retryable | Pending)
    }

    /// Whether the table allows the step.
    pub fn may_become(self, next: JobState, actor: Actor) -> bool {
        TRANSITIONS.contains(&(self, next, actor))
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The text names no state.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "{0:?} is not a job state: scheduled, available, running, retryable, pending, completed, \
     discarded or cancelled"
)]
pub struct UnknownState(String);

impl FromStr for JobState {
    type Err = UnknownState;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        JobState::ALL
            .into_iter()
            .find(|state| state.as_str() == text)
            .ok_or_else(|| UnknownState(text.chars().take(40).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn final_states_have_no_way_out_and_every_other_state_has_one() {
        for state in JobState::ALL {
            let ways_out = TRANSITIONS.iter().filter(|(from, _, _)| *from == state).count();
            assert_eq!(ways_out == 0, state.is_final(), "{state}");
        }
    }

    #[test]
    fn only_a_runner_starts_a_job_and_a_client_never_touches_a_running_one() {
        for (from, to, actor) in TRANSITIONS {
            assert!(*to != Running || (*from == Available && *actor == Actor::Runner));
            assert!(*actor != Actor::Client || from.is_waiting());
        }
    }

    #[test]
    fn words_round_trip() {
        for state in JobState::ALL {
            assert_eq!(state.as_str().parse(), Ok(state));
        }
        assert!("done".parse::<JobState>().is_err());
    }
}
