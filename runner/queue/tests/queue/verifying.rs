//! The invariants: a busy database breaks none, and each that is broken by hand is named, and no other.

use std::time::Duration;

use stokehold_domain::{JobId, KindLimits};
use stokehold_queue::verify::INVARIANTS;
use stokehold_queue::{Ended, LaneQuota, NewJob};

use crate::limits::keyed;
use crate::support::{Queue, completed, handed_back, lane, next_claim, retried};

impl Queue {
    /// What is broken, how often, and for example.
    pub(crate) async fn broken(&self) -> Vec<(&'static str, i64, Vec<String>)> {
        let verified = self.database.verify(2, Duration::from_secs(30)).await.unwrap();
        assert_eq!(verified.len(), INVARIANTS.len());
        let broken = verified.into_iter().map(|one| {
            (one.invariant.name, one.broken.expect("it is checked in time"), one.examples)
        });
        broken.filter(|(_, broken, _)| *broken > 0).collect()
    }
}

/// A queue with something of everything: jobs that wait, run, wait for a key, failed, ended; a pause, a retry.
async fn filled() -> Queue {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    queue.kind("plain").await;
    let plain = queue.database.kind("plain").await.unwrap().unwrap().id;
    queue
        .limit(KindLimits {
            max_running: Some(9),
            max_running_per_key: Some(1),
            ..KindLimits::default()
        })
        .await;
    let runner = queue.runner().await;
    let jobs: Vec<NewJob> = ["a", "a", "b", "b", "a"].map(keyed).into();
    queue.database.enqueue(&jobs).await.unwrap();
    let claim =
        queue.database.claim_limited(runner, &next_claim(), &[lane(kind, 9)]).await.unwrap();
    assert_eq!(claim.claimed.len(), 2);
    queue.jobs("plain", 9).await;
    let held = queue.claim(runner, plain, 5).await;
    let outcomes =
        [completed(&held[0]), retried(&held[1], Duration::from_secs(60)), handed_back(&held[2])];
    queue.database.settle(runner, &outcomes).await.unwrap();
    let done = held[0].id;
    queue.run(format!("select stokehold.retry({done}, even_completed => true)")).await;
    queue.database.cancel(held[3].id, "").await.unwrap();
    queue.run("select stokehold.pause('queue', 'elsewhere')").await;
    queue.run("insert into stokehold.idempotency_keys values ('a', 'b', sha256(''), '{1}', '{inserted}')").await;
    assert_eq!(queue.broken().await, []);
    queue
}

