//! Runners on one database: killed, stopped and resumed, and what becomes of their jobs.

use std::collections::HashSet;

use nix::sys::signal::Signal;
use serde_json::json;
use sqlx::Row;

use crate::stage::{LEASE_S, Said, Stage, full_size, stokehold};

/// Every job has exactly one outcome, under the newest claim that there was.
async fn assert_one_outcome_each(stage: &Stage, jobs: i64) {
    assert_eq!(stage.number("select count(*) from stokehold.job_history").await, jobs);
    assert_eq!(stage.number("select count(distinct id) from stokehold.job_history").await, jobs);
    let stale = "select count(*) from stokehold.job_history h join stokehold.job_attempts a \
                 on a.job_id = h.id where a.token >= h.token";
    assert_eq!(
        stage.number(stale).await,
        0,
        "an outcome stands under a token that is not the newest"
    );
    for checked in stage.database.verify(2, std::time::Duration::from_secs(60)).await.unwrap() {
        assert_eq!(checked.broken, Some(0), "{checked:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_runner_loses_no_job_and_only_its_own_jobs_start_twice() {
    let jobs = full_size(2_000, 50_000);
    let stage = Stage::set().await;
    let payloads = vec![json!({"do": "witness", "ms": 5}); jobs];
    stage.enqueue_many("probe", &payloads).await;
    let killed = stage.runner("killed", &["--slots", "8"]);
    let _other = stage.runner("other", &["--slots", "8"]);
    let ended = "select count(*) from stokehold.job_history";
    stage.wait_for("half of the jobs", ended, |n| n as usize >= jobs / 2).await;
    killed.signal(Signal::SIGKILL);
    stage.wait_until_done().await;
    assert_one_outcome_each(&stage, jobs as i64).await;
    let completed = "select count(*) from stokehold.job_history where state = 'completed'";
    assert_eq!(stage.number(completed).await, jobs as i64);

    let (first, second) = (stage.starts("killed"), stage.starts("other"));
    assert!(!first.is_empty() && !second.is_empty(), "both ran jobs");
    let lost: HashSet<i64> = lost_jobs(&stage).await;
    assert!(!lost.is_empty(), "the killed runner held jobs");
    for starts in [&first, &second] {
        assert!(starts.values().all(|count| *count == 1), "no runner started a job twice");
    }
    let twice: HashSet<i64> = first.keys().filter(|id| second.contains_key(id)).copied().collect();
    assert!(twice.is_subset(&lost), "started twice without having been lost: {twice:?} {lost:?}");
    let started: HashSet<i64> = first.keys().chain(second.keys()).copied().collect();
    assert_eq!(started.len(), jobs, "every job was started");
    let burnt = "select count(*) from stokehold.job_history where attempt <> 1";
    assert_eq!(stage.number(burnt).await, 0, "losing a runner burns no attempt");
}

async fn lost_jobs(stage: &Stage) -> HashSet<i64> {
    let row = stage
        .row("select coalesce(array_agg(job_id), '{}') from stokehold.job_attempts where outcome = 'node.lost'")
        .await;
    row.get::<Vec<i64>, _>(0).into_iter().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_longer_than_the_lease_stays_with_its_living_runner() {
    let stage = Stage::set().await;
    let _one = stage.runner("one", &[]);
    let _two = stage.runner("two", &[]);
    stage.enqueue(&json!({"do": "witness", "ms": LEASE_S * 1000 * 3})).await;
    stage.wait_until_done().await;
    assert_one_outcome_each(&stage, 1).await;
    let starts = stage.starts("one").values().chain(stage.starts("two").values()).sum::<u32>();
    assert_eq!(starts, 1);
    assert_eq!(stage.number("select count(*) from stokehold.job_attempts").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_that_comes_back_after_its_lease_has_its_late_outcome_refused() {
    let stage = Stage::set().await;
    let frozen = stage.runner("frozen", &[]);
    stage.enqueue(&json!({"do": "witness", "ms": 2_000, "value": "mine"})).await;
    stage.wait_for_starts("frozen", 1).await;
    frozen.signal(Signal::SIGSTOP);
    let _other = stage.runner("other", &[]);
    // The other one takes it over, and has it when the first one wakes.
    let taken = "select count(*) from stokehold.live_jobs where state = 'running' and lost = 1";
    stage.wait_for("the second claim", taken, |n| n == 1).await;
    frozen.signal(Signal::SIGCONT);
    stage.wait_until_done().await;
    assert_one_outcome_each(&stage, 1).await;
    let by_other = "select count(*) from stokehold.job_history h \
                    join stokehold.runners r on r.id = h.runner_id where r.name = 'other'";
    assert_eq!(stage.number(by_other).await, 1);
    // It registers anew and goes on under a fresh id.
    let registered = "select count(*) from stokehold.runners where name = 'frozen'";
    stage.wait_for("its second registration", registered, |n| n == 2).await;
    stage.wait_for_log("frozen", "late outcome refused").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_is_committed_and_no_transaction_is_open_while_the_handler_runs() {
    let stage = Stage::set().await;
    let _runner = stage.runner("runner", &[]);
    stage.enqueue(&json!({"do": "witness", "ms": 1_500})).await;
    stage.wait_for_starts("runner", 1).await;
    // Seen from another session, so it is committed.
    let running = "select count(*) from stokehold.live_jobs where state = 'running' and runner_id is not null";
    assert_eq!(stage.number(running).await, 1);
    let open = "select count(*) from pg_stat_activity where datname = current_database() \
                and state like 'idle in transaction%'";
    assert_eq!(stage.number(open).await, 0);
    let old = "select count(*) from pg_stat_activity where datname = current_database() \
               and pid <> pg_backend_pid() and xact_start < clock_timestamp() - interval '0.5 s'";
    assert_eq!(stage.number(old).await, 0);
    stage.wait_until_done().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_serves_only_the_queues_it_is_told_to() {
    let stage = Stage::set().await;
    let policy = stokehold_queue::KindPolicy { queue: "mail".to_owned(), ..Default::default() };
    stage.push("mail.send", "probe.wasm", &stokehold_domain::Limits::DEFAULT).await;
    stage.database.put_kind("mail.send", &policy).await.unwrap();
    stage.enqueue_many("mail.send", &[json!({"do": "noop"})]).await;
    stage.enqueue(&json!({"do": "noop"})).await;
    let _runner = stage.runner("mail", &["--queue", "mail,other"]);
    stage.wait_for("the mail", "select count(*) from stokehold.job_history", |n| n == 1).await;
    let left = "select count(*) from stokehold.jobs j join stokehold.kinds k on k.id = j.kind_id \
                where k.name = 'probe' and j.state = 'available'";
    assert_eq!(stage.number(left).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_node_serves_several_databases_each_with_slots_of_its_own() {
    let (one, two) = (Stage::set().await, Stage::set().await);
    let _runner = one.runner("both", &["--database-url", &two.url, "--slots", "4"]);
    for stage in [&one, &two] {
        stage.enqueue_many("probe", &vec![json!({"do": "witness", "ms": 20}); 20]).await;
    }
    for stage in [&one, &two] {
        stage.wait_until_done().await;
        let completed = "select count(*) from stokehold.job_history where state = 'completed'";
        assert_eq!(stage.number(completed).await, 20);
        assert_eq!(stage.number("select slots::bigint from stokehold.runners").await, 4);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_named_twice_or_cannot_be_reached_is_pointed_to() {
    let stage = Stage::bare().await;
    let run = |second: &str| -> Said {
        let arguments = ["runner", "--database-url", &stage.url, "--database-url", second];
        stokehold(stage.folder.path(), &arguments).output().unwrap().into()
    };
    let refused = run(&stage.url);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.err.contains("--database-url number 2 was given before"), "{refused:?}");
    let refused = run("postgres://nobody@127.0.0.1:1/nothing");
    assert_ne!(refused.code, 0);
    assert!(refused.err.contains("database 2 of 2"), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_kept_busy_is_not_notified_and_an_idle_one_is() {
    let stage = Stage::set().await;
    // Far more slots than jobs at once: it is never full.
    let _runner = stage.runner("runner", &["--slots", "256"]);
    let sleepers = "select count(*) from stokehold.sleepers";
    stage.wait_for("the node's first idle moment", sleepers, |n| n == 1).await;
    let enqueueing = async {
        loop {
            let one = async || stage.enqueue(&json!({"do": "noop"})).await;
            tokio::join!(one(), one(), one(), one());
        }
    };
    tokio::select! {
        () = enqueueing => {}
        () = stage.wait_for("a busy node's withdrawal", sleepers, |n| n == 0) => {}
    }
    stage.wait_until_done().await;
    stage.wait_for("idleness again", sleepers, |n| n == 1).await;
}
