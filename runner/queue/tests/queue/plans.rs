//! The plans of the hot statements on a filled table, whether or not the planner knows what is in it.

use serde_json::Value;
use sqlx::ConnectOptions;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection};
use stokehold_domain::{KindId, RunnerId};
use stokehold_queue::{Database, DatabaseOptions, Fate, Horizon, Plans};

use crate::support::{LEASE, PATIENCE, Queue, completed, lane, next_claim};

const CLAIM: &str = include_str!("../../src/sql/claim.sql");
const FINISH: &str = include_str!("../../src/sql/finish.sql");
const RELEASE: &str = include_str!("../../src/sql/release.sql");
const FATE: &str = include_str!("../../src/sql/fate.sql");
const INSERT_LOGS: &str = include_str!("../../src/sql/insert_logs.sql");
const TICK: &str = include_str!("../../src/sql/tick.sql");
const RECLAIM: &str = include_str!("../../src/sql/reclaim.sql");
const FORGET_CLAIMS: &str = include_str!("../../src/sql/forget_claims.sql");
const GIVE_BACK: &str = include_str!("../../src/sql/give_back.sql");

const ENDED: &str = include_str!("../../src/sql/ended.sql");
const LIST_JOBS: &str = include_str!("../../src/sql/list_jobs.sql");
const LIST_RUNNERS: &str = include_str!("../../src/sql/list_runners.sql");
const LIVE: &str = include_str!("../../src/sql/live.sql");

/// One step of a plan: what it does, to which table, by which index.
#[derive(Debug)]
struct Step {
    node: String,
    table: String,
    index: String,
    /// What is looked up in the index; empty where all of it is read.
    condition: String,
}

fn collect(plan: &Value, steps: &mut Vec<Step>) {
    let text = |key: &str| plan[key].as_str().unwrap_or_default().to_owned();
    let (node, table, index) = (text("Node Type"), text("Relation Name"), text("Index Name"));
    let condition = text("Index Cond");
    steps.push(Step { node, table, index, condition });
    for inner in plan["Plans"].as_array().into_iter().flatten() {
        collect(inner, steps);
    }
}

/// 50,000 available jobs of one kind, and 500 that a runner holds.
async fn filled(queue: &Queue) -> (KindId, RunnerId, Vec<i64>) {
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    queue
        .run(format!(
            "with made as (
               insert into stokehold.jobs (position, run_at, kind_id, state, priority, max_attempts, payload)
               select nextval('stokehold.positions'), now(), {kind}, 'available', 0, 20, '{{}}'
               from generate_series(1, 50500) n
               returning *
             ), ready as (
               insert into stokehold.ready (kind_id, priority, position, job_id)
               select kind_id, priority, position, id from made where id % 101 <> 0
             )
             insert into stokehold.claims (runner_id, number, token, job_ids)
             select {runner}, 1, 1, array_agg(id) from made where id % 101 = 0"
        ))
        .await;
    let held: Vec<i64> = queue
        .value("select array_agg(id order by id) from stokehold.live_jobs where state = 'running'")
        .await;
    assert_eq!(held.len(), 500);
    (kind, runner, held)
}

/// The plan of a statement as a node keeps it for any arguments.
async fn plan(queue: &Queue, sql: &str, arguments: &str) -> Vec<Step> {
    plan_with(queue, Plans::Kept.settings(), sql, arguments).await
}

async fn plan_with(queue: &Queue, settings: &str, sql: &str, arguments: &str) -> Vec<Step> {
    let mut session: PgConnection = queue.options.connect().await.unwrap();
    let prepare = format!("{settings}; prepare statement as {sql}");
    sqlx::raw_sql(AssertSqlSafe(prepare)).execute(&mut session).await.unwrap();
    let arguments = if arguments.is_empty() { "" } else { &format!("({arguments})") };
    let explain = format!("explain (format json) execute statement {arguments}");
    let plan: Value =
        sqlx::query_scalar(AssertSqlSafe(explain)).fetch_one(&mut session).await.unwrap();
    session.close().await.unwrap();
    let mut steps = Vec::new();
    collect(&plan[0]["Plan"], &mut steps);
    steps
}

