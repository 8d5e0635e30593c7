//! The separate processes together, and one clear sentence for each thing done wrong.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::stage::{Process, Said, Stage, guest, stokehold};

/// `serve` and `runner` on a database of their own, and the address and key for the client.
pub(crate) struct Served {
    pub(crate) stage: Stage,
    url: String,
    key: String,
    _api: Process,
    _runner: Process,
}

impl Served {
    pub(crate) async fn start() -> Served {
        let stage = Stage::bare().await;
        let key = stage.database.create_key("test").await.unwrap().text;
        let port = free_port();
        let address = format!("127.0.0.1:{port}");
        let command = stokehold(
            stage.folder.path(),
            &["serve", "--listen", &address, "--database-url", &stage.url],
        );
        let api = Process::start(command, &stage.folder.path().join("serve.err"));
        let runner = stage.runner("runner", &[]);
        let url = format!("http://{address}");
        let served = Served { stage, url, key, _api: api, _runner: runner };
        for _ in 0..500 {
            if served.run(&["kind", "list"]).code == 0 {
                return served;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        panic!("the API does not answer: {}", served.run(&["kind", "list"]).err);
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = stokehold(self.stage.folder.path(), arguments);
        command.env("STOKEHOLD_URL", &self.url).env("STOKEHOLD_KEY", &self.key);
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Said {
        self.command(arguments).output().unwrap().into()
    }

    pub(crate) fn push(&self, file: &str, kind: &str) {
        let file = guest(file);
        let said = self.run(&["push", file.to_str().unwrap(), "--kind", kind]);
        assert_eq!(said.code, 0, "{}", said.err);
    }
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_two_real_handlers_work_from_push_to_result() {
    let served = Served::start().await;
    served.push("orders-report.wasm", "orders.report");
    served.push("image-resize.wasm", "image.resize");
    let orders = served.stage.folder.path().join("orders.csv");
    std::fs::write(
        &orders,
        "order_id,date,customer,product,quantity,unit_price,currency\n\
         1,2026-11-28,Ann,Tea,2,4.50,EUR\n2,2026-11-28,Bob,Pot,1,29.90,EUR\n",
    )
    .unwrap();
    let from = format!("@{}", orders.display());
    let done = served.run(&["enqueue", "orders.report", "--payload", &from, "--wait"]);
    assert_eq!(done.code, 0, "{}", done.err);
    let report: Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(report["revenue"]["EUR"], "38.90");

    let picture = served.stage.folder.path().join("dot.png");
    std::fs::write(&picture, DOT).unwrap();
    let small = served.stage.folder.path().join("small.png");
    let from = format!("@{}", picture.display());
    let to = small.to_str().unwrap();
    let done =
        served.run(&["enqueue", "image.resize", "--payload", &from, "--wait", "--output", to]);
    assert_eq!(done.code, 0, "{}", done.err);
    assert!(std::fs::read(&small).unwrap().starts_with(b"\x89PNG\r\n"));
}

/// One red pixel.
const DOT: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x02\0\0\0\x90wS\xde\0\0\0\x0cIDATx\x9cc\xf8\xcf\xc0\0\0\x03\x01\x01\0\xc9\xfe\x92\xef\0\0\0\0IEND\xaeB`\x82";

#[tokio::test(flavor = "multi_thread")]
async fn each_mistake_gets_one_clear_sentence_and_the_right_code() {
    let served = Served::start().await;
    let folder = served.stage.folder.path();
    let text = folder.join("text.wasm");
    std::fs::write(&text, "(module)").unwrap();
    let huge = folder.join("huge.wasm");
    std::fs::File::create(&huge).unwrap().set_len((64 << 20) + 1).unwrap();
    let payload = folder.join("payload.bin");
    std::fs::write(&payload, vec![b'x'; (1 << 20) + 1]).unwrap();
    let payload = format!("@{}", payload.display());
    served.push("probe.wasm", "probe");
    let cases: [(&[&str], i32, &str); 9] = [
        (&["enqueue", "nobody", "--payload", "{}"], 3, "nobody"),
        (&["push", text.to_str().unwrap(), "--kind", "k"], 4, "text"),
        (&["push", huge.to_str().unwrap(), "--kind", "k"], 4, "64 MiB"),
        (&["push", "/nowhere/at.all", "--kind", "k"], 3, "/nowhere/at.all"),
        (&["enqueue", "probe", "--payload", "{\"a\":}"], 4, "column"),
        (&["enqueue", "probe", "--payload", &payload], 4, "1 MiB"),
        (&["job", "get", "999999"], 3, "999999"),
        (&["kind", "activate", "probe", "9"], 3, "9"),
        (&["enqueue", "Bad Name", "--payload", "{}"], 2, "Bad Name"),
    ];
    for (arguments, code, part) in cases {
        let said = served.run(arguments);
        assert_eq!(said.code, code, "{arguments:?}: {}", said.err);
        assert!(
            said.err.starts_with("error: ") && said.err.contains(part),
            "{arguments:?}: {}",
            said.err
        );
    }
    let wrong_key: Said =
        served.command(&["kind", "list"]).env("STOKEHOLD_KEY", "sth_no").output().unwrap().into();
    assert_eq!(wrong_key.code, 4, "{}", wrong_key.err);
    assert_eq!(served.stage.number("select count(*) from stokehold.jobs").await, 0);
    assert_eq!(served.stage.number("select count(*) from stokehold.modules").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_not_there_is_said_so_by_every_process() {
    let folder = tempfile::tempdir().unwrap();
    let nowhere = format!("postgres://u@127.0.0.1:{}/none", free_port());
    for command in ["serve", "runner", "migrate"] {
        let mut arguments = vec![command, "--database-url", &nowhere];
        if command == "serve" {
            arguments.extend(["--listen", "127.0.0.1:0"]);
        }
        let said: Said = stokehold(folder.path(), &arguments).output().unwrap().into();
        assert_eq!(said.code, 5, "{command}: {}", said.err);
        assert!(said.err.contains("database"), "{command}: {}", said.err);
        assert!(!said.err.contains("panicked"), "{command}: {}", said.err);
    }
    let said: Said =
        stokehold(folder.path(), &["job", "list", "--url", "http://127.0.0.1:1", "--key", "k"])
            .output()
            .unwrap()
            .into();
    assert_eq!(said.code, 5, "{}", said.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_refuse_a_schema_that_is_not_there() {
    let stage = Stage::bare().await;
    let mut connection =
        <sqlx::PgConnection as sqlx::Connection>::connect(&stage.url).await.unwrap();
    sqlx::query("drop schema stokehold cascade").execute(&mut connection).await.unwrap();
    let arguments = ["runner", "--database-url", &stage.url];
    let said: Said = stokehold(stage.folder.path(), &arguments).output().unwrap().into();
    assert_eq!(said.code, 4, "{}", said.err);
    assert!(said.err.contains("stokehold migrate"), "{}", said.err);
    let arguments = ["migrate", "--database-url", &stage.url];
    let said: Said = stokehold(stage.folder.path(), &arguments).output().unwrap().into();
    assert_eq!(said.code, 0, "{}", said.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_runs_locally_without_any_database() {
    let folder = tempfile::tempdir().unwrap();
    let probe = guest("probe.wasm");
    let run = |payload: &str| -> Said {
        stokehold(folder.path(), &["run", probe.to_str().unwrap(), "--payload", payload])
            .stdin(Stdio::null())
            .output()
            .unwrap()
            .into()
    };
    let done = run(r#"{"do":"ok","value":[1,2]}"#);
    assert_eq!((done.code, done.out.trim()), (0, "[1,2]"), "{}", done.err);
    let failed = run(r#"{"do":"panic","message":"ouch"}"#);
    assert_eq!(failed.code, 6);
    assert!(failed.err.contains("ouch"), "{}", failed.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_ends_well_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let guests = guest("probe.wasm").parent().unwrap().to_owned();
    let arguments = ["demo", "--exit", "--guests", guests.to_str().unwrap()];
    let said: Said = stokehold(folder.path(), &arguments).output().unwrap().into();
    assert_eq!(said.code, 0, "{}{}", said.out, said.err);
    assert!(said.out.contains("limit.fuel") && !said.out.contains('✗'), "{}", said.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_job_is_stopped_by_cancelling_it_whatever_it_does() {
    let served = Served::start().await;
    // Fuel for longer than anybody waits.
    let file = guest("probe.wasm");
    let limit = ["--limit", "fuel=10000000000000"];
    let said =
        served.run(&[&["push", file.to_str().unwrap(), "--kind", "probe"][..], &limit].concat());
    assert_eq!(said.code, 0, "{}", said.err);
    for task in [r#"{"do":"spin"}"#, r#"{"do":"sleep","ms":600000}"#] {
        let made = served.run(&["enqueue", "probe", "--payload", task, "--json"]);
        let id = serde_json::from_str::<Value>(&made.out).unwrap()["id"].clone();
        let id = id.as_str().unwrap().to_owned();
        let running = "select count(*) from stokehold.live_jobs where state = 'running'";
        served.stage.wait_for("the start", running, |n| n == 1).await;
        let said = served.run(&["job", "cancel", &id, "--reason", "a mistake"]);
        assert_eq!(said.code, 0, "{said:?}");
        assert!(said.err.contains("runs") && said.err.contains("is cancelled"), "{said:?}");
        let shown = served.run(&["job", "get", &id]);
        assert!(shown.out.contains("cancelled") && shown.out.contains("a mistake"), "{shown:?}");
        let again = served.run(&["job", "cancel", &id]);
        assert!(again.code != 0 && again.err.contains("cancelled already"), "{again:?}");
        let left = "select count(*) from stokehold.cancels";
        served.stage.wait_for("the end of the request", left, |n| n == 0).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_are_found_counted_and_run_again_with_another_payload_or_release() {
    let served = Served::start().await;
    served.push("probe.wasm", "probe");
    let broken =
        served.run(&["enqueue", "probe", "--payload", "{\"do\": \"permanent\"}", "--wait"]);
    assert_eq!(broken.code, 6, "{}", broken.err);
    let id = "1";
    let shown = served.run(&["job", "list", "--state", "discarded"]);
    assert!(shown.out.contains("probe"), "{}", shown.out);
    // Without a word that it is meant, nothing is done.
    let filter = ["job", "retry", "--kind", "probe", "--outcome", "handler"];
    let dry = served.run(&[&filter[..], &["--dry-run"]].concat());
    assert_eq!((dry.code, dry.err.trim()), (0, "1 job would be retried"));
    let asked = served.run(&filter);
    assert_eq!(asked.code, 2, "{}", asked.err);
    assert!(asked.err.contains("1 job would be retried; nothing was"), "{}", asked.err);
    let nothing = served.run(&["job", "retry", "--yes"]);
    assert_eq!(nothing.code, 4, "{}", nothing.err);
    assert!(nothing.err.contains("nothing says which jobs"), "{}", nothing.err);
    let by_id = ["job", "retry", id, "--payload", "{\"do\": \"ok\", \"value\": 7}"];
    let again = served.run(&by_id);
    assert_eq!(again.code, 0, "{}", again.err);
    let new = again.out.trim();
    let done = served.run(&["job", "wait", new]);
    assert_eq!(done.code, 0, "{}", done.err);
    let old = served.run(&["job", "get", id]);
    assert!(old.out.contains(&format!("as job {new}")), "{}", old.out);
    let twice = served.run(&by_id);
    assert_eq!(twice.code, 4, "{}", twice.err);
    assert!(twice.err.contains(&format!("was retried as job {new}")), "{}", twice.err);
    let none = served.run(&[&filter[..], &["--yes"]].concat());
    assert_eq!((none.code, none.err.trim()), (0, "0 jobs retried"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_queue_starts_nothing_until_it_is_resumed() {
    let served = Served::start().await;
    served.push("probe.wasm", "probe");
    let paused = served.run(&["pause", "--queue", "default", "--reason", "repairs"]);
    assert!(
        paused.code == 0 && paused.out.contains("queue default"),
        "{}{}",
        paused.out,
        paused.err
    );
    for _ in 0..3 {
        let made = served.run(&["enqueue", "probe", "--payload", "{\"do\": \"ok\"}"]);
        assert_eq!(made.code, 0, "{}", made.err);
    }
    let edited =
        served.run(&["job", "edit", "1", "--payload", "{\"do\": \"ok\", \"value\": 5}", "--now"]);
    assert!(
        edited.code == 0 && edited.out.contains("\"value\": 5"),
        "{}{}",
        edited.out,
        edited.err
    );
    let nothing = served.run(&["job", "edit", "1"]);
    assert!(nothing.code == 2 && nothing.err.contains("nothing says what"), "{}", nothing.err);
    // Longer than a node needs to see whatever there is.
    tokio::time::sleep(std::time::Duration::from_millis(1_500)).await;
    let waiting = "select count(*) from stokehold.live_jobs where state = 'available'";
    assert_eq!(served.stage.number(waiting).await, 3);
    let listed = served.run(&["pause"]);
    assert!(listed.out.contains("repairs"), "{}", listed.out);
    let cancelled =
        served.run(&["job", "cancel", "--queue", "default", "--state", "running", "--yes"]);
    assert_eq!((cancelled.code, cancelled.err.trim()), (0, "0 jobs cancelled"));
    let nothing = served.run(&["resume"]);
    assert!(nothing.code == 2 && nothing.err.contains("what to resume"), "{}", nothing.err);
    let resumed = served.run(&["resume", "--queue", "default"]);
    assert_eq!((resumed.code, resumed.err.trim()), (0, "resumed"));
    served.stage.wait_until_done().await;
    assert_eq!(served.run(&["job", "result", "1"]).out.trim(), "5");
    let late = served.run(&["job", "edit", "1", "--now"]);
    assert_eq!(late.code, 4, "{}", late.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_a_node_holds_in_advance_are_given_back_when_they_are_paused() {
    let served = Served::start().await;
    served.push("probe.wasm", "probe");
    // More than run at once, so that some wait for a slot.
    let jobs = vec![serde_json::json!({"do": "witness", "ms": 700}); 200];
    served.stage.enqueue_many("probe", &jobs).await;
    served.stage.wait_for_starts("runner", 1).await;
    let paused = served.run(&["pause", "--kind", "probe"]);
    assert_eq!(paused.code, 0, "{}", paused.err);
    let running = "select count(*) from stokehold.live_jobs where state = 'running'";
    served.stage.wait_for("what runs to end", running, |n| n == 0).await;
    let started = served.stage.starts("runner").len();
    let live = served.stage.number("select count(*) from stokehold.jobs").await;
    assert_eq!(started as i64 + live, 200, "what had begun ended, and nothing else began");
    let burnt = "select count(*) from stokehold.jobs where attempt > 0 or lost > 0";
    assert_eq!(served.stage.number(burnt).await, 0);
    tokio::time::sleep(std::time::Duration::from_millis(1_200)).await;
    assert_eq!(served.stage.starts("runner").len(), started);
    served.run(&["resume", "--kind", "probe"]);
    served.stage.wait_until_done().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_job_says_about_itself_is_followed() {
    let served = Served::start().await;
    served.push("probe.wasm", "probe");
    let ok = |arguments: &[&str]| {
        let said = served.run(arguments);
        assert_eq!(said.code, 0, "{arguments:?}: {}", said.err);
        said
    };
    // A duplicate is told, and a repeated command does nothing.
    let later = ["enqueue", "probe", "--in", "1h", "--unique", "k", "--tag", "red"];
    let first = ok(&later);
    let again = ok(&later);
    assert_eq!(again.out, first.out);
    assert!(again.err.contains("it was there: it has the unique key"), "{}", again.err);
    let said = served.run(&[&later[..], &["--on-duplicate", "reject"]].concat());
    assert!(said.code != 0 && said.err.contains("has the unique key already"), "{}", said.err);
    let once = ["enqueue", "probe", "--in", "1h", "--idempotency-key", "r-1"];
    // The delay makes another time of each.
    assert_eq!(ok(&once).code, 0);
    let said = served.run(&once);
    assert!(said.err.contains("used for another request"), "{}", said.err);
    let listed: Value =
        serde_json::from_str(&ok(&["job", "list", "--tag", "red", "--json"]).out).unwrap();
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);

    // A job's own timeout and backoff.
    let payload = r#"{"do": "spin"}"#;
    let said = served.run(&[
        "enqueue",
        "probe",
        "--payload",
        payload,
        "--timeout",
        "200ms",
        "--max-attempts",
        "1",
        "--wait",
    ]);
    assert_eq!(said.code, 6, "{}", said.err);
    assert!(said.err.contains("limit.time") && said.err.contains("200 ms"), "{}", said.err);

    // Nobody serves it before it expires.
    ok(&["pause", "--kind", "probe"]);
    let id = ok(&["enqueue", "probe", "--expires-in", "1ms"]).out.trim().to_owned();
    let said = served.run(&["job", "wait", &id]);
    assert_eq!(said.code, 6, "{}", said.err);
    assert!(said.err.contains("(expired)"), "{}", said.err);
    assert!(
        said.err.contains("it is not started") || said.err.contains("was not started"),
        "{}",
        said.err
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_hold_on_two_nodes_and_change_while_jobs_wait() {
    let served = Served::start().await;
    let _second = served.stage.runner("second", &[]);
    served.push("probe.wasm", "probe");
    let ok = |arguments: &[&str]| {
        let said = served.run(arguments);
        assert_eq!(said.code, 0, "{arguments:?}: {}", said.err);
        said.out
    };
    let shown =
        ok(&["kind", "set", "probe", "--max-running-per-key", "1", "--keeps-order", "true"]);
    assert!(shown.contains("1 of a key at a time, in order"), "{shown}");
    let payload = r#"{"do": "sleep", "ms": 20}"#;
    let mut ids = Vec::new();
    for n in 0..30 {
        let key = ["a", "b"][n % 2];
        let enqueue = ["enqueue", "probe", "--payload", payload, "--concurrency-key", key];
        ids.push(ok(&enqueue).trim().to_owned());
    }
    for id in &ids {
        let said = served.run(&["job", "wait", id]);
        assert_eq!(said.code, 0, "{}", said.err);
    }
    // Of each key one after the other, in the order in which they were enqueued.
    let overlapping = served
        .stage
        .number(
            "select count(*) from stokehold.job_history a join stokehold.job_history b
             on a.options ->> 'concurrency_key' = b.options ->> 'concurrency_key' and a.id < b.id
             where b.started_at < a.finished_at - interval '1 ms'",
        )
        .await;
    assert_eq!(overlapping, 0);

    let shown = ok(&[
        "kind",
        "set",
        "probe",
        "--max-running-per-key",
        "none",
        "--keeps-order",
        "false",
        "--max-running",
        "1",
    ]);
    assert!(shown.contains("1 at a time") && !shown.contains("of a key"), "{shown}");
    let forever = r#"{"do": "sleep", "ms": 600000}"#;
    let long =
        ok(&["enqueue", "probe", "--payload", forever, "--timeout", "20s"]).trim().to_owned();
    let next = ok(&["enqueue", "probe", "--payload", payload]).trim().to_owned();
    for _ in 0..500 {
        if served.stage.number("select count(*) from stokehold.claims").await > 0 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    ok(&["kind", "set", "probe", "--max-running", "2"]);
    let said = served.run(&["job", "wait", &next]);
    assert_eq!(said.code, 0, "{}", said.err);
    ok(&["job", "cancel", &long]);
}
