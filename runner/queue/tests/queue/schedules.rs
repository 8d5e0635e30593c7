//! Schedules: each time is fired once, whoever comes and however late. Only the database's clock counts, so
//! times are moved in the rows.

use chrono::{DateTime, TimeDelta, Timelike, Utc};
use serde_json::json;
use stokehold_domain::Blob;
use stokehold_queue::{
    FireRecord, Horizon, Misfire, NewSchedule, Overlap, QueueError, RefusalCode,
};

use tokio::task::JoinSet;

use crate::support::{Queue, completed, refusal};

/// Each second.
const ALWAYS: &str = "* * * * * *";

fn schedule(cron: &str) -> NewSchedule {
    NewSchedule {
        kind: "report".to_owned(),
        cron: cron.to_owned(),
        timezone: "UTC".to_owned(),
        payload: Blob::json(r#"{"all":true}"#),
        priority: Some(-5),
        max_attempts: Some(3),
        metadata: Some(json!({ "team": "sales" })),
        misfire: Misfire::Once,
        misfire_window_s: 7200,
        overlap: Overlap::Allow,
    }
}

impl Queue {
    async fn put(&self, name: &str, said: &NewSchedule) {
        self.kind("report").await;
        self.database.put_schedule(name, said).await.unwrap();
    }

    /// An hourly schedule whose last three times, half an hour ago and the hours before, nobody fired.
    async fn put_late(&self, name: &str, misfire: Misfire, overlap: Overlap) -> Vec<DateTime<Utc>> {
        let now: DateTime<Utc> = self.value("select clock_timestamp()").await;
        let last =
            (now - TimeDelta::minutes(30)).with_second(0).unwrap().with_nanosecond(0).unwrap();
        let cron = format!("{} * * * *", last.minute());
        self.put(name, &NewSchedule { misfire, overlap, ..schedule(&cron) }).await;
        let first = last - TimeDelta::hours(2);
        self.due_since(name, first).await;
        (0..3).map(|hour| first + TimeDelta::hours(hour)).collect()
    }

    async fn due_since(&self, name: &str, at: DateTime<Utc>) {
        let sql = format!(
            "update stokehold.schedules set next_fire_at = '{at}', due_at = '{at}' where name = '{name}'"
        );
        assert_eq!(self.run(sql).await, 1);
    }

    /// What became of each time, earliest first.
    async fn told(&self, name: &str) -> Vec<(DateTime<Utc>, Option<String>)> {
        let mut fires = self.database.fires(name, 100).await.unwrap();
        fires.reverse();
        let told = |fire: FireRecord| {
            assert_eq!(fire.job.is_none(), fire.skipped.is_some());
            (fire.fire_at, fire.skipped)
        };
        fires.into_iter().map(told).collect()
    }
}

fn skips(told: &[(DateTime<Utc>, Option<String>)]) -> Vec<&str> {
    told.iter().map(|(_, skipped)| skipped.as_deref().unwrap_or("ran")).collect()
}

#[tokio::test]
async fn the_job_of_a_fire_is_as_the_schedule_says_and_the_tick_tells_when() {
    let queue = Queue::new().await;
    queue.put_late("nightly", Misfire::Once, Overlap::Allow).await;
    let tick = queue.database.tick(&mut Horizon::default(), None).await.unwrap();
    assert!(tick.schedules && tick.next_due.is_none());
    let fired = queue.database.fire_due_schedules().await.unwrap();
    assert_eq!((fired.jobs, fired.skipped, fired.failed.len()), (1, 2, 0));
    let jobs = queue
        .rows("select priority, max_attempts, metadata - 'fire_at' as metadata, state from stokehold.jobs")
        .await;
    let metadata = json!({ "schedule": "nightly", "team": "sales" });
    let wanted =
        json!({ "priority": -5, "max_attempts": 3, "metadata": metadata, "state": "available" });
    assert_eq!(jobs, [wanted]);
    let tick = queue.database.tick(&mut Horizon::default(), None).await.unwrap();
    assert!(!tick.schedules);
    let next = tick.next_due.unwrap().as_secs();
    assert!((28 * 60..=30 * 60).contains(&next), "{next} s");
}

#[tokio::test]
async fn what_came_late_runs_as_the_policy_says_and_nothing_later_than_the_window() {
    let queue = Queue::new().await;
    let cases = [
        (Misfire::Skip, ["missed", "missed", "missed"]),
        (Misfire::Once, ["missed", "missed", "ran"]),
        (Misfire::All, ["missed", "ran", "ran"]),
    ];
    for (misfire, wanted) in cases {
        let times = queue.put_late(misfire.as_str(), misfire, Overlap::Allow).await;
        queue.database.fire_due_schedules().await.unwrap();
        let told = queue.told(misfire.as_str()).await;
        assert_eq!(skips(&told), wanted, "{misfire:?}");
        assert!(told.iter().map(|(at, _)| *at).eq(times), "{misfire:?}");
    }
}

#[tokio::test]
async fn nodes_that_come_at_once_fire_each_time_once() {
    let queue = Queue::new().await;
    for name in ["a", "b", "c"] {
        queue.put_late(name, Misfire::All, Overlap::Allow).await;
    }
    let mut nodes = JoinSet::new();
    for _ in 0..8 {
        let node = queue.database.clone();
        nodes.spawn(async move { node.fire_due_schedules().await.unwrap().jobs });
    }
    let fired: usize = nodes.join_all().await.into_iter().sum();
    assert_eq!((fired, queue.live_jobs().await), (6, 6));
    // One that believes in another time fires nothing that has been fired.
    let times = queue.told("a").await;
    queue.due_since("a", times[0].0).await;
    assert_eq!(queue.database.fire_due_schedules().await.unwrap().jobs, 0);
    assert_eq!((queue.told("a").await, queue.live_jobs().await), (times, 6));
}

#[tokio::test]
async fn while_a_job_of_it_has_not_ended_it_is_left_out_if_it_says_so() {
    let queue = Queue::new().await;
    let times = queue.put_late("slow", Misfire::All, Overlap::Skip).await;
    queue.run("update stokehold.schedules set priority = null").await;
    queue.database.fire_due_schedules().await.unwrap();
    assert_eq!(skips(&queue.told("slow").await), ["missed", "ran", "overlap"]);
    queue.run("delete from stokehold.schedule_fires where skipped is not null").await;
    queue.due_since("slow", times[2]).await;
    queue.database.fire_due_schedules().await.unwrap();
    assert_eq!(skips(&queue.told("slow").await), ["ran", "overlap"]);
    let (kind, runner) = (queue.kind("report").await, queue.runner().await);
    let job = queue.claim_one(runner, kind).await;
    queue.settle(runner, completed(&job)).await;
    queue.run("delete from stokehold.schedule_fires where skipped is not null").await;
    queue.due_since("slow", times[2]).await;
    queue.database.fire_due_schedules().await.unwrap();
    assert_eq!(skips(&queue.told("slow").await), ["ran", "ran"]);
}

#[tokio::test]
async fn a_paused_schedule_does_not_fire_and_goes_on_from_the_next_time() {
    let queue = Queue::new().await;
    queue.put_late("report", Misfire::All, Overlap::Allow).await;
    queue.database.pause_schedule("report").await.unwrap();
    assert!(!queue.database.tick(&mut Horizon::default(), None).await.unwrap().schedules);
    assert_eq!(queue.database.fire_due_schedules().await.unwrap().jobs, 0);
    // Asked for, it runs all the same.
    let asked = queue.database.run_schedule("report").await.unwrap();
    let fires = queue.database.fires("report", 5).await.unwrap();
    assert_eq!(fires, [asked]);
    assert!(fires[0].job.is_some() && fires[0].cause == "asked");
    queue.database.resume_schedule("report").await.unwrap();
    assert_eq!(queue.database.fire_due_schedules().await.unwrap().jobs, 0);
    let schedule = queue.database.schedule("report").await.unwrap().unwrap();
    assert!(schedule.paused_at.is_none() && schedule.next_fire_at > Some(Utc::now()));
}

#[tokio::test]
async fn a_backfill_makes_up_for_what_has_no_job_and_for_nothing_else() {
    let queue = Queue::new().await;
    let times = queue.put_late("report", Misfire::Once, Overlap::Skip).await;
    queue.database.fire_due_schedules().await.unwrap();
    let range = (times[0] - TimeDelta::hours(1), times[2] + TimeDelta::minutes(1));
    let backfill = async |dry_run| {
        let fires = queue.database.backfill("report", range.0, range.1, dry_run).await.unwrap();
        fires.into_iter().map(|fire| fire.fire_at).collect::<Vec<_>>()
    };
    let wanted = [range.0, times[0], times[1]];
    assert_eq!(backfill(true).await, wanted);
    assert_eq!(skips(&queue.told("report").await), ["missed", "missed", "ran"]);
    assert_eq!(backfill(false).await, wanted);
    assert_eq!(skips(&queue.told("report").await), ["ran"; 4]);
    assert!(backfill(false).await.is_empty());
    assert_eq!(queue.live_jobs().await, 4);
    queue.put("often", &schedule(ALWAYS)).await;
    let (code, why) = refusal(queue.database.backfill("often", times[0], times[1], false).await);
    assert_eq!((code, why.as_str()), (RefusalCode::Invalid, "3600 fires, more than 1000"));
}

#[tokio::test]
async fn one_that_cannot_be_fired_says_why_and_holds_up_no_other() {
    let queue = Queue::new().await;
    let times = queue.put_late("broken", Misfire::All, Overlap::Allow).await;
    queue.run("update stokehold.schedules set timezone = 'Mars/Olympus'").await;
    queue.put_late("sound", Misfire::Once, Overlap::Allow).await;
    queue.due_since("broken", times[0] - TimeDelta::hours(1)).await;
    let fired = queue.database.fire_due_schedules().await.unwrap();
    let why = "timezone: there is no time zone 'Mars/Olympus'; write one as Europe/Berlin, or UTC";
    assert_eq!((fired.jobs, fired.failed[0].name.as_str()), (1, "broken"));
    assert_eq!(fired.failed[0].problem, why);
    let broken = queue.database.schedule("broken").await.unwrap().unwrap();
    assert_eq!(broken.problem.as_deref(), Some(why));
    // In a minute again, and not before.
    assert!(!queue.database.tick(&mut Horizon::default(), None).await.unwrap().schedules);
    // Changed, it is sound again.
    queue.put_late("broken", Misfire::All, Overlap::Allow).await;
    assert_eq!(queue.database.fire_due_schedules().await.unwrap().jobs, 2);
    assert_eq!(queue.database.schedule("broken").await.unwrap().unwrap().problem, None);
}

#[tokio::test]
async fn a_long_absence_of_a_frequent_schedule_is_made_up_for_in_bounded_steps() {
    let queue = Queue::new().await;
    queue.put("often", &NewSchedule { misfire: Misfire::Skip, ..schedule(ALWAYS) }).await;
    queue.due_since("often", Utc::now() - TimeDelta::days(30)).await;
    let fired = queue.database.fire_due_schedules().await.unwrap();
    // A thousand of the days before the window, then each of its two hours but the last minute.
    assert!((1_000 + 7_130..=1_000 + 7_150).contains(&fired.skipped), "{}", fired.skipped);
    assert!((60..=80).contains(&fired.jobs), "{}", fired.jobs);
}

#[tokio::test]
async fn what_is_wrong_is_refused_by_name() {
    let queue = Queue::new().await;
    let put = async |said: NewSchedule| refusal(queue.database.put_schedule("x", &said).await);
    let (code, why) = put(schedule("0 0 * * *")).await;
    assert_eq!((code, why.as_str()), (RefusalCode::UnknownKind, "there is no kind 'report'"));
    let (code, why) = put(schedule("0 25 * * *")).await;
    assert_eq!(code, RefusalCode::Invalid);
    assert_eq!(why, "cron: hour '25' is not within 0 to 23");
    let gone: Result<(), QueueError> = queue.database.pause_schedule("x").await;
    assert_eq!(refusal(gone).1, "there is no schedule 'x'");
    assert!(!queue.database.delete_schedule("x").await.unwrap());
}
