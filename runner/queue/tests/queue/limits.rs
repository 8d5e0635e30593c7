//! Limits of kinds: exact across runners, live to change, and nobody waits behind a key that is full.

use std::time::Duration;

use serde_json::json;
use stokehold_domain::kind_limits::Rate;
use stokehold_domain::{JobId, JobOptions, JobState, KindId, KindLimits, Next, RunnerId};
use stokehold_queue::{
    CancelAnswer, Claimed, Edit, Edited, Ended, Horizon, KindPolicy, Lane, LimitedClaim, NewJob,
};

use crate::support::{
    Queue, completed, ended, handed_back, job, lane, next_claim, refusal, retried,
};

pub(crate) fn keyed(key: &str) -> NewJob {
    let concurrency_key = Some(key.to_owned());
    NewJob { options: JobOptions { concurrency_key, ..JobOptions::default() }, ..job("work") }
}

const PER_KEY: KindLimits = KindLimits {
    max_running: None,
    max_running_per_key: Some(1),
    keeps_order: false,
    rate: None,
    key_rate: None,
};

impl Queue {
    pub(crate) async fn limit(&self, limits: KindLimits) {
        let policy = KindPolicy { limits, ..KindPolicy::default() };
        self.database.put_kind("work", &policy).await.unwrap();
        while self.database.recount_due().await.unwrap() > 0 {}
    }

    async fn limited(&self, runner: RunnerId, kind: KindId, most: i32) -> LimitedClaim {
        self.database.claim_limited(runner, &next_claim(), &[lane(kind, most)]).await.unwrap()
    }

    async fn within(&self, runner: RunnerId, kind: KindId, most: i32) -> Vec<Claimed> {
        self.limited(runner, kind, most).await.claimed
    }

    async fn keyed(&self, keys: &[&str]) -> Vec<JobId> {
        let jobs: Vec<NewJob> = keys.iter().map(|key| keyed(key)).collect();
        self.database.enqueue(&jobs).await.unwrap()
    }

    async fn permits(&self) -> (i32, Option<i64>) {
        let running =
            self.value("select coalesce(sum(running), 0)::int from stokehold.kind_permits").await;
        let held = self.value("select sum(held) from stokehold.key_permits").await;
        (running, held)
    }
}

fn ids(jobs: &[Claimed]) -> Vec<JobId> {
    jobs.iter().map(|job| job.id).collect()
}

#[tokio::test]
async fn no_more_of_a_kind_run_than_it_allows_whoever_claims_and_however_they_end() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    queue.limit(KindLimits { max_running: Some(3), ..KindLimits::default() }).await;
    let (a, b) = (queue.runner().await, queue.runner().await);
    let all = queue.jobs("work", 20).await;
    assert!(queue.claim(a, kind, 9).await.is_empty(), "only within its limits");
    let first = queue.within(a, kind, 2).await;
    let second = queue.within(b, kind, 9).await;
    assert_eq!((ids(&first), ids(&second)), (all[..2].to_vec(), all[2..3].to_vec()));
    assert!(queue.within(a, kind, 9).await.is_empty());
    // Each way to end one lets one in.
    queue.settle(a, completed(&first[0])).await;
    let third = queue.within(b, kind, 9).await;
    assert_eq!(ids(&third), [all[3]]);
    queue.settle(a, retried(&first[1], Duration::from_secs(600))).await;
    let fourth = queue.within(a, kind, 9).await;
    assert_eq!(ids(&fourth), [all[4]]);
    queue.settle(a, handed_back(&fourth[0])).await;
    let fifth = queue.within(a, kind, 9).await;
    assert_eq!(ids(&fifth), [all[5]]);
    let turn = queue.database.turn(a, &[completed(&fifth[0])], &next_claim(), &[]).await.unwrap();
    assert_eq!(turn.applied, [true]);
    let outcomes = [completed(&second[0]), completed(&third[0])];
    queue.database.turn(b, &outcomes, &next_claim(), &[lane(kind, 9)]).await.unwrap();
    let more = queue.within(b, kind, 9).await;
    assert_eq!(ids(&more), all[6..9]);
    // A late outcome gives nothing back twice.
    queue.database.settle(a, &[completed(&fifth[0])]).await.unwrap();
    assert!(queue.within(a, kind, 9).await.is_empty());
    // A runner that dies gives back what it held.
    queue.expire(b, 1.0).await;
    queue.database.reap(Duration::from_secs(600)).await.unwrap();
    assert_eq!(queue.within(a, kind, 9).await.len(), 3);
    assert_eq!(queue.permits().await, (3, None));
}

