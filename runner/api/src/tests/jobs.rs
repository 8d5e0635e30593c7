//! Looking at jobs and waiting for them, while a runner works on them.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::Method;
use serde_json::{Value, json};
use stokehold_domain::{Blob, Level, LogLine, Next, Problem};
use stokehold_queue::Ended;

use super::harness::{Api, ended};

#[tokio::test]
async fn pages_show_every_job_once_while_jobs_start_end_and_arrive() {
    let api = Api::start().await;
    api.kind("a").await;
    api.kind("b").await;
    let mut wanted = Vec::new();
    for n in 0..60 {
        wanted.push(api.job(if n % 2 == 0 { "a" } else { "b" }).await.to_string());
    }
    wanted.reverse();
    let runner = api.runner().await;
    let mut seen: Vec<String> = Vec::new();
    let mut path = "/v1/jobs?limit=7".to_owned();
    loop {
        let page = api.get(&path).await.is(200);
        for job in page["items"].as_array().unwrap() {
            assert!(job["kind"] == "a" || job["kind"] == "b", "{job}");
            seen.push(job["id"].as_str().unwrap().to_owned());
        }
        // Between two pages: some end, some start, one is cancelled, one arrives.
        let claimed = runner.claim(2).await;
        runner.complete(&claimed[0], None).await;
        api.post(&format!("/v1/jobs/{}/cancel", wanted[seen.len() / 2]), json!({})).await;
        api.job("a").await;
        match page["next"].as_str() {
            Some(cursor) => path = format!("/v1/jobs?limit=7&cursor={cursor}"),
            None => break,
        }
    }
    assert_eq!(seen, wanted);
}

#[tokio::test]
async fn lists_are_filtered_by_kind_and_by_states_in_either_form() {
    let api = Api::start().await;
    api.kind("a").await;
    api.kind("b").await;
    for kind in ["a", "a", "a", "b"] {
        api.job(kind).await;
    }
    let runner = api.runner().await;
    let claimed = runner.claim(1).await;
    runner.complete(&claimed[0], None).await;
    let count = async |query: &str| {
        let page = api.get(&format!("/v1/jobs?{query}")).await.is(200);
        page["items"].as_array().unwrap().len()
    };
    assert_eq!(count("").await, 4);
    assert_eq!(count("kind=a").await, 3);
    assert_eq!(count("kind=a&state=available").await, 2);
    assert_eq!(count("state=completed").await, 1);
    assert_eq!(count("state=completed,running").await, 2);
    assert_eq!(count("state=completed&state=running").await, 2);
    assert_eq!(count("state=discarded").await, 0);
    api.get("/v1/jobs?kind=nope").await.is_problem(404, "kind.unknown");
    for (query, parameter) in [
        ("kind=..%2Fa", "kind"),
        ("kind=%00", "kind"),
        ("kind=a&kind=b", "kind"),
        ("state=done", "state"),
        ("state=", "state"),
        ("limit=0", "limit"),
        ("limit=501", "limit"),
        ("limit=many", "limit"),
        ("limit=", "limit"),
        ("page=2", "page"),
    ] {
        api.get(&format!("/v1/jobs?{query}")).await.names_parameter(parameter);
    }
    for cursor in ["x", "1", "%00", "AQ", "'%20or%201=1", &"A".repeat(5_000)] {
        let answer = api.get(&format!("/v1/jobs?cursor={cursor}")).await;
        answer.is_problem(400, "request.cursor");
    }
}

