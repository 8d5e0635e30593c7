//! Slots: where claimed jobs wait for their turn, and how many run at once.
//!
//! A slot is a task on the guests' threads that takes one job after the other until none waits. So a
//! job costs no task, no timer and no hand-over of its own, and short jobs follow each other on a
//! thread without a pause. If the process dies here, the lease runs out and the jobs run elsewhere.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use stokehold_queue::Claimed;
use tokio::sync::Notify;

/// The jobs of one session that wait or run.
#[derive(Debug)]
pub(crate) struct Slots {
    limit: usize,
    turns: Mutex<Turns>,
    /// Jobs that wait or run.
    held: AtomicUsize,
    /// Rung when no more than `refill_at` are held.
    room: Notify,
    refill_at: AtomicUsize,
}

#[derive(Debug, Default)]
struct Turns {
    waiting: VecDeque<(Claimed, Instant)>,
    /// Suspects whose turn came while another ran.
    suspects: VecDeque<(Claimed, Instant)>,
    /// Slots that run something.
    busy: usize,
    suspect_runs: bool,
    closed: bool,
}

impl Slots {
    pub(crate) fn new(limit: usize) -> Self {
        Slots {
            limit,
            turns: Mutex::default(),
            held: AtomicUsize::new(0),
            room: Notify::new(),
            refill_at: AtomicUsize::new(0),
        }
    }

    /// Jobs that wait or run.
    pub(crate) fn held(&self) -> usize {
        self.held.load(Ordering::Acquire)
    }

    /// Takes claimed jobs in, in the order in which they are to start, and says how many slots have
    /// to be started for them. Gives them back when nothing may start any more.
    pub(crate) fn take(&self, jobs: Vec<Claimed>) -> Result<usize, Vec<Claimed>> {
        let mut turns = self.turns();
        if turns.closed {
            return Err(jobs);
        }
        let now = Instant::now();
        self.held.fetch_add(jobs.len(), Ordering::AcqRel);
        turns.waiting.extend(jobs.into_iter().map(|job| (job, now)));
        let started = turns.waiting.len().min(self.limit.saturating_sub(turns.busy));
        turns.busy += started;
        Ok(started)
    }

    /// The next job for a slot; `None` ends the slot. A node runs one suspect at a time: the others
    /// wait aside and are passed by.
    pub(crate) fn next(&self) -> Option<Claimed> {
        let mut turns = self.turns();
        if !turns.suspect_runs
            && let Some((job, _)) = turns.suspects.pop_front()
        {
            turns.suspect_runs = true;
            return Some(job);
        }
        while let Some((job, since)) = turns.waiting.pop_front() {
            if job.lost == 0 {
                return Some(job);
            }
            if !turns.suspect_runs {
                turns.suspect_runs = true;
                return Some(job);
            }
            turns.suspects.push_back((job, since));
        }
        turns.busy -= 1;
        None
    }

    /// A slot has come to grief with its job.
    pub(crate) fn broke(&self, suspect: bool) {
        self.turns().busy -= 1;
        self.done(suspect);
    }

    /// A job has run.
    pub(crate) fn done(&self, suspect: bool) {
        if suspect {
            self.turns().suspect_runs = false;
        }
        self.left(1);
    }

    /// Jobs have left: they ran, or were handed back.
    pub(crate) fn left(&self, jobs: usize) {
        let left = self.held.fetch_sub(jobs, Ordering::AcqRel) - jobs;
        if left <= self.refill_at.load(Ordering::Relaxed) {
            self.room.notify_one();
        }
    }

    /// Ends when no more than `held` jobs are held, or have been since the last call.
    pub(crate) async fn wait_for_room(&self, held: usize) {
        self.refill_at.store(held, Ordering::Relaxed);
        if self.held() <= held {
            return;
        }
        self.room.notified().await;
    }

    /// Takes out the jobs that have waited too long for a slot.
    pub(crate) fn overdue(&self, wait: Duration) -> Vec<Claimed> {
        let overdue = self.waiting_since(wait);
        self.left(overdue.len());
        overdue
    }

    fn waiting_since(&self, wait: Duration) -> Vec<Claimed> {
        let mut turns = self.turns();
        let mut overdue = Vec::new();
        let Turns { waiting, suspects, .. } = &mut *turns;
        for queue in [waiting, suspects] {
            while queue.front().is_some_and(|(_, since)| since.elapsed() >= wait) {
                overdue.extend(queue.pop_front().map(|(job, _)| job));
            }
        }
        overdue
    }