#[tokio::test]
async fn a_full_key_waits_aside_and_the_others_do_not_wait_for_it() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    queue.limit(PER_KEY).await;
    let runner = queue.runner().await;
    let mut keys = vec!["a"; 1_500];
    keys.extend(["b", "b"]);
    let all = queue.keyed(&keys).await;
    let free = queue.job("work").await;
    let claim = queue.limited(runner, kind, 9).await;
    assert_eq!(ids(&claim.claimed), [all[0], all[1500], free]);
    assert_eq!(claim.again, []);
    assert_eq!(queue.state(all[1]).await, JobState::Pending);
    // Each is walked over once.
    assert_eq!(queue.value::<i64>("select count(*) from stokehold.ready").await, 0);
    assert_eq!(queue.value::<i64>("select count(*) from stokehold.parked").await, 1_500);
    assert!(queue.within(runner, kind, 9).await.is_empty());
    // A look points to what a permit that came back lets in, and it is the oldest.
    let mut horizon = Horizon::default();
    let tick = queue.database.tick(&mut horizon, None).await.unwrap();
    assert_eq!((tick.lanes.len(), tick.limited), (0, vec![kind]));
    queue.settle(runner, completed(&claim.claimed[0])).await;
    let tick = queue.database.tick(&mut horizon, None).await.unwrap();
    assert_eq!(tick.lanes[0].lane, Lane { kind_id: kind, priority: 0 });
    // One that comes later waits behind those that wait.
    let last = queue.keyed(&["a"]).await[0];
    let next = queue.within(runner, kind, 9).await;
    assert_eq!(ids(&next), [all[1]]);
    assert_eq!(queue.state(last).await, JobState::Pending);
    assert_eq!(queue.permits().await, (3, Some(2)));
    // Of two permits of one key, two run.
    queue.limit(KindLimits { max_running_per_key: Some(3), ..PER_KEY }).await;
    let more = queue.within(runner, kind, 9).await;
    let mut got = ids(&more);
    got.sort_unstable();
    assert_eq!(got, [all[2], all[3], all[1501]]);
}

#[tokio::test]
async fn a_key_that_keeps_order_is_held_until_its_first_job_has_ended() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    queue.limit(KindLimits { keeps_order: true, ..PER_KEY }).await;
    let runner = queue.runner().await;
    let all = queue.keyed(&["a", "b", "a", "a"]).await;
    let mut claimed = queue.within(runner, kind, 9).await;
    assert_eq!(ids(&claimed), all[..2]);
    type Step = fn(&Claimed) -> Ended;
    let steps: [Step; 3] = [
        |job| retried(job, Duration::from_secs(60)),
        |job| ended(job, "handler.snooze", Next::Snooze(Duration::from_secs(60))),
        handed_back,
    ];
    for step in steps {
        queue.settle(runner, step(&claimed[0])).await;
        let keeps = |job: &Claimed| !all[2..].contains(&job.id);
        assert!(queue.within(runner, kind, 9).await.iter().all(keeps), "the first is not through");
        queue.release_due().await;
        let again = queue.within(runner, kind, 9).await;
        if again.is_empty() {
            // Handed back, it was claimed just now.
            let held: Vec<i64> =
                queue.value("select array_agg(distinct id) from stokehold.live_jobs where state = 'running'").await;
            assert!(held.contains(&all[0].0));
        } else {
            assert_eq!(ids(&again), [all[0]]);
            claimed[0] = again[0].clone();
        }
    }
    // A node that dies under it does not let others pass.
    let doomed = queue.runner().await;
    queue.run("truncate stokehold.claims").await;
    queue.database.restore_strays().await.unwrap();
    queue.database.recount_limits().await.unwrap();
    queue.database.recount_due().await.unwrap();
    let again = queue.within(doomed, kind, 9).await;
    let first = again.iter().find(|job| job.id == all[0]).unwrap();
    assert!(again.iter().all(|job| !all[2..].contains(&job.id)));
    queue.expire(doomed, 1.0).await;
    queue.database.reap(Duration::from_secs(600)).await.unwrap();
    let again = queue.within(runner, kind, 1).await;
    assert_eq!(ids(&again), [first.id]);
    // Its end lets the next one in, however it comes.
    queue.settle(runner, retried(&again[0], Duration::from_secs(60))).await;
    assert_eq!(queue.database.cancel(all[0], "").await.unwrap(), CancelAnswer::Cancelled);
    let next = queue.within(runner, kind, 9).await;
    assert!(ids(&next).contains(&all[2]) && !ids(&next).contains(&all[3]));
}