/// Every look at the jobs goes through one of these indexes and none scans the table.
#[track_caller]
fn assert_uses(steps: &[Step], indexes: &[&str]) {
    for index in indexes {
        assert!(steps.iter().any(|step| step.index == *index), "without {index}: {steps:#?}");
    }
    for step in steps {
        let scans =
            ["jobs", "ready", "claims"].contains(&step.table.as_str()) && step.node == "Seq Scan";
        assert!(!scans, "scans the whole table: {steps:#?}");
        let other =
            ["jobs_", "ready_", "claims_"].iter().any(|table| step.index.starts_with(table))
                && !indexes.contains(&step.index.as_str());
        assert!(!other, "uses {}: {steps:#?}", step.index);
    }
}

fn array<T: ToString>(items: impl IntoIterator<Item = T>, of: &str) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    format!("'{{{}}}'::{of}[]", items.join(","))
}

/// The arguments of finish.sql or release.sql for these jobs: what stands between the release and
/// the figures differs.
fn outcomes(runner: RunnerId, ids: &[i64], between: &[(&str, &str)]) -> String {
    let same = |value: &str, of: &str| array(ids.iter().map(|_| value), of);
    let one = || same("1", "bigint");
    let mut arguments = vec![runner.to_string(), array(ids, "bigint"), one(), one()];
    arguments.push(same("1", "int"));
    arguments.extend(between.iter().map(|(value, of)| same(value, of)));
    arguments.extend((0..4).map(|_| same("1", "bigint")));
    arguments.join(", ")
}

async fn assert_plans(queue: &Queue, kind: KindId, runner: RunnerId, held: &[i64]) {
    let claim = format!(
        "{runner}, 1, array[{kind}, {kind}], array[0, 1]::smallint[], array[0, 25000]::bigint[],
         array[100, 100], array[]::bigint[], null"
    );
    let steps = plan(queue, CLAIM, &claim).await;
    assert_uses(&steps, &["ready_lanes", "jobs_pkey", "claims_pkey"]);
    // In order of position from the index itself, never by sorting the lane.
    assert!(steps.iter().all(|step| step.node != "Sort"), "sorts: {steps:#?}");
    // One, a few, as many as one flush takes.
    for count in [1, 20, 500] {
        let ids = &held[..count];
        let finish = outcomes(
            runner,
            ids,
            &[
                ("completed", "text"),
                ("ok", "text"),
                ("null", "bytea"),
                ("null", "text"),
                ("null", "text"),
            ],
        );
        assert_uses(&plan(queue, FINISH, &finish).await, &["claims_pkey", "jobs_pkey"]);
        let release = outcomes(
            runner,
            ids,
            &[
                ("retryable", "text"),
                ("1000", "bigint"),
                ("true", "boolean"),
                ("true", "boolean"),
                ("handler.retry", "text"),
                ("null", "text"),
            ],
        );
        assert_uses(&plan(queue, RELEASE, &release).await, &["claims_pkey", "jobs_pkey"]);
        let same = |value: &str, of: &str| array(ids.iter().map(|_| value), of);
        let logs = [
            array(ids, "bigint"),
            same("1", "bigint"),
            same("1", "bigint"),
            same("1", "smallint"),
            same("[]", "text"),
        ];
        let logs = format!("{runner}, {}", logs.join(", "));
        assert_uses(&plan(queue, INSERT_LOGS, &logs).await, &["claims_pkey", "jobs_pkey"]);
    }
}

#[tokio::test]
async fn hot_statements_use_their_indexes_before_the_planner_has_seen_the_table() {
    let queue = Queue::new().await;
    let (kind, runner, held) = filled(&queue).await;
    assert_plans(&queue, kind, runner, &held).await;
}

#[tokio::test]
async fn hot_statements_use_their_indexes_when_the_planner_knows_the_table() {
    let queue = Queue::new().await;
    let (kind, runner, held) = filled(&queue).await;
    queue.run("analyze stokehold.jobs, stokehold.ready, stokehold.claims").await;
    assert_plans(&queue, kind, runner, &held).await;
}

#[tokio::test]
async fn a_plan_that_a_node_makes_on_an_empty_table_is_the_one_for_a_full_table() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    let held: Vec<i64> = (1..=500).collect();
    assert_plans(&queue, kind, runner, &held).await;
    queue.run("vacuum analyze stokehold.jobs, stokehold.ready, stokehold.claims").await;
    assert_plans(&queue, kind, runner, &held).await;
}

