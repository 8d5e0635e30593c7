//! The claims of one registration: which are open, and which the database may forget.
//!
//! The database keeps a row for each claim until it is told that every job of it is answered; the
//! next claim tells it. By these rows the jobs of a dead runner are found.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Claims with jobs that have no final answer yet.
#[derive(Debug, Default)]
pub(crate) struct OpenClaims(Mutex<Book>);

#[derive(Debug, Default)]
struct Book {
    last: i64,
    /// Jobs left of each claim.
    open: HashMap<i64, usize>,
    answered: Vec<i64>,
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
            let Some(left) = book.open.get_mut(&number) else { continue };
            *left -= 1;
            if *left == 0 {
                book.open.remove(&number);
                book.answered.push(number);
            }
        }
    }

    /// The database was not told after all.
    pub(crate) fn untold(&self, numbers: Vec<i64>) {
        self.book().answered.extend(numbers);
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        // The book is whole after any panic: each step changes one entry.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
}