#[tokio::test]
async fn each_invariant_that_is_broken_is_named_and_no_other() {
    let mut named = Vec::new();
    for (name, count, sql) in [
        (
            "job.live-and-ended",
            1,
            "insert into stokehold.jobs (id, kind_id, state, priority, run_at, max_attempts, payload) \
            overriding system value select id, kind_id, 'scheduled', 0, now(), 1, '' from stokehold.job_history limit 1; \
            delete from stokehold.retries",
        ),
        (
            "job.one-outcome",
            1,
            "insert into stokehold.job_history select * from stokehold.job_history limit 1",
        ),
        (
            "job.somewhere",
            1,
            "delete from stokehold.ready where job_id = (select max(job_id) from stokehold.ready)",
        ),
        (
            "job.held-once",
            1,
            "insert into stokehold.claims (runner_id, number, job_ids) select runner_id, 0, array[id] \
            from stokehold.live_jobs where state = 'running' and options is null limit 1",
        ),
        ("job.kind", 1, "update stokehold.jobs set kind_id = 99 where state = 'retryable'"),
        (
            "job.options",
            1,
            "update stokehold.jobs set expires_at = now() where state = 'retryable'",
        ),
        ("job.attempts", 1, "update stokehold.job_history set attempt = max_attempts + 1"),
        (
            "attempt.once",
            1,
            "insert into stokehold.job_attempts select * from stokehold.job_attempts limit 1",
        ),
        (
            "attempt.before",
            1,
            "insert into stokehold.job_attempts (job_id, token, started_at, attempt, outcome) \
            select id, token + 1, now(), 1, '-' from stokehold.job_history limit 1",
        ),
        (
            "ready.job",
            1,
            "insert into stokehold.ready values ((select min(kind_id) from stokehold.ready), 0, 1, 99999)",
        ),
        ("ready.once", 1, "insert into stokehold.ready select * from stokehold.ready limit 1"),
        (
            "ready.not-held",
            1,
            "insert into stokehold.ready select kind_id, priority, position, id \
            from stokehold.live_jobs where state = 'running' and options is null limit 1",
        ),
        (
            "ready.lane",
            1,
            "delete from stokehold.lanes where kind_id = (select min(kind_id) from stokehold.ready)",
        ),
        (
            "sequence.drawn",
            4,
            "select setval('stokehold.claim_tokens', 1); select setval('stokehold.jobs_id_seq', 14)",
        ),
        (
            "claim.runner",
            1,
            "update stokehold.runners set lease_expires_at = now() - interval '61 s'",
        ),
        (
            "cancel.job",
            1,
            "insert into stokehold.cancels values (99999, '{}', now() - interval '61 s')",
        ),
        (
            "pause.kinds",
            1,
            "update stokehold.kinds set paused_until = 'infinity' where name = 'plain'",
        ),
        ("retry.jobs", 1, "update stokehold.retries set job_id = 0"),
        (
            "kind.release",
            1,
            "alter table stokehold.kinds drop constraint active_release_exists; \
            update stokehold.kinds set active_release = 9 where name = 'plain'",
        ),
        (
            "parked.job",
            2,
            "update stokehold.parked set job_id = 99999 where ctid = (select min(ctid) from stokehold.parked)",
        ),
        ("permits.running", 1, "update stokehold.kind_permits set running = running + 1"),
        ("permits.keys", 1, "update stokehold.key_permits set held = 0 where key = 'a'"),
        ("idempotency.jobs", 1, "update stokehold.idempotency_keys set answers = '{}'"),
    ] {
        let queue = filled().await;
        for statement in sql.split("; ") {
            queue.run(statement).await;
        }
        let broken = queue.broken().await;
        assert_eq!(broken.len(), 1, "{name}: {broken:?}");
        assert_eq!((broken[0].0, broken[0].1), (name, count), "{broken:?}");
        assert!(!broken[0].2.is_empty() && broken[0].2.len() <= 5);
        named.push(name);
    }
    let all: Vec<&str> = INVARIANTS.iter().map(|invariant| invariant.name).collect();
    assert_eq!(named, all, "each has its test");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_database_breaks_none() {
    let queue = Queue::new().await;
    let (work, plain) = (queue.kind("work").await, queue.kind("plain").await);
    let limits =
        KindLimits { max_running: Some(20), max_running_per_key: Some(2), ..KindLimits::default() };
    queue.limit(limits).await;
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..3_u64 {
        let database = queue.pool_of(3, Duration::from_secs(20));
        let runner = queue.runner().await;
        tasks.spawn(async move {
            for round in 0..60_u64 {
                let mut jobs = vec![NewJob::new("plain", stokehold_domain::Blob::json("{}")); 5];
                jobs.extend(["a", "b", "c"].map(keyed));
                let ids = database.enqueue(&jobs).await.unwrap();
                database.cancel(JobId(ids[(round % 8) as usize].0), "").await.unwrap();
                let quota = LaneQuota { quota: 6, ..lane(plain, 6) };
                let mut held = database.claim(runner, &next_claim(), &[quota]).await.unwrap();
                let claim =
                    database.claim_limited(runner, &next_claim(), &[lane(work, 6)]).await.unwrap();
                held.extend(claim.claimed);
                let outcomes: Vec<Ended> = held
                    .iter()
                    .map(|job| match (job.id.0.unsigned_abs() + n + round) % 4 {
                        0 => handed_back(job),
                        1 => retried(job, Duration::ZERO),
                        _ => completed(job),
                    })
                    .collect();
                database.settle(runner, &outcomes).await.unwrap();
                database.follow_cancels().await.unwrap();
            }
        });
    }
    let mut looks = 0;
    while !tasks.is_empty() {
        assert_eq!(queue.broken().await, []);
        looks += 1;
        while let Some(done) = tasks.try_join_next() {
            done.unwrap();
        }
    }
    assert!(looks > 3, "{looks}");
    assert_eq!(queue.broken().await, []);
}

#[tokio::test]
async fn a_check_that_takes_too_long_is_told_and_the_others_are_made() {
    let queue = filled().await;
    let mut other = queue.pool.begin().await.unwrap();
    sqlx::query("lock table stokehold.parked").execute(&mut *other).await.unwrap();
    let verified = queue.database.verify(2, Duration::from_millis(200)).await.unwrap();
    let late: Vec<&str> =
        verified.iter().filter(|one| one.broken.is_none()).map(|one| one.invariant.name).collect();
    assert_eq!(late, ["parked.job"]);
}