#[tokio::test]
async fn hot_statements_use_their_indexes_after_the_planner_saw_an_empty_table() {
    let queue = Queue::new().await;
    queue.run("vacuum analyze stokehold.jobs, stokehold.ready, stokehold.claims").await;
    let (kind, runner, held) = filled(&queue).await;
    assert_plans(&queue, kind, runner, &held).await;
}

#[tokio::test]
async fn a_plan_made_when_the_queue_was_almost_empty_is_right_when_it_is_full() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    queue.jobs("work", 20).await;
    queue.run("vacuum analyze stokehold.jobs, stokehold.ready, stokehold.claims").await;
    let connect = DatabaseOptions::new(queue.options.clone()).connect;
    let one = Database::lazy(DatabaseOptions {
        connect: connect.application_name("stokehold-one"),
        max_connections: 1,
        call_deadline: PATIENCE,
        plans: Plans::Kept,
    });
    let work = async || {
        one.tick(&mut Horizon::default(), None).await.unwrap();
        let claimed = one.claim(runner, &next_claim(), &[lane(kind, 1)]).await.unwrap();
        assert_eq!(claimed.len(), 1);
        let end = [completed(&claimed[0])];
        assert_eq!(one.settle(runner, &end).await.unwrap(), [Fate::Applied]);
        assert_eq!(one.settle(runner, &end).await.unwrap(), [Fate::AlreadyApplied]);
        one.reap(LEASE).await.unwrap();
    };
    for _ in 0..8 {
        work().await;
    }
    queue
        .run(format!(
            "with made as (
               insert into stokehold.jobs (position, run_at, kind_id, state, priority, max_attempts, payload)
               select nextval('stokehold.positions'), now(), {kind}, 'available', 0, 20, ''
               from generate_series(1, 50000)
               returning *)
             insert into stokehold.ready (kind_id, priority, position, job_id)
             select kind_id, priority, position, id from made"
        ))
        .await;
    for _ in 0..8 {
        work().await;
    }
    // What a session counted is to be seen when it has ended.
    one.close().await;
    queue
        .until(
            "select not exists (select from pg_stat_activity
               where datname = current_database() and application_name = 'stokehold-one')",
        )
        .await;
    let read: i64 =
        queue.value("select sum(seq_tup_read)::bigint from pg_stat_user_tables where relname in ('jobs', 'ready')").await;
    assert!(read < 25_000, "{read} rows were read in scans of the whole table");
}

#[tokio::test]
async fn runners_are_listed_through_indexes_by_a_session_that_plans_on_its_own() {
    let queue = Queue::new().await;
    // What the planner knows is from when there was nothing.
    queue.kind("work").await;
    queue.job("work").await;
    queue.run("insert into stokehold.claims values (1, 1, array[1])").await;
    for table in ["jobs", "ready", "claims"] {
        queue.run(format!("delete from stokehold.{table}")).await;
    }
    for table in ["jobs", "ready", "claims"] {
        queue.run(format!("vacuum analyze stokehold.{table}")).await;
    }
    filled(&queue).await;
    let settings = "set plan_cache_mode = auto";
    let steps = plan_with(&queue, settings, LIST_RUNNERS, "").await;
    let by_id = steps.iter().filter(|step| step.table == "jobs");
    assert!(by_id.clone().count() > 0, "{steps:#?}");
    for step in by_id {
        assert_eq!(step.index, "jobs_pkey", "{steps:#?}");
        assert!(step.condition.contains("id = "), "reads all jobs: {steps:#?}");
    }
}

