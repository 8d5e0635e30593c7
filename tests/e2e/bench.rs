//! `stokehold bench` in small: its figures fit together, what makes no sense is refused in words, and
//! however it ends nothing of it is left.

use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::dev::Home;
use crate::stage::{PATIENCE, Process, Said, Stage, stokehold};

/// Rows of a benchmark, and of anything else but the schema.
const LEFT: &str =
    "select (select count(*) from stokehold.kinds) + (select count(*) from stokehold.jobs)
  + (select count(*) from stokehold.job_history) + (select count(*) from stokehold.modules)
  + (select count(*) from stokehold.releases) + (select count(*) from stokehold.runners)
  + (select count(*) from stokehold.api_keys) + (select count(*) from stokehold.sleepers)
  + (select count(*) from stokehold.claims) + (select count(*) from stokehold.lanes)";
const RUNNING: &str = "select count(*) from stokehold.live_jobs where state = 'running'";

fn bench(stage: &Stage, arguments: &[&str]) -> Said {
    let mut all = vec!["bench", "--json", "--database-url", &stage.url];
    all.extend(arguments);
    stokehold(stage.folder.path(), &all).output().unwrap().into()
}

fn report(said: &Said) -> Value {
    serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("{error}: {said:?}"))
}

fn number(report: &Value, name: &str) -> f64 {
    report[name].as_f64().unwrap_or_else(|| panic!("no number {name} in {report}"))
}