#[tokio::test]
async fn starts_are_as_fast_as_the_bucket_fills() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let rate = Rate { starts: 10, per_ms: 100_000, burst: 3 };
    queue.limit(KindLimits { rate: Some(rate), ..KindLimits::default() }).await;
    let runner = queue.runner().await;
    queue.jobs("work", 20).await;
    assert_eq!(queue.within(runner, kind, 2).await.len(), 2);
    let claim = queue.limited(runner, kind, 9).await;
    assert_eq!(claim.claimed.len(), 1);
    // One token in ten seconds.
    let (again, after) = claim.again[0];
    assert_eq!(again, Lane { kind_id: kind, priority: 0 });
    assert!((9_000..=10_000).contains(&after.as_millis()), "{after:?}");
    assert!(queue.within(runner, kind, 9).await.is_empty());
    let pass = |seconds: i32| {
        queue.run(format!(
            "update stokehold.kind_permits set full_at = full_at - {seconds} * interval '1 s'"
        ))
    };
    pass(21).await;
    assert_eq!(queue.within(runner, kind, 9).await.len(), 2);
    pass(3_600).await;
    assert_eq!(queue.within(runner, kind, 9).await.len(), 3, "no more than the bucket holds");
}

#[tokio::test]
async fn each_key_has_a_bucket_of_its_own() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let rate = Rate { starts: 1, per_ms: 10_000, burst: 1 };
    queue.limit(KindLimits { key_rate: Some(rate), ..KindLimits::default() }).await;
    let runner = queue.runner().await;
    let all = queue.keyed(&["a", "a", "a", "b"]).await;
    let free = queue.jobs("work", 2).await;
    let claimed = queue.within(runner, kind, 9).await;
    assert_eq!(ids(&claimed), [all[0], all[3], free[0], free[1]]);
    let mut horizon = Horizon::default();
    let tick = queue.database.tick(&mut horizon, None).await.unwrap();
    let next = tick.next_due.unwrap().as_millis();
    assert!(tick.lanes.is_empty() && (5_000..=10_000).contains(&next), "{next}");
    let pass = || async {
        queue
            .run(
                "update stokehold.key_permits set full_at = full_at - interval '10 s',
                   opens_at = opens_at - interval '10 s'",
            )
            .await
    };
    for expected in &all[1..3] {
        assert!(queue.within(runner, kind, 9).await.is_empty());
        pass().await;
        let tick = queue.database.tick(&mut horizon, None).await.unwrap();
        assert_eq!(tick.lanes[0].lane, Lane { kind_id: kind, priority: 0 });
        assert_eq!(ids(&queue.within(runner, kind, 9).await), [*expected]);
    }
}