#[tokio::test]
async fn a_job_shows_its_result_its_receipt_its_attempts_and_its_log() {
    let api = Api::start().await;
    api.kind("k").await;
    let id = api.job("k").await;
    let runner = api.runner().await;
    let first = runner.claim(1).await.remove(0);
    let job = api.get(&format!("/v1/jobs/{id}")).await.is(200);
    assert_eq!((&job["state"], &job["attempt"]), (&json!("running"), &json!(1)));
    assert_eq!(job["runner"], runner.id.to_string());
    let attempts = api.get(&format!("/v1/jobs/{id}/attempts")).await.is(200);
    assert_eq!(attempts["items"][0]["finished_at"], Value::Null);

    let mut problem = Problem::new("the server said no").advice("Ask again.");
    problem.code = Some("said-no".to_owned());
    problem.detail = Some(Blob::json(*b"{\"n\":1}"));
    problem.frames = vec!["main".to_owned()];
    let line = |n, text: &str| LogLine::new(n, Level::Warn, text, &[("k".into(), "<b>".into())]);
    runner
        .settle(Ended {
            problem: Some(problem),
            log: vec![line(5, "one"), line(9, "<script>")],
            ..ended(&first, "handler.retry", Next::Retry(Duration::ZERO))
        })
        .await;
    let second = loop {
        if let Some(job) = runner.claim(1).await.pop() {
            break job;
        }
    };
    let result = Blob { media_type: "text/html".to_owned(), bytes: b"<script>".to_vec() };
    runner.complete(&second, Some(result)).await;

    let job = api.get(&format!("/v1/jobs/{id}")).await.is(200);
    assert_eq!((&job["state"], &job["outcome"]), (&json!("completed"), &json!("ok")));
    assert_eq!((&job["attempt"], &job["release"]), (&json!(2), &json!(1)));
    let receipt = json!({ "fuel": 1, "wall_us": 2, "peak_memory_bytes": 3, "host_calls": 4 });
    assert_eq!(job["receipt"], receipt);
    let result = json!({ "media_type": "text/html", "size_bytes": 8, "base64": "PHNjcmlwdD4=" });
    assert_eq!(job["result"], result);
    assert_eq!(job["result_url"], format!("/v1/jobs/{id}/result"));

    let attempts = api.get(&format!("/v1/jobs/{id}/attempts")).await.is(200);
    assert_eq!(attempts["items"].as_array().unwrap().len(), 2);
    let failed = &attempts["items"][0];
    assert_eq!((&failed["attempt"], &failed["outcome"]), (&json!(1), &json!("handler.retry")));
    let problem = &failed["problem"];
    assert_eq!(
        (&problem["message"], &problem["code"]),
        (&json!("the server said no"), &json!("said-no"))
    );
    assert_eq!((&problem["advice"], &problem["frames"]), (&json!("Ask again."), &json!(["main"])));
    assert_eq!(problem["detail"]["json"], json!({ "n": 1 }));
    assert_eq!(attempts["items"][1]["outcome"], "ok");

    let logs = api.get(&format!("/v1/jobs/{id}/logs")).await.is(200);
    assert_eq!(logs["items"].as_array().unwrap().len(), 2);
    let line = &logs["items"][1];
    assert_eq!((&line["message"], &line["level"]), (&json!("<script>"), &json!("warn")));
    assert_eq!((&line["attempt"], &line["offset_us"]), (&json!(1), &json!(9)));
    assert_eq!(line["fields"], json!([["k", "<b>"]]));
    let newest = api.get(&format!("/v1/jobs/{id}/logs?limit=1")).await.is(200);
    assert_eq!(newest["items"], json!([line]));
    api.get(&format!("/v1/jobs/{id}/logs?limit=0")).await.names_parameter("limit");
}

#[tokio::test]
async fn a_result_is_served_as_an_attachment_of_its_type_and_a_large_one_only_so() {
    let api = Api::start().await;
    api.kind("k").await;
    let ids = [api.job("k").await, api.job("k").await, api.job("k").await];
    let path = |n: usize| format!("/v1/jobs/{}/result", ids[n]);
    api.get(&path(0)).await.is_problem(409, "job.not-finished");
    let runner = api.runner().await;
    let claimed = runner.claim(3).await;
    api.get(&path(0)).await.is_problem(409, "job.not-finished");
    let page = Blob { media_type: "text/html".to_owned(), bytes: b"<script>".to_vec() };
    let large = Blob::json(format!("\"{}\"", "x".repeat(64 << 10)));
    runner.complete(&claimed[0], Some(page)).await;
    runner.complete(&claimed[1], Some(large.clone())).await;
    runner.complete(&claimed[2], None).await;

    let answer = api.get(&path(0)).await;
    assert_eq!((answer.status, answer.text().as_str()), (200, "<script>"));
    assert_eq!(answer.header("content-type"), "text/html");
    let disposition = format!("attachment; filename=\"job-{}\"", ids[0]);
    assert_eq!(answer.header("content-disposition"), disposition);
    let head = api.call(Method::HEAD, &path(0), None, Body::empty()).await;
    assert_eq!((head.status, head.body.len()), (200, 0));

    let job = api.get(&format!("/v1/jobs/{}", ids[1])).await.is(200);
    let outline = json!({ "media_type": "application/json", "size_bytes": large.bytes.len() });
    assert_eq!(job["result"], outline);
    assert_eq!(api.get(job["result_url"].as_str().unwrap()).await.body, large.bytes);

    api.get(&path(2)).await.is_problem(404, "job.no-result");
    let job = api.get(&format!("/v1/jobs/{}", ids[2])).await.is(200);
    assert_eq!((&job["result"], &job["result_url"]), (&Value::Null, &Value::Null));
}