#[tokio::test]
async fn a_list_of_dead_letters_reads_no_job_that_completed() {
    let queue = Queue::new().await;
    let (kind, runner, _) = filled(&queue).await;
    for (from, to, state) in [(1, 50_000, "completed"), (50_001, 50_003, "discarded")] {
        queue
            .run(format!(
                "insert into stokehold.job_history (id, token, runner_id, run_at, enqueued_at, kind_id,
                   state, priority, attempt, max_attempts, snoozes, lost, outcome, payload)
                 select 1000000 + n, 1, {runner}, now(), now(), {kind}, '{state}', 0, 1, 20, 0, 0, '-', ''
                 from generate_series({from}, {to}) n"
            ))
            .await;
    }
    queue.run("analyze").await;
    let mut session: PgConnection = queue.options.connect().await.unwrap();
    let prepare =
        format!("set plan_cache_mode = force_custom_plan; prepare statement as {LIST_JOBS}");
    sqlx::raw_sql(AssertSqlSafe(prepare)).execute(&mut session).await.unwrap();
    let explain = format!(
        "explain (analyze, format json) execute statement ({kind}, array['discarded'], null, 50, null, null, 100000)"
    );
    let plan: Value =
        sqlx::query_scalar(AssertSqlSafe(explain)).fetch_one(&mut session).await.unwrap();
    fn read(plan: &Value) -> f64 {
        let number = |key: &str| plan[key].as_f64().unwrap_or_default();
        let own = match plan["Relation Name"].as_str() {
            Some(table) if table.starts_with("job_history") => {
                (number("Actual Rows") + number("Rows Removed by Filter")) * number("Actual Loops")
            }
            _ => 0.0,
        };
        own + plan["Plans"].as_array().into_iter().flatten().map(read).sum::<f64>()
    }
    assert_eq!(read(&plan[0]["Plan"]), 3.0, "{plan:#}");
}

#[tokio::test]
async fn the_regular_look_and_the_answers_after_a_fault_scan_no_table_either() {
    let queue = Queue::new().await;
    let (kind, runner, held) = filled(&queue).await;
    // Many that wait for their time, and a long day of history.
    queue
        .run(format!(
            "insert into stokehold.jobs (run_at, kind_id, state, priority, max_attempts, payload)
             select now() + n * interval '1 second', {kind}, 'scheduled', 0, 20, '{{}}'
             from generate_series(-5000, 15000) n"
        ))
        .await;
    queue
        .run(format!(
            "insert into stokehold.job_history (id, token, runner_id, run_at, enqueued_at, kind_id,
               state, priority, attempt, max_attempts, snoozes, lost, outcome, payload)
             select 1000000 + n, 1, {runner}, now(), now(), {kind}, 'completed', 0, 1, 20, 0, 0, 'ok', ''
             from generate_series(1, 50000) n"
        ))
        .await;
    queue
        .run(format!(
            "insert into stokehold.job_attempts (job_id, token, runner_id, started_at, attempt, outcome)
             select 1000000 + n, 1, {runner}, now(), 1, 'handler.retry' from generate_series(1, 50000) n"
        ))
        .await;
    for analyzed in [false, true] {
        if analyzed {
            queue.run("analyze").await;
        }
        let fate = |count| {
            let ids = &held[..count];
            let tokens = array(ids.iter().map(|_| 1), "bigint");
            format!("{runner}, {}, {tokens}, {tokens}", array(ids, "bigint"))
        };
        let tick =
            format!("null, 1000, array[{kind}], array[0]::smallint[], array[0]::bigint[], now()");
        for (sql, arguments, indexes) in [
            (TICK, tick.clone(), &["jobs_due", "ready_lanes", "jobs_pkey"][..]),
            (GIVE_BACK, "1000, 3".to_owned(), &["claims_pkey", "jobs_pkey"]),
            (FORGET_CLAIMS, String::new(), &["jobs_pkey"]),
            (RECLAIM, format!("{runner}, 1"), &["claims_pkey", "jobs_pkey"]),
            (FATE, fate(1), &["jobs_pkey"]),
            (FATE, fate(500), &["jobs_pkey"]),
            (
                ENDED,
                "null, array['discarded'], null, null, null, 0, 1000".into(),
                &["retries_pkey"],
            ),
            (LIVE, "null, null, null, null, 0, 1000".into(), &["jobs_pkey"]),
        ] {
            let steps = plan(&queue, sql, &arguments).await;
            for index in indexes {
                let used = steps.iter().any(|step| step.index == *index);
                assert!(used, "without {index}: {steps:#?}");
            }
            // Days without a row may be scanned.
            let scans = |step: &&Step| {
                step.node == "Seq Scan" && (step.table.starts_with("job") || step.table == "ready")
            };
            for step in steps.iter().filter(scans) {
                let filled = format!("select exists (select from stokehold.{})", step.table);
                let filled: bool = queue.value(filled).await;
                assert!(!filled, "scans {}: {steps:#?}", step.table);
            }
        }
    }
}