    /// Takes out the jobs that wait and that this is true of.
    pub(crate) fn take_out(&self, mut wanted: impl FnMut(&Claimed) -> bool) -> Vec<Claimed> {
        let mut turns = self.turns();
        let mut out = Vec::new();
        let Turns { waiting, suspects, .. } = &mut *turns;
        for queue in [waiting, suspects] {
            let (taken, kept) = queue.drain(..).partition(|(job, _)| wanted(job));
            *queue = kept;
            out.extend(VecDeque::into_iter(taken).map(|(job, _)| job));
        }
        drop(turns);
        self.left(out.len());
        out
    }

    /// Starts nothing more and gives back what waits.
    pub(crate) fn close(&self) -> Vec<Claimed> {
        let mut turns = self.turns();
        turns.closed = true;
        let Turns { waiting, suspects, .. } = &mut *turns;
        let waiting: Vec<Claimed> =
            waiting.drain(..).chain(suspects.drain(..)).map(|(job, _)| job).collect();
        drop(turns);
        self.left(waiting.len());
        waiting
    }

    fn turns(&self) -> MutexGuard<'_, Turns> {
        // The turns are whole after any panic: each step moves whole values.
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lanes::tests::job;

    fn suspect(position: i64) -> Claimed {
        Claimed { lost: 1, ..job(1, position) }
    }

    #[test]
    fn jobs_start_in_order_and_no_more_slots_than_the_limit() {
        let slots = Slots::new(2);
        assert_eq!(slots.take(vec![job(1, 1)]).unwrap(), 1);
        assert_eq!(slots.take(vec![job(1, 2), job(1, 3)]).unwrap(), 1);
        assert_eq!(slots.take(vec![job(1, 4)]).unwrap(), 0);
        let started: Vec<i64> = (0..4).map(|_| slots.next().unwrap().position).collect();
        assert_eq!(started, [1, 2, 3, 4]);
        assert_eq!(slots.held(), 4);
        assert!(slots.next().is_none() && slots.next().is_none());
        assert_eq!(slots.take(vec![job(1, 5), job(1, 6), job(1, 7)]).unwrap(), 2);
    }

    #[test]
    fn one_suspect_runs_at_a_time_and_others_pass_those_that_wait() {
        let slots = Slots::new(4);
        slots.take(vec![suspect(1), suspect(2), job(1, 3)]).unwrap();
        assert_eq!(slots.next().unwrap().position, 1);
        assert_eq!(slots.next().unwrap().position, 3);
        assert!(slots.next().is_none(), "the second suspect waits for the first");
        slots.done(true);
        assert_eq!(slots.next().unwrap().position, 2);
    }

    #[test]
    fn what_waits_too_long_or_at_the_end_is_given_back() {
        let slots = Slots::new(1);
        slots.take(vec![job(1, 1), job(1, 2)]).unwrap();
        slots.next().unwrap();
        assert!(slots.overdue(Duration::from_secs(60)).is_empty());
        assert_eq!(slots.overdue(Duration::ZERO).len(), 1);
        slots.take(vec![job(1, 3), job(1, 4), suspect(5)]).unwrap();
        let out: Vec<i64> =
            slots.take_out(|job| job.position >= 4).iter().map(|job| job.position).collect();
        assert_eq!((out, slots.held()), (vec![4, 5], 2));
        assert_eq!(slots.close().len(), 1);
        assert_eq!(slots.take(vec![job(1, 4)]).unwrap_err().len(), 1);
    }

    #[tokio::test]
    async fn room_is_rung_at_the_mark_and_not_before() {
        let slots = Slots::new(4);
        slots.take(vec![job(1, 1), job(1, 2), job(1, 3)]).unwrap();
        let mut room = std::pin::pin!(slots.wait_for_room(1));
        assert!(futures_poll(room.as_mut()).await.is_none());
        slots.done(false);
        assert!(futures_poll(room.as_mut()).await.is_none());
        slots.done(false);
        assert!(futures_poll(room.as_mut()).await.is_some());
    }

    async fn futures_poll<F: Future>(mut future: std::pin::Pin<&mut F>) -> Option<F::Output> {
        std::future::poll_fn(|cx| match future.as_mut().poll(cx) {
            std::task::Poll::Ready(value) => std::task::Poll::Ready(Some(value)),
            std::task::Poll::Pending => std::task::Poll::Ready(None),
        })
        .await
    }
}
