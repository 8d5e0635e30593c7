//! The steps: each is taken by the database and by the model, and both answer the same.

use std::time::Duration;

use chrono::Utc;
use stokehold_domain::{JobId, JobState, RunnerId};
use stokehold_model::clients::{self, Edited as ModelEdited, Retried as ModelRetried};
use stokehold_model::{Cancelled, Final, Lease, Waits};
use stokehold_queue::pauses::{PauseEnd, Scope};
use stokehold_queue::{CancelAnswer, Edit, Edited, Horizon, NewJob, Reaped, Retried, Retry};

use super::Play;
use crate::support::{LEASE, PATIENCE, job};

const MOST_JOBS: usize = 10;
const MOST_RUNNERS: usize = 8;
/// None of what waits becomes due by itself.
pub(super) const LATER: Duration = Duration::from_secs(3_600);

fn job_id(job: u8) -> JobId {
    JobId(i64::from(job) + 1)
}

pub(super) fn runner_id(runner: u8) -> RunnerId {
    RunnerId(i64::from(runner) + 1)
}

pub(super) fn place(id: JobId) -> u8 {
    u8::try_from(id.0 - 1).unwrap()
}

pub(super) fn state(state: Final) -> JobState {
    match state {
        Final::Completed => JobState::Completed,
        Final::Discarded => JobState::Discarded,
        Final::Cancelled => JobState::Cancelled,
    }
}

