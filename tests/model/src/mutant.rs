//! What could have been built wrong: each is one rule of the protocol left out or a little off.

/// A fault that is put into the model, to see that its properties notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mutant {
    /// Outcomes are guarded by "the job runs" alone.
    GuardOnState,
    /// Outcomes are guarded by the number of the attempt, which a lost node does not count on.
    GuardOnAttempt,
    /// Outcomes are accepted up to the job's own token and not below it: `<=` for `<`.
    GuardOrEqual,
    /// Handing back and trying again is not guarded.
    ReleaseUnguarded,
    /// The outcome "cancelled" is not guarded.
    CancelledUnguarded,
    /// Whoever asks again after a lost answer does so without a token.
    AskedAgainUnguarded,
    /// Whoever asks again and changes nothing takes that for success.
    NothingChangedIsSuccess,
    /// A claim does not look at the runner's lease.
    ClaimWithoutLease,
    /// The token is drawn before the look.
    TokenBeforeLook,
    /// A claim leaves the ready rows of what it took.
    ClaimLeavesReady,
    /// The node asks once for a claim of which it did not hear, though it may still be committed.
    AskedForOnce,
    /// A claim is reported as answered with its first answer.
    AnsweredEarly,
    /// The sweep gives back what it saw, without another look under the lock.
    SweepUnchecked,
    /// The sweep gives back all that a dead runner's claims name, whosever it is by now.
    SweepByClaimAlone,
    /// The sweep gives back what runners hold whose lease is over, before they are marked as dead.
    SweepBeforeDeath,
    /// The sweep leaves the job's token as it was.
    SweepKeepsToken,
    /// The sweep counts an attempt.
    SweepCounts,
    /// The sweep counts every loss, whatever the runner says that it ran.
    SweepBlamesAll,
    /// Claims of dead runners are forgotten with what they hold.
    ForgottenEarly,
    /// A beat revives a runner that is marked as dead.
    BeatRevives,
    /// Cancelling takes an available job without a ready row for one that waits.
    CancelWithoutReady,
    /// A request to cancel is dropped when the attempt fails.
    RequestDropped,
    /// A change leaves the ready row of the job as it is.
    EditLeavesReady,
    /// The tick makes due jobs available and not ready.
    TickWithoutReady,
}

impl Mutant {
    /// All of them.
    pub const ALL: [Mutant; 24] = [
        Mutant::GuardOnState,
        Mutant::GuardOnAttempt,
        Mutant::GuardOrEqual,
        Mutant::ReleaseUnguarded,
        Mutant::CancelledUnguarded,
        Mutant::AskedAgainUnguarded,
        Mutant::NothingChangedIsSuccess,
        Mutant::ClaimWithoutLease,
        Mutant::TokenBeforeLook,
        Mutant::ClaimLeavesReady,
        Mutant::AskedForOnce,
        Mutant::AnsweredEarly,
        Mutant::SweepUnchecked,
        Mutant::SweepByClaimAlone,
        Mutant::SweepBeforeDeath,
        Mutant::SweepKeepsToken,
        Mutant::SweepCounts,
        Mutant::SweepBlamesAll,
        Mutant::ForgottenEarly,
        Mutant::BeatRevives,
        Mutant::CancelWithoutReady,
        Mutant::RequestDropped,
        Mutant::EditLeavesReady,
        Mutant::TickWithoutReady,
    ];
}