fn assert_ordered(percentiles: &Value) {
    let values = ["p50", "p95", "p99", "p999", "max"].map(|name| number(percentiles, name));
    assert!(values.is_sorted() && values[0] > 0.0, "{percentiles}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_figures_of_a_burn_down_fit_together_and_its_rows_are_gone() {
    let stage = Stage::bare().await;
    let plot = stage.folder.path().join("plot.svg");
    let said = bench(
        &stage,
        &[
            "--jobs",
            "400",
            "--latency-jobs",
            "10",
            "--slots",
            "8",
            "--warm-up",
            "50",
            "--repeat",
            "2",
            "--payload-bytes",
            "1000",
            "--handler",
            "noop-command",
            "--plot",
            plot.to_str().unwrap(),
        ],
    );
    assert_eq!(said.code, 0, "{said:?}");
    let report = report(&said);
    for (name, wanted) in [
        ("jobs", json!(400)),
        ("slots", json!(8)),
        ("nodes", json!(1)),
        ("payload_bytes", json!(1000)),
        ("handler", json!("noop-command")),
        ("shape", json!("burn-down")),
        ("latency_of", json!("idle")),
        ("latency_jobs", json!(10)),
        // The test server does not load what counts them.
        ("statements_per_job", Value::Null),
    ] {
        assert_eq!(report[name], wanted, "{name}");
    }
    for name in [
        "jobs_per_s",
        "enqueue_jobs_per_s",
        "node_cpu_us_per_job",
        "postgres_cpu_us_per_job",
        "cores",
    ] {
        assert!(number(&report, name) > 0.0, "{name}");
    }
    // Each job is taken out of the ready ones and later moved from the queue into the history; nothing is
    // written twice.
    for (name, rows) in [
        ("rows_inserted_per_job", 0.99..2.0),
        ("rows_updated_per_job", 0.0..0.5),
        ("rows_deleted_per_job", 1.99..3.0),
    ] {
        assert!(rows.contains(&number(&report, name)), "{name}: {report}");
    }
    assert!(number(&report, "wal_bytes_per_job") > 100.0);
    assert!((0.0..=1.0).contains(&number(&report, "foreign_cpu_share")));
    assert!(number(&report, "transactions_per_job") > 0.0);
    assert_ordered(&report["enqueue_to_start_ms"]);
    assert_ordered(&report["enqueue_to_done_ms"]);
    let repetitions = report["repetitions"].as_array().unwrap();
    assert_eq!(repetitions.len(), 2);
    for repetition in repetitions {
        let jobs = number(repetition, "jobs_per_s") * number(repetition, "span_s");
        assert!((jobs - 400.0).abs() < 0.01, "{jobs}");
        let timeline = repetition["timeline"].as_array().unwrap();
        assert_eq!(timeline.iter().map(|bucket| number(bucket, "jobs")).sum::<f64>(), 400.0);
        assert!(number(&repetition["enqueue"], "rows_inserted_per_job") >= 1.0);
    }
    let drawn = std::fs::read_to_string(&plot).unwrap();
    assert!(drawn.starts_with("<svg") && drawn.contains("enqueue to done (ms)"), "{drawn}");
    assert_eq!(stage.number(LEFT).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn steady_loads_and_bursts_come_when_they_are_due() {
    let stage = Stage::bare().await;
    let steady = bench(
        &stage,
        &[
            "--shape",
            "steady",
            "--rate",
            "100",
            "--duration",
            "1500ms",
            "--enqueue",
            "api",
            "--nodes",
            "2",
            "--clients",
            "4",
        ],
    );
    assert_eq!(steady.code, 0, "{steady:?}");
    let steady = report(&steady);
    assert_eq!((&steady["jobs"], &steady["nodes"]), (&json!(150), &json!(2)));
    assert_eq!((&steady["latency_of"], &steady["entrance"]), (&json!("load"), &json!("api")));
    // Never faster than asked for.
    assert!(number(&steady, "enqueue_jobs_per_s") < 102.0, "{steady}");
    assert!(number(&steady, "api_cpu_us_per_job") > 0.0);
    assert_ordered(&steady["enqueue_to_start_ms"]);

    let bursts = bench(
        &stage,
        &[
            "--shape",
            "bursts",
            "--burst",
            "60",
            "--every",
            "400ms",
            "--duration",
            "1200ms",
            "--enqueue",
            "api-bulk",
            "--media-type",
            "text/plain",
        ],
    );
    assert_eq!(bursts.code, 0, "{bursts:?}");
    let bursts = report(&bursts);
    assert_eq!(bursts["jobs"], 180);
    // The third burst comes two intervals after the first, whose jobs may be late by less than one.
    assert!(number(&bursts, "burn_down_s") > 0.4, "{bursts}");
    assert_eq!(stage.number(LEFT).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_in_use_is_refused_and_forced_its_jobs_are_left_alone() {
    let stage = Stage::set().await;
    stage.enqueue(&json!({"do": "ok"})).await;
    let refused = bench(&stage, &["--jobs", "10"]);
    assert_eq!(refused.code, 4, "{refused:?}");
    assert!(refused.err.contains("1 live job") && refused.err.contains("--force"), "{refused:?}");
    let kept = Stage::bare().await;
    let said = bench(&kept, &["--jobs", "50", "--latency-jobs", "0", "--keep"]);
    assert_eq!(said.code, 0, "{said:?}");
    let completed = "select count(*) from stokehold.job_history where state = 'completed'";
    assert_eq!(kept.number(completed).await, 50);

    let forced = bench(&stage, &["--jobs", "50", "--latency-jobs", "0", "--force"]);
    assert_eq!(forced.code, 0, "{forced:?}");
    let untouched =
        "select count(*) from stokehold.live_jobs where state = 'available' and token = 0";
    assert_eq!(stage.number(untouched).await, 1);
    assert_eq!(stage.number("select count(*) from stokehold.kinds").await, 1);
    assert_eq!(stage.number("select count(*) from stokehold.modules").await, 1);

    let idle = Stage::set().await;
    let _runner = idle.runner("runner", &[]);
    idle.wait_for("a runner", "select count(*) from stokehold.runners", |n| n == 1).await;
    let refused = bench(&idle, &["--jobs", "10"]);
    assert_eq!(refused.code, 4, "{refused:?}");
    assert!(refused.err.contains("1 runner on this database"), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_makes_no_sense_is_refused_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let nowhere = "postgres://u@127.0.0.1:1/none";
    let cases: [(&[&str], i32, &str); 16] = [
        (&["--rate", "5"], 2, "--rate does not belong to --shape burn-down"),
        (&["--shape", "steady", "--jobs", "5"], 2, "--jobs does not belong to --shape steady"),
        (&["--shape", "steady", "--rate", "5"], 2, "--shape steady needs --duration"),
        (&["--shape", "bursts", "--burst", "5"], 2, "--shape bursts needs --every"),
        (&["--shape", "steady", "--rate", "0.1", "--duration", "1s"], 2, "no job comes"),
        (&["--handler", "nowhere.wasm"], 3, "there is no handler file nowhere.wasm"),
        (&["--sleep", "1s"], 2, "--handler sleep"),
        (&["--handler", "sleep", "--payload-bytes", "9"], 2, "--sleep"),
        (&["--enqueue", "api", "--enqueue-batch", "9"], 2, "api-bulk"),
        (&["--payload-bytes", "1000000", "--enqueue-batch", "99"], 2, "of payload into one call"),
        (&["--slots", "0"], 2, "1 to 10000"),
        (&["--statements", "--database-url", nowhere], 2, "scratch server"),
        (&["--scenario", "flod"], 3, "There are: throughput, one-at-a-time, latency-idle"),
        (&["--scenario", "flood", "--jobs", "9"], 2, "decides by itself what --jobs would say"),
        (&["--quick"], 2, "none is named"),
        (&["--keep"], 2, "nothing to keep"),
    ];
    for (arguments, code, part) in cases {
        let mut all = vec!["bench"];
        all.extend(arguments);
        let said: Said = stokehold(folder.path(), &all).output().unwrap().into();
        assert_eq!(said.code, code, "{arguments:?}: {said:?}");
        assert!(
            said.err.starts_with("error: ") && said.err.contains(part),
            "{arguments:?}: {said:?}"
        );
    }
    let broken: Said =
        stokehold(folder.path(), &["bench", "--database-url", nowhere]).output().unwrap().into();
    assert_eq!(broken.code, 5, "{broken:?}");
}

/// The processes that a process started, the started ones' included.
fn descendants(pid: i32) -> Vec<i32> {
    let mut found = vec![pid];
    let mut parents = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        let Some((start, rest)) = stat.rsplit_once(") ") else { continue };
        let child: i32 = start.split(' ').next().unwrap().parse().unwrap();
        let parent: i32 = rest.split(' ').nth(1).unwrap().parse().unwrap();
        parents.push((child, parent));
    }
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        found.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(child, _)| *child));
        next += 1;
    }
    found.split_off(1)
}

async fn wait_until_gone(processes: &[i32]) {
    let begun = Instant::now();
    let lives = |pid: &&i32| Path::new(&format!("/proc/{pid}")).exists();
    while let Some(pid) = processes.iter().find(lives) {
        assert!(begun.elapsed() < PATIENCE, "process {pid} goes on");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A benchmark whose jobs go on for longer than any test.
fn start_long(stage: &Stage) -> Process {
    let arguments = [
        "bench",
        "--database-url",
        &stage.url,
        "--handler",
        "sleep",
        "--sleep",
        "20s",
        "--jobs",
        "40",
        "--nodes",
        "2",
        "--slots",
        "4",
    ];
    let folder = stage.folder.path();
    let mut command = stokehold(folder, &arguments);
    // What a killed one leaves there goes with the test.
    command.env("TMPDIR", folder);
    Process::start(command, &folder.join("bench.err"))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_bench_takes_its_processes_and_rows_along() {
    let stage = Stage::bare().await;
    let mut long = start_long(&stage);
    stage.wait_for("a full fleet", RUNNING, |running| running >= 8).await;
    let nodes = descendants(long.pid());
    assert_eq!(nodes.len(), 2, "{nodes:?}");
    long.signal(Signal::SIGINT);
    assert_eq!(long.end().await, 130, "{}", stage.log("bench"));
    wait_until_gone(&nodes).await;
    assert_eq!(stage.number(LEFT).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_nodes_of_a_killed_bench_end_with_it() {
    let stage = Stage::bare().await;
    let mut long = start_long(&stage);
    stage.wait_for("a full fleet", RUNNING, |running| running >= 8).await;
    let nodes = descendants(long.pid());
    long.signal(Signal::SIGKILL);
    long.end().await;
    wait_until_gone(&nodes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_bench_on_a_scratch_server_leaves_no_file() {
    let home = Home::make();
    let mut command = stokehold(home.path(), &["bench", "--handler", "sleep", "--sleep", "20s"]);
    let temporary = home.path().join("t");
    std::fs::create_dir(&temporary).unwrap();
    command.env("TMPDIR", &temporary);
    let log = home.path().join("bench.err");
    let mut bench = Process::start(command, &log);
    let begun = Instant::now();
    while !std::fs::read_to_string(&log).unwrap().contains("Burning them down") {
        assert!(begun.elapsed() < PATIENCE, "{}", std::fs::read_to_string(&log).unwrap());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let processes = descendants(bench.pid());
    assert!(processes.len() > 2, "a server with its processes and a node: {processes:?}");
    bench.signal(Signal::SIGINT);
    assert_eq!(bench.end().await, 130);
    wait_until_gone(&processes).await;
    let left: Vec<_> = std::fs::read_dir(&temporary).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn scenarios_compare_what_they_measure_with_their_bars() {
    let stage = Stage::bare().await;
    let said = bench(&stage, &["--quick", "--scenario", "history", "--scenario", "scheduled-due"]);
    let report = report(&said);
    let verdicts = report["scenarios"].as_array().unwrap();
    let names: Vec<_> = verdicts.iter().map(|verdict| verdict["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["history", "scheduled-due", "scheduled-due"], "{said:?}");
    for verdict in verdicts {
        let measured = number(verdict, "measured");
        // Far from its bar, which a busy machine misses: whether it measures at all is the question.
        let plausible = verdict["is_ratio"] == false || (0.05..20.0).contains(&measured);
        assert!(plausible && measured > 0.0, "{verdict}");
        assert_eq!(verdict["met"].is_null(), verdict["is_ratio"] == false, "{verdict}");
    }
    let missed = verdicts.iter().any(|verdict| verdict["met"] == false);
    assert_eq!(said.code, i32::from(missed), "{said:?}");
    assert_eq!(stage.number(LEFT).await, 0);
}