#[tokio::test]
async fn limits_change_while_jobs_run_and_wait() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    let all = queue.keyed(&["a"; 8]).await;
    // What ran before there was a limit counts.
    let before = queue.claim(runner, kind, 2).await;
    queue.limit(PER_KEY).await;
    assert_eq!(queue.permits().await, (2, Some(2)));
    assert!(queue.within(runner, kind, 9).await.is_empty());
    assert_eq!(queue.state(all[2]).await, JobState::Pending);
    queue.settle(runner, completed(&before[0])).await;
    assert!(queue.within(runner, kind, 9).await.is_empty(), "one runs yet");
    queue.settle(runner, completed(&before[1])).await;
    let one = queue.within(runner, kind, 9).await;
    assert_eq!(ids(&one), [all[2]]);
    queue.limit(KindLimits { max_running_per_key: Some(3), ..PER_KEY }).await;
    let two = queue.within(runner, kind, 9).await;
    assert_eq!(ids(&two), all[3..5]);
    // Lowered, it lets nobody in until enough have ended.
    queue.limit(PER_KEY).await;
    queue.settle(runner, completed(&one[0])).await;
    queue.settle(runner, completed(&two[0])).await;
    assert!(queue.within(runner, kind, 9).await.is_empty());
    // Without limits all are free, and nothing is left of them.
    queue.limit(KindLimits::default()).await;
    assert!(queue.within(runner, kind, 9).await.is_empty());
    assert_eq!(ids(&queue.claim(runner, kind, 9).await), all[5..]);
    queue.settle(runner, completed(&two[1])).await;
    assert_eq!(queue.value::<i64>("select count(*) from stokehold.parked").await, 0);
}

#[tokio::test]
async fn what_waits_for_a_key_can_be_cancelled_changed_and_expires() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    queue.limit(PER_KEY).await;
    let runner = queue.runner().await;
    let all = queue.keyed(&["a"; 6]).await;
    let first = queue.within(runner, kind, 9).await;
    assert_eq!(queue.database.cancel(all[1], "").await.unwrap(), CancelAnswer::Cancelled);
    let payload = Some(stokehold_domain::Blob::json("7"));
    let edit = Edit { payload, ..Edit::default() };
    assert_eq!(queue.database.edit(all[2], &edit).await.unwrap(), Edited::Done);
    assert_eq!(queue.state(all[2]).await, JobState::Pending);
    // One that moves to another lane asks for its key again there.
    let edit = Edit { priority: Some(-1), ..Edit::default() };
    assert_eq!(queue.database.edit(all[3], &edit).await.unwrap(), Edited::Done);
    assert_eq!(queue.state(all[3]).await, JobState::Available);
    let urgent = stokehold_queue::LaneQuota { priority: -1, ..lane(kind, 9) };
    let claim = queue.database.claim_limited(runner, &next_claim(), &[urgent]).await.unwrap();
    assert!(claim.claimed.is_empty());
    assert_eq!(queue.state(all[3]).await, JobState::Pending);
    queue.run(format!("update stokehold.jobs set expires_at = now() where id = {}", all[4])).await;
    assert_eq!(queue.database.end_expired().await.unwrap(), 1);
    assert_eq!(queue.value::<i64>("select count(*) from stokehold.parked").await, 3);
    // The most urgent goes first, and whoever asks for another lane is told of it.
    queue.settle(runner, completed(&first[0])).await;
    let claim = queue.limited(runner, kind, 9).await;
    assert!(claim.claimed.is_empty());
    assert_eq!(claim.again, [(Lane { kind_id: kind, priority: -1 }, Duration::ZERO)]);
    let claim = queue.database.claim_limited(runner, &next_claim(), &[urgent]).await.unwrap();
    assert_eq!(ids(&claim.claimed), [all[3]]);
    queue.settle(runner, completed(&claim.claimed[0])).await;
    let next = queue.within(runner, kind, 9).await;
    assert_eq!((ids(&next), next[0].payload.bytes.as_slice()), (vec![all[2]], &b"7"[..]));
    queue.settle(runner, completed(&next[0])).await;
    assert_eq!(ids(&queue.within(runner, kind, 9).await), [all[5]]);
}

