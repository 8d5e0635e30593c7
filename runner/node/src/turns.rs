//! Where settling meets claiming: while slots come free one by one, what an attempt came to is written
//! with the claim that follows it, in one round trip and one commit.
//!
//! The settler offers what it has gathered as long as the claim loop says that it wants more jobs; the
//! loop takes an offer along with its next claim, or leaves it at once. The outcomes stay the settler's
//! all the time: if the loop ends, or the turn's fate is unknown, it settles them by themselves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use stokehold_queue::Ended;
use tokio::sync::{mpsc, oneshot};

/// The most outcomes that go along with a claim. Where more have gathered, jobs are short, and settling
/// beside claiming is faster than one after the other.
const MOST_OUTCOMES: usize = 50;
/// Offers that wait for the claim loop.
const MOST_OFFERS: usize = 16;

/// Outcomes that may go along with the next claim.
#[derive(Debug)]
pub(crate) struct Offer {
    pub(crate) outcomes: Arc<Vec<Ended>>,
    /// For each outcome, whether it took effect; dropped if the offer is left.
    pub(crate) answer: oneshot::Sender<Vec<bool>>,
}

/// The settler's end.
#[derive(Clone, Debug)]
pub(crate) struct Turns {
    shared: Arc<Shared>,
    offers: mpsc::Sender<Offer>,
}

#[derive(Debug, Default)]
struct Shared {
    /// A claim would follow at once if there were room.
    wanted: AtomicBool,
    /// The last outcomes would have gone along with a claim: the next will too.
    few: AtomicBool,
}

/// The claim loop's end.
#[derive(Debug)]
pub(crate) struct Offers {
    shared: Arc<Shared>,
    pub(crate) offers: mpsc::Receiver<Offer>,
}

/// Both ends.
pub(crate) fn meet() -> (Turns, Offers) {
    let shared = Arc::<Shared>::default();
    let (sender, offers) = mpsc::channel(MOST_OFFERS);
    (Turns { shared: Arc::clone(&shared), offers: sender }, Offers { shared, offers })
}

impl Turns {
    /// Has the outcomes settled with a claim, if one wants them; says which of them took effect. `None`
    /// if none did, or if nothing is known of them.
    pub(crate) async fn offer(&self, outcomes: &Arc<Vec<Ended>>) -> Option<Vec<bool>> {
        let fit = outcomes.len() <= MOST_OUTCOMES && outcomes.iter().all(Ended::fits_a_turn);
        self.shared.few.store(fit, Ordering::Relaxed);
        if !fit || !self.shared.wanted.load(Ordering::Relaxed) {
            return None;
        }
        let (answer, told) = oneshot::channel();
        self.offers.try_send(Offer { outcomes: Arc::clone(outcomes), answer }).ok()?;
        told.await.ok()
    }
}

impl Offers {
    /// Says whether a claim would follow at once if there were room.
    pub(crate) fn want(&self, wanted: bool) {
        self.shared.wanted.store(wanted, Ordering::Relaxed);
    }

    /// Whether the outcomes of jobs that run now are likely to be offered.
    pub(crate) fn are_likely(&self) -> bool {
        self.shared.wanted.load(Ordering::Relaxed) && self.shared.few.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stokehold_domain::{ClaimToken, JobId, JobState, Next};

    fn outcomes(number: usize, next: Next) -> Arc<Vec<Ended>> {
        let ended = Ended {
            job_id: JobId(1),
            token: ClaimToken(1),
            claim: 1,
            attempt: 1,
            release: None,
            code: "ok",
            next,
            result: None,
            problem: None,
            receipt: None,
            log: Vec::new(),
        };
        Arc::new(vec![ended; number])
    }

    const DONE: Next = Next::Finish(JobState::Completed);

    #[tokio::test]
    async fn only_few_final_outcomes_are_offered_and_only_when_wanted() {
        let (turns, mut offers) = meet();
        assert_eq!(turns.offer(&outcomes(1, DONE)).await, None, "nobody wants it");
        offers.want(true);
        let retry = Next::Retry(std::time::Duration::ZERO);
        assert_eq!(turns.offer(&outcomes(1, retry)).await, None);
        assert_eq!(turns.offer(&outcomes(MOST_OUTCOMES + 1, DONE)).await, None);
        assert!(offers.offers.try_recv().is_err(), "none of them was offered");
        let batch = outcomes(MOST_OUTCOMES, DONE);
        let taken = async {
            let offer = offers.offers.recv().await.unwrap();
            offer.answer.send(vec![true; offer.outcomes.len()]).unwrap();
        };
        let (told, ()) = tokio::join!(turns.offer(&batch), taken);
        assert_eq!(told, Some(vec![true; MOST_OUTCOMES]));
    }

    #[tokio::test]
    async fn an_offer_that_is_left_or_that_nobody_takes_any_more_stays_the_settlers() {
        let (turns, mut offers) = meet();
        offers.want(true);
        let batch = outcomes(2, DONE);
        let left = async { drop(offers.offers.recv().await.unwrap()) };
        let (told, ()) = tokio::join!(turns.offer(&batch), left);
        assert_eq!(told, None);
        drop(offers);
        assert_eq!(turns.offer(&batch).await, None);
        assert_eq!(batch.len(), 2);
    }
}
