//! The claims of one registration: which are open, and which the database may forget.
//!
//! The database keeps a row for each claim until it is told that every job of it is answered; the
//! next claim tells it. By these rows the jobs of a dead runner are found.
//!
//! An answer to a job that was claimed within limits gives a permit back, and its lane may give another job.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use stokehold_queue::Lane;
use tokio::sync::Notify;

/// Claims with jobs that have no final answer yet.
#[derive(Debug, Default)]
pub(crate) struct OpenClaims {
    book: Mutex<Book>,
    bell: Notify,
}

#[derive(Debug, Default)]
struct Book {
    last: i64,
    /// Jobs left of each claim.
    open: HashMap<i64, usize>,
    answered: Vec<i64>,
    /// The lanes of claims within limits.
    limited: HashMap<i64, Vec<Lane>>,
    /// Lanes for which a permit came back.
    freed: HashSet<Lane>,
}

impl OpenClaims {
    /// The number of a new claim, and those that may be forgotten with it.
    pub(crate) fn next(&self) -> (i64, Vec<i64>) {
        let mut book = self.book();
        book.last += 1;
        (book.last, std::mem::take(&mut book.answered))
    }

    /// The claim took that many jobs.
    pub(crate) fn opened(&self, number: i64, jobs: usize) {
        if jobs > 0 {
            *self.book().open.entry(number).or_default() += jobs;
        }
    }

    /// A job of the claim has its final answer.
    pub(crate) fn answered(&self, numbers: impl Iterator<Item = i64>) {
        let mut book = self.book();
        for number in numbers {
            let Book { open, answered, limited, freed, .. } = &mut *book;
            let Some(left) = open.get_mut(&number) else { continue };
            *left -= 1;
            freed.extend(limited.get(&number).into_iter().flatten());
            if *left == 0 {
                open.remove(&number);
                limited.remove(&number);
                answered.push(number);
            }
        }
        if !book.freed.is_empty() {
            self.bell.notify_one();
        }
    }

    /// The claim, which is to be opened, was made within limits and took jobs of these lanes.
    pub(crate) fn is_limited(&self, number: i64, lanes: impl Iterator<Item = Lane>) {
        let lanes: HashSet<Lane> = lanes.collect();
        if !lanes.is_empty() {
            self.book().limited.insert(number, lanes.into_iter().collect());
        }
    }

    /// Lanes for which a permit came back since the last call.
    pub(crate) fn take_freed(&self) -> HashSet<Lane> {
        std::mem::take(&mut self.book().freed)
    }

    /// Ends when there are such.
    pub(crate) async fn freed(&self) {
        self.bell.notified().await;
    }

    /// The database was not told after all.
    pub(crate) fn untold(&self, numbers: Vec<i64>) {
        self.book().answered.extend(numbers);
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        // The book is whole after any panic: each step changes one entry.
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_forgotten_when_its_last_job_is_answered_and_told_once() {
        let claims = OpenClaims::default();
        let (first, _) = claims.next();
        claims.opened(first, 2);
        claims.answered([first].into_iter());
        let (second, forgotten) = claims.next();
        assert!(second > first && forgotten.is_empty());
        claims.answered([first, second].into_iter());
        let (_, forgotten) = claims.next();
        assert_eq!(forgotten, [first]);
        claims.untold(forgotten);
        assert_eq!(claims.next().1, [first]);
        assert!(claims.next().1.is_empty());
    }

    #[tokio::test]
    async fn an_answer_frees_the_lanes_of_a_claim_within_limits_only() {
        let claims = OpenClaims::default();
        let lane = Lane { kind_id: stokehold_domain::KindId(1), priority: 3 };
        claims.is_limited(1, [lane, lane].into_iter());
        claims.opened(1, 2);
        claims.opened(2, 1);
        claims.answered([2].into_iter());
        assert!(claims.take_freed().is_empty());
        for _ in 0..2 {
            claims.answered([1].into_iter());
            claims.freed().await;
            assert_eq!(claims.take_freed(), HashSet::from([lane]));
        }
        claims.answered([1].into_iter());
        assert!(claims.take_freed().is_empty());
    }
}