#[tokio::test]
async fn a_claim_passes_by_a_kind_that_another_claims_from() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    queue.limit(PER_KEY).await;
    let runner = queue.runner().await;
    queue.jobs("work", 3).await;
    let mut other = queue.pool.begin().await.unwrap();
    sqlx::query("select from stokehold.kind_permits for update")
        .execute(&mut *other)
        .await
        .unwrap();
    let claim = queue.limited(runner, kind, 9).await;
    assert!(claim.claimed.is_empty());
    let lane = Lane { kind_id: kind, priority: 0 };
    assert_eq!(claim.again, [(lane, Duration::from_millis(2))]);
    other.rollback().await.unwrap();
    assert_eq!(queue.within(runner, kind, 9).await.len(), 3);
    // And of a runner whose lease is over, or of a kind that is paused or elsewhere, nothing is claimed.
    queue.jobs("work", 3).await;
    queue.run("select stokehold.pause('kind', 'work')").await;
    assert!(queue.within(runner, kind, 9).await.is_empty());
    queue.run("select stokehold.resume('kind', 'work')").await;
    queue.expire(runner, 1.0).await;
    assert!(queue.within(runner, kind, 9).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn many_runners_and_many_who_cancel_never_pass_a_limit_and_leave_nothing_behind() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let limits =
        KindLimits { max_running: Some(7), max_running_per_key: Some(2), ..KindLimits::default() };
    queue.limit(limits).await;
    let jobs: Vec<NewJob> = (0..600).map(|n| keyed(["a", "b", "c", "d", "e"][n % 5])).collect();
    let all = queue.database.enqueue(&jobs).await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..4_usize {
        let database = queue.pool_of(3, Duration::from_secs(20));
        let runner = queue.runner().await;
        tasks.spawn(async move {
            let (mut held, mut idle, mut round) = (Vec::<Claimed>::new(), 0, n);
            while idle < 200 {
                round += 1;
                let claim =
                    database.claim_limited(runner, &next_claim(), &[lane(kind, 3)]).await.unwrap();
                idle = if claim.claimed.is_empty() && held.is_empty() { idle + 1 } else { 0 };
                held.extend(claim.claimed);
                let outcomes: Vec<Ended> = held
                    .extract_if(.., |job| !(job.id.0 as usize + round).is_multiple_of(3))
                    .map(|job| match (job.id.0 as usize + round) % 5 {
                        0 => handed_back(&job),
                        _ => completed(&job),
                    })
                    .collect();
                database.settle(runner, &outcomes).await.unwrap();
            }
        });
    }
    let database = queue.pool_of(1, Duration::from_secs(20));
    tasks.spawn(async move {
        for id in all.iter().skip(5).step_by(11) {
            database.cancel(*id, "").await.unwrap();
        }
    });
    let watch = async {
        let mut most = (0, 0);
        while queue.live_jobs().await > 0 {
            let (running, of_a_key): (i64, Option<i64>) = sqlx::query_as(
                "select coalesce(sum(jobs), 0)::int8, max(jobs)::int8 from (
                   select count(*) as jobs from stokehold.live_jobs
                   where state = 'running' group by options ->> 'concurrency_key') keys",
            )
            .fetch_one(&queue.pool)
            .await
            .unwrap();
            assert!(running <= 7 && of_a_key.unwrap_or(0) <= 2, "{running} {of_a_key:?}");
            most = (most.0.max(running), most.1.max(of_a_key.unwrap_or(0)));
        }
        most
    };
    let most = tokio::time::timeout(Duration::from_secs(60), watch).await.unwrap();
    assert!(most.0 > 2 && most.1 == 2, "the limits were met: {most:?}");
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    // What came back last is reckoned by the next claim.
    let runner = queue.runner().await;
    queue.within(runner, kind, 1).await;
    assert_eq!(queue.permits().await, (0, Some(0)));
    assert_eq!(queue.value::<i64>("select count(*) from stokehold.parked").await, 0);
    assert_eq!(queue.value::<i64>("select count(*) from stokehold.freed_permits").await, 0);
}

