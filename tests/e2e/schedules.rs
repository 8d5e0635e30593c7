//! A real schedule, from the command line to the handler.

use crate::cli::Served;

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_of_every_second_runs_a_real_handler_and_each_time_once() {
    let served = Served::start().await;
    served.push("probe.wasm", "report");
    let set = ["schedule", "set", "often", "--kind", "report", "--cron", "* * * * * *"];
    let said = served.run(
        &[&set[..], &["--timezone", "Asia/Kathmandu", "--payload", r#"{"do":"noop"}"#]].concat(),
    );
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.out.contains("+0545"), "{}", said.out);
    // Three of its jobs have ended: they were claimed, run and settled.
    let ended = "select count(*) from stokehold.job_history job
        join stokehold.schedule_fires fire on fire.job_id = job.id where job.state = 'completed'";
    served.stage.wait_for("the end of three jobs", ended, |jobs| jobs >= 3).await;
    assert_eq!(served.run(&["schedule", "pause", "often"]).code, 0);
    let made = served.run(&["schedule", "show", "often"]);
    assert!(made.out.contains("cron"), "{}", made.out);
    let said = served.run(&["schedule", "run", "often"]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert_eq!(served.run(&["schedule", "delete", "often"]).code, 0);
    assert_eq!(served.run(&["schedule", "show", "often"]).code, 3);
}