#[tokio::test]
async fn a_job_that_is_not_there_is_unknown_in_every_question_about_it() {
    let api = Api::start().await;
    for rest in ["", "?wait=60", "/result", "/attempts", "/logs"] {
        api.get(&format!("/v1/jobs/7{rest}")).await.is_problem(404, "job.unknown");
        for bad in ["x", "1.5", "%20", "99999999999999999999", "1%00", "%3Cb%3E"] {
            api.get(&format!("/v1/jobs/{bad}{rest}")).await.names_parameter("id");
        }
    }
    api.post("/v1/jobs/7/cancel", json!({})).await.is_problem(404, "job.unknown");
    for bad in ["61", "-1", "x", "1.5", ""] {
        api.get(&format!("/v1/jobs/7?wait={bad}")).await.names_parameter("wait");
    }
}

#[tokio::test]
async fn a_waiting_request_is_answered_when_the_job_ends_or_when_its_time_is_over() {
    let api = Api::start().await;
    api.kind("k").await;
    let id = api.job("k").await;
    let asked = Instant::now();
    let job = api.get(&format!("/v1/jobs/{id}?wait=1")).await.is(200);
    assert_eq!(job["state"], "available");
    assert!(asked.elapsed() >= Duration::from_secs(1));
    let runner = api.runner().await;
    let claimed = runner.claim(1).await;
    let path = format!("/v1/jobs/{id}?wait=60");
    let asked = Instant::now();
    let (answer, ()) = tokio::join!(api.get(&path), runner.complete(&claimed[0], None));
    assert_eq!(answer.is(200)["state"], "completed");
    assert!(asked.elapsed() < Duration::from_secs(30), "{:?}", asked.elapsed());
}

#[tokio::test]
async fn waiting_requests_hold_no_connection() {
    let api = Api::start().await;
    api.kind("k").await;
    let id = api.job("k").await;
    // Far more of them than the pool has connections.
    let path = format!("/v1/jobs/{id}?wait=60");
    let waiting = futures::future::join_all((0..100).map(|_| api.get(&path)));
    let others = async {
        let claimed = api.runner().await.claim(1).await;
        assert_eq!(claimed.len(), 1);
        assert_eq!(api.get("/v1/jobs").await.status, 200);
        api.sql(
            "with back as (delete from stokehold.claims)
             insert into stokehold.ready (kind_id, priority, position, job_id)
             select kind_id, priority, position, id from stokehold.jobs",
        )
        .await;
        api.post(&format!("/v1/jobs/{id}/cancel"), json!({})).await.is(200);
    };
    let (answers, ()) = tokio::join!(waiting, others);
    let states: HashSet<String> =
        answers.iter().map(|answer| answer.is(200)["state"].to_string()).collect();
    assert_eq!(states, HashSet::from(["\"cancelled\"".to_owned()]));
}