#[tokio::test]
async fn counting_anew_puts_right_what_is_wrong() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    queue.limit(KindLimits { max_running: Some(5), ..PER_KEY }).await;
    let runner = queue.runner().await;
    let all = queue.keyed(&["a", "a", "b"]).await;
    let claimed = queue.within(runner, kind, 9).await;
    assert_eq!(claimed.len(), 2);
    for wrong in [
        "update stokehold.kind_permits set running = 5",
        "update stokehold.key_permits set held = 9, opens_at = null",
        "update stokehold.key_permits set held = 0, opens_at = now()",
        "delete from stokehold.key_permits",
        "insert into stokehold.freed_permits (kind_id, key, running, held) select id, 'a', 2, 2 from stokehold.kinds",
    ] {
        queue.run(wrong).await;
        queue.database.recount_limits().await.unwrap();
        assert!(queue.database.tick(&mut Horizon::default(), None).await.unwrap().recount);
        assert_eq!(queue.database.recount_due().await.unwrap(), 1);
        assert_eq!(queue.permits().await, (2, Some(2)), "{wrong}");
        assert!(queue.within(runner, kind, 9).await.is_empty(), "{wrong}");
    }
    // A job that waits for its key and is not known under it is ready again.
    queue.run("delete from stokehold.parked").await;
    assert_eq!(queue.database.restore_strays().await.unwrap(), 1);
    assert_eq!(queue.state(all[1]).await, JobState::Available);
    queue.settle(runner, completed(&claimed[0])).await;
    assert_eq!(ids(&queue.within(runner, kind, 9).await), [all[1]]);
}

#[tokio::test]
async fn a_limit_that_cannot_be_is_refused_by_call_and_by_table() {
    let queue = Queue::new().await;
    let policy = KindPolicy {
        limits: KindLimits { max_running: Some(0), ..KindLimits::default() },
        ..KindPolicy::default()
    };
    let (_, message) = refusal(queue.database.put_kind("work", &policy).await);
    assert_eq!(message, "`max_running` is 0: 1 to 1000000 is allowed");
    queue.kind("work").await;
    for wrong in [
        "max_running = 0",
        "max_running_per_key = 0",
        "keeps_order = true",
        "keeps_order = true, max_running_per_key = 2",
        "rate_starts = 1",
        "rate_starts = 1, rate_per_ms = 1",
        "key_rate_starts = 0, key_rate_per_ms = 1, key_rate_burst = 1",
    ] {
        let (code, _) = queue.refused(format!("update stokehold.kinds set {wrong}")).await;
        assert_eq!(code, "23514", "{wrong}");
    }
    let limits = KindLimits {
        max_running: Some(9),
        max_running_per_key: Some(1),
        keeps_order: true,
        rate: Some(Rate { starts: 5, per_ms: 1_000, burst: 0 }),
        key_rate: Some(Rate { starts: 6, per_ms: 2_000, burst: 7 }),
    };
    queue.limit(limits.clone()).await;
    let stored = queue.database.kind("work").await.unwrap().unwrap().policy.limits;
    let rate = Some(Rate { burst: 5, ..limits.rate.unwrap() });
    assert_eq!(stored, KindLimits { rate, ..limits });
    assert_eq!(json!(stored)["key_rate"]["burst"], 7);
}

#[tokio::test]
async fn what_was_freed_long_ago_is_not_read_again_while_a_snapshot_is_held() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    queue.limit(KindLimits { max_running: Some(5), ..KindLimits::default() }).await;
    let runner = queue.runner().await;
    let mut reader = queue.pool.begin().await.unwrap();
    sqlx::raw_sql("set transaction isolation level repeatable read; select from stokehold.kinds")
        .execute(&mut *reader)
        .await
        .unwrap();
    let freed = format!(
        "insert into stokehold.freed_permits (kind_id, running, held)
         select {kind}, 0, 0 from generate_series(1, 20000)"
    );
    queue.run(freed).await;
    // Read once, known to be read a while later, and left behind a while after that.
    for _ in 0..3 {
        queue.run("update stokehold.kind_permits set freed_then_at = '-infinity'").await;
        queue.within(runner, kind, 1).await;
    }
    let look = "explain (analyze, buffers, format json)
        select from stokehold.kind_permits permits
        cross join lateral (select from stokehold.freed_permits
          where kind_id = permits.kind_id and id > permits.freed_before limit 1) freed";
    let plan: serde_json::Value = queue.value(look).await;
    let pages = &plan[0]["Plan"];
    let read = pages["Shared Hit Blocks"].as_i64().unwrap()
        + pages["Shared Read Blocks"].as_i64().unwrap();
    assert!(read < 20, "{read} pages");
}