impl Play<'_> {
    pub(super) async fn step(&mut self) {
        match self.dice.below(33) {
            0..=2 => self.enqueue().await,
            3 => self.register().await,
            4..=8 => self.claim(true).await,
            9 => self.claim(false).await,
            10 => self.ask_for_claim().await,
            11..=15 => self.settle().await,
            16..=17 => self.turn().await,
            18 => {
                let runner = self.any_runner();
                self.pass_lease(runner).await;
            }
            19 => self.beat().await,
            20 => self.reap().await,
            21 => self.stop_or_pause().await,
            22 => {
                let (runner, job) = (self.any_runner(), self.any_job());
                self.mark_suspect(runner, job).await;
            }
            23 => self.cancel().await,
            24 => self.follow_cancels().await,
            25..=26 => self.tick().await,
            27 => self.edit().await,
            28 => self.retry().await,
            29..=31 => self.die().await,
            _ => assert_eq!(self.node().restore_strays().await.unwrap(), 0),
        }
    }

    fn any_job(&mut self) -> u8 {
        self.dice.number(self.model.jobs.len()).unwrap()
    }

    pub(super) fn any_runner(&mut self) -> u8 {
        self.dice.number(self.model.leases.len()).unwrap()
    }

    pub(super) fn lane(&mut self) -> i8 {
        i8::from(self.dice.one_in(3))
    }

    pub(super) async fn enqueue(&mut self) {
        if self.model.jobs.len() >= MOST_JOBS {
            return;
        }
        let (priority, at_once) = (self.lane(), !self.dice.one_in(4));
        self.done.push(format!("enqueue in lane {priority}, at once: {at_once}"));
        let run_at = (!at_once).then(|| Utc::now() + LATER);
        let new = NewJob {
            priority: Some(priority.into()),
            max_attempts: Some(3),
            run_at,
            ..job("work")
        };
        let id = self.queue.database.enqueue(&[new]).await.unwrap()[0];
        assert_eq!(place(id), self.model.enqueue(at_once, priority, 3));
        self.policies.push((priority, 3));
    }

    pub(super) async fn register(&mut self) {
        if self.model.leases.len() >= MOST_RUNNERS {
            return;
        }
        self.done.push("register a runner".to_owned());
        let runner = self.queue.runner().await;
        assert_eq!(runner, runner_id(self.model.register()));
        self.heard.push(Vec::new());
        self.unheard.push(Vec::new());
    }

    /// A runner that holds something dies while it runs its suspect, and another one starts.
    async fn die(&mut self) {
        let Some(place) = self.dice.number(self.model.claims.len()) else { return };
        let claim = self.model.claims[usize::from(place)].clone();
        if let Some(job) = claim.jobs.iter().find(|job| self.model.holds(&claim, **job)) {
            self.mark_suspect(claim.runner, *job).await;
        }
        self.pass_lease(claim.runner).await;
        self.reap().await;
        self.register().await;
    }

    async fn pass_lease(&mut self, runner: u8) {
        if self.model.lease(runner) != Lease::Live {
            return;
        }
        self.done.push(format!("the lease of runner {runner} is over"));
        // By so much that many at once are no reason to wait.
        self.queue.expire(runner_id(runner), 2.0 * LEASE.as_secs_f64()).await;
        self.model.pass_lease(runner);
    }

    async fn beat(&mut self) {
        let runner = self.any_runner();
        self.done.push(format!("runner {runner} beats"));
        let alive = self.beats.beat(runner_id(runner), PATIENCE).await.unwrap();
        let alive = alive == stokehold_queue::runners::Beat::Alive;
        assert_eq!(alive, self.model.beat(runner), "after\n{}", self.done.join("\n"));
        self.saw("beat", alive);
    }

    async fn reap(&mut self) {
        self.done.push("sweep".to_owned());
        let Reaped { runners, available, discarded } = self.node().reap(LEASE).await.unwrap();
        let expected = self.model.reap();
        let expected = [expected.runners, expected.available, expected.discarded].map(i64::from);
        assert_eq!([runners, available, discarded], expected, "after\n{}", self.done.join("\n"));
        for (what, jobs) in [("given back", available), ("discarded", discarded)] {
            if jobs > 0 {
                self.saw(what, ());
            }
        }
    }

    async fn stop_or_pause(&mut self) {
        if self.dice.one_in(3) {
            let runner = self.any_runner();
            self.done.push(format!("runner {runner} stops"));
            self.node().stop_runner(runner_id(runner)).await.unwrap();
            return self.model.end_lease(runner);
        }
        self.paused = !self.paused;
        self.done.push(format!("paused: {}", self.paused));
        if self.paused {
            self.queue.database.pause(&Scope::All, PauseEnd::Never, None).await.unwrap();
        } else {
            assert!(self.queue.database.resume(&Scope::All).await.unwrap());
        }
    }

    async fn mark_suspect(&mut self, runner: u8, job: u8) {
        self.done.push(format!("runner {runner} runs {job} as its suspect"));
        self.node().mark_suspect(runner_id(runner), Some(job_id(job))).await.unwrap();
        self.model.suspects[usize::from(runner)] = Some(job);
    }

    async fn cancel(&mut self) {
        let job = self.any_job();
        self.done.push(format!("cancel {job}"));
        let answer = self.queue.database.cancel(job_id(job), "not wanted").await.unwrap();
        let expected = match self.model.cancel(job) {
            Cancelled::Now => CancelAnswer::Cancelled,
            Cancelled::Requested => CancelAnswer::Requested,
            Cancelled::Before(ended) => CancelAnswer::Ended(state(ended)),
        };
        assert_eq!(answer, expected, "after\n{}", self.done.join("\n"));
        self.saw("cancel", answer);
    }

    async fn follow_cancels(&mut self) {
        self.done.push("follow requests to cancel".to_owned());
        let cancelled = self.node().follow_cancels().await.unwrap();
        assert_eq!(cancelled as usize, self.model.follow_cancels(), "{}", self.done.join("\n"));
        if cancelled > 0 {
            self.saw("followed", ());
        }
    }

    async fn tick(&mut self) {
        let waiting: Vec<u8> = (0..u8::try_from(self.model.jobs.len()).unwrap())
            .filter(|job| self.model.row(*job).is_some_and(|row| row.state != Waits::Available))
            .collect();
        let due: Vec<u8> = waiting.into_iter().filter(|_| self.dice.one_in(2)).collect();
        self.done.push(format!("due: {due:?}"));
        for job in &due {
            let id = job_id(*job);
            self.queue
                .run(format!(
                    "update stokehold.jobs set run_at = clock_timestamp() where id = {id}"
                ))
                .await;
        }
        let tick = self.node().tick(&mut Horizon::default(), None).await.unwrap();
        let ended_holds = self.model.claims.iter().any(|claim| self.model.is_swept(claim.runner));
        let dead = self.model.leases.contains(&Lease::Over) || ended_holds;
        let cancels = !self.model.cancels.is_empty();
        let expected = (i64::try_from(due.len()).unwrap(), dead, cancels);
        let found = (tick.released, tick.dead_runners, tick.cancels);
        assert_eq!(found, expected, "after\n{}", self.done.join("\n"));
        due.into_iter().for_each(|job| self.model.make_due(job));
    }

    async fn edit(&mut self) {
        let job = self.any_job();
        let wanted = clients::Edit {
            priority: self.dice.one_in(2).then(|| self.lane()),
            is_due: self.dice.one_in(2).then(|| self.dice.one_in(2)),
            max_attempts: self.dice.one_in(2).then_some(9),
        };
        self.done.push(format!("change {job}: {wanted:?}"));
        let edit = Edit {
            priority: wanted.priority.map(i32::from),
            run_at: wanted
                .is_due
                .map(|due| if due { Utc::now() - LATER } else { Utc::now() + LATER }),
            max_attempts: wanted.max_attempts.map(i32::from),
            ..Edit::default()
        };
        let edited = self.queue.database.edit(job_id(job), &edit).await.unwrap();
        let expected = match self.model.edit(job, wanted) {
            ModelEdited::Done => Edited::Done,
            ModelEdited::Runs => Edited::Runs,
            ModelEdited::Before(ended) => Edited::Ended(state(ended)),
        };
        assert_eq!(edited, expected, "after\n{}", self.done.join("\n"));
        self.saw("edit", edited);
        if let Some(row) = self.model.row(job) {
            self.policies[usize::from(job)] = (row.priority, row.max_attempts);
        }
    }

    async fn retry(&mut self) {
        let (job, even_completed) = (self.any_job(), self.dice.one_in(2));
        if self.model.jobs.len() >= MOST_JOBS {
            return;
        }
        self.done.push(format!("retry {job}, even completed: {even_completed}"));
        let retry = Retry { even_completed, ..Retry::default() };
        let retried = self.queue.database.retry(job_id(job), &retry).await.unwrap();
        let policy = self.policies[usize::from(job)];
        let expected = match self.model.retry(job, even_completed, policy) {
            ModelRetried::As(new) => {
                self.policies.push(policy);
                Retried::As(job_id(new))
            }
            ModelRetried::Before(new) => Retried::Before(job_id(new)),
            ModelRetried::Completed => Retried::Completed,
            ModelRetried::Live => Retried::Live,
        };
        assert_eq!(retried, expected, "after\n{}", self.done.join("\n"));
        self.saw("retry", retried);
    }
}