#[tokio::test]
async fn a_job_that_waits_is_cancelled_and_one_that_runs_is_asked_to_stop() {
    let api = Api::start().await;
    api.kind("k").await;
    let id = api.job("k").await;
    let path = format!("/v1/jobs/{id}/cancel");
    let odd = api.post(&path, json!({ "reson": "x" })).await;
    odd.points_at(422, "request.invalid", "/reson");
    let plain = api.call(Method::POST, &path, Some("text/plain"), "no").await;
    plain.is_problem(415, "request.media-type");
    let hostile = json!({ "reason": "no\0more \u{1b}[31m" });
    let done = api.post(&path, hostile).await.is(200);
    assert_eq!(done, json!({ "id": id.to_string(), "state": "cancelled" }));
    let job = api.get(&format!("/v1/jobs/{id}")).await.is(200);
    assert_eq!((&job["state"], &job["outcome"]), (&json!("cancelled"), &json!("cancelled")));
    assert_eq!(job["problem"]["message"], "no\u{fffd}more \u{fffd}[31m");
    api.post(&path, json!({})).await.is_problem(409, "job.ended");

    let id = api.job("k").await;
    let path = format!("/v1/jobs/{id}/cancel");
    let runner = api.runner().await;
    let claimed = runner.claim(1).await;
    for _ in 0..2 {
        let asked = api.post(&path, json!({})).await.is(202);
        assert_eq!(asked, json!({ "id": id.to_string(), "state": "running" }));
    }
    runner.complete(&claimed[0], None).await;
    api.post(&path, json!({})).await.is_problem(409, "job.ended");
    assert_eq!(api.get(&format!("/v1/jobs/{id}")).await.is(200)["state"], "completed");
    // Without a body, too.
    let id = api.job("k").await;
    let path = format!("/v1/jobs/{id}/cancel");
    api.call(Method::POST, &path, None, Body::empty()).await.is(200);
}

#[tokio::test]
async fn what_sql_enqueued_as_json_and_is_not_is_shown_as_bytes() {
    let api = Api::start().await;
    api.kind("k").await;
    api.sql("select stokehold.enqueue_bytes('k', '\\xff00', 'application/json')").await;
    api.sql("select stokehold.enqueue('k', '{\"a\": 1}')").await;
    let list = api.get("/v1/jobs").await.is(200);
    let path = |n: usize| format!("/v1/jobs/{}", list["items"][n]["id"].as_str().unwrap());
    assert_eq!(api.get(&path(1)).await.is(200)["payload"]["base64"], "/wA=");
    assert_eq!(api.get(&path(0)).await.is(200)["payload"]["json"], json!({ "a": 1 }));
}

#[tokio::test]
async fn runners_are_listed_with_what_they_hold() {
    let api = Api::start().await;
    assert_eq!(api.get("/v1/runners").await.is(200), json!({ "items": [] }));
    api.kind("k").await;
    api.job("k").await;
    let runner = api.runner().await;
    runner.claim(1).await;
    let list = api.get("/v1/runners").await.is(200);
    let listed = &list["items"][0];
    assert_eq!(listed["id"], runner.id.to_string());
    assert_eq!((&listed["state"], &listed["running"]), (&json!("live"), &json!(1)));
    assert_eq!((&listed["queues"], &listed["slots"]), (&Value::Null, &json!(10)));
}

#[tokio::test]
async fn a_runner_is_told_to_stop_by_its_id_or_its_name() {
    let api = Api::start().await;
    let (first, second) = (api.runner().await, api.runner().await);
    let told = api.post(&format!("/v1/runners/{}/drain", first.id), json!({})).await.is(202);
    assert_eq!(told, json!({ "ids": [first.id.to_string()] }));
    let runners = api.get("/v1/runners").await.is(200);
    let draining: Vec<&Value> =
        runners["items"].as_array().unwrap().iter().map(|runner| &runner["draining"]).collect();
    assert_eq!(draining, [&json!(false), &json!(true)]);
    // Both have the name; again is as good as once.
    let told = api.post("/v1/runners/test/drain", json!({})).await.is(202);
    assert_eq!(told["ids"].as_array().unwrap().len(), 2);
    api.database.stop_runner(second.id).await.unwrap();
    let path = format!("/v1/runners/{}/drain", second.id);
    api.post(&path, json!({})).await.is_problem(404, "runner.unknown");
    api.post(&format!("/v1/runners/{}/drain", "x".repeat(201)), json!({}))
        .await
        .is_problem(400, "request.parameter");
}
