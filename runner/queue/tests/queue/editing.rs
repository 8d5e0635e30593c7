//! Changing jobs that wait: all of it or nothing, and never one that runs or has ended.

use std::time::Duration;

use chrono::{TimeDelta, Utc};
use serde_json::json;
use stokehold_domain::{Blob, JobId, JobState, Limits};
use stokehold_queue::{Edit, Edited, Horizon, LaneQuota, NewJob};

use crate::support::{Queue, completed, handed_back, job, lane, next_claim, refusal, retried};

impl Queue {
    async fn edit(&self, id: JobId, edit: Edit) -> Edited {
        self.database.edit(id, &edit).await.unwrap()
    }
}

fn soon() -> Option<chrono::DateTime<Utc>> {
    Some(Utc::now() + TimeDelta::hours(1))
}

#[tokio::test]
async fn a_waiting_job_is_changed_and_runs_as_changed() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    let module = queue.module(9).await;
    queue.database.create_release("work", module, &Limits::DEFAULT, false).await.unwrap();
    let [first, second] = queue.jobs("work", 2).await[..] else { unreachable!() };
    let edit = Edit {
        payload: Some(Blob { media_type: "a/b".into(), bytes: vec![0, 255] }),
        metadata: Some(json!({"by": "hand"})),
        max_attempts: Some(2),
        release: Some(2),
        ..Edit::default()
    };
    assert_eq!(queue.edit(first, edit).await, Edited::Done);
    // Nothing to change changes nothing.
    let before = queue.everything().await;
    assert_eq!(queue.edit(second, Edit::default()).await, Edited::Done);
    assert_eq!(queue.everything().await, before);
    // It kept its place.
    let claimed = queue.claim(runner, kind, 2).await;
    assert_eq!((claimed[0].id, claimed[1].id), (first, second));
    let changed = &claimed[0];
    assert_eq!(changed.payload, Blob { media_type: "a/b".into(), bytes: vec![0, 255] });
    assert_eq!(changed.metadata, Some(json!({"by": "hand"})));
    assert_eq!((changed.max_attempts, changed.release, claimed[1].release), (2, 2, 1));
}

#[tokio::test]
async fn a_job_goes_where_its_new_time_and_priority_say() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    let [one, two] = queue.jobs("work", 2).await[..] else { unreachable!() };
    // Later, and back again: at the end of the lane.
    assert_eq!(queue.edit(one, Edit { run_at: soon(), ..Edit::default() }).await, Edited::Done);
    assert_eq!(queue.state(one).await, JobState::Scheduled);
    assert_eq!(queue.value::<i64>("select count(*) from stokehold.ready").await, 1);
    let past = Some(Utc::now() - TimeDelta::days(9));
    assert_eq!(queue.edit(one, Edit { run_at: past, ..Edit::default() }).await, Edited::Done);
    let live = queue.live(one).await.unwrap();
    assert_eq!((&live["state"], &live["run_at"]), (&json!("available"), &live["enqueued_at"]));
    // Into a lane that nobody has used, behind whatever a node takes for empty.
    let mut horizon = Horizon::default();
    queue.database.tick(&mut horizon, None).await.unwrap();
    let urgent = Edit { priority: Some(-5), ..Edit::default() };
    assert_eq!(queue.edit(one, urgent.clone()).await, Edited::Done);
    let tick = queue.database.tick(&mut horizon, None).await.unwrap();
    assert_eq!(tick.lanes.iter().map(|lane| lane.lane.priority).collect::<Vec<_>>(), [-5, 0]);
    let last: i64 = queue.value("select last_value from stokehold.positions").await;
    assert_eq!(tick.lanes[0].first, Some(last));
    // A job that waits for its time takes the lane when the time comes.
    assert_eq!(queue.edit(two, Edit { run_at: soon(), ..Edit::default() }).await, Edited::Done);
    assert_eq!(queue.edit(two, urgent).await, Edited::Done);
    queue.run("update stokehold.jobs set run_at = now() where state = 'scheduled'").await;
    queue.release_due().await;
    let lanes = [LaneQuota { priority: -5, ..lane(kind, 5) }];
    let claimed = queue.database.claim(runner, &next_claim(), &lanes).await.unwrap();
    assert_eq!(claimed.iter().map(|job| job.id).collect::<Vec<_>>(), [one, two]);
}

#[tokio::test]
async fn a_job_that_is_to_be_tried_again_is_tried_at_its_new_time() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    let id = queue.job("work").await;
    let claimed = queue.claim_one(runner, kind).await;
    queue.settle(runner, retried(&claimed, Duration::from_secs(60))).await;
    assert_eq!(queue.edit(id, Edit { run_at: soon(), ..Edit::default() }).await, Edited::Done);
    assert_eq!(queue.state(id).await, JobState::Retryable);
    let few = Edit { max_attempts: Some(1), ..Edit::default() };
    let (_, message) = refusal(queue.database.edit(id, &few).await);
    assert!(message.contains("max_attempts is 1, and 1 tries are over"), "{message}");
    let now = Edit { run_at: Some(Utc::now()), max_attempts: Some(2), ..Edit::default() };
    assert_eq!(queue.edit(id, now).await, Edited::Done);
    let again = queue.claim_one(runner, kind).await;
    assert_eq!((again.attempt, again.max_attempts), (2, 2));
}

#[tokio::test]
async fn what_runs_has_ended_or_is_refused_stays_as_it_is() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    let id = queue.job("work").await;
    let urgent = Edit { priority: Some(-5), ..Edit::default() };
    let claimed = queue.claim_one(runner, kind).await;
    let before = queue.everything().await;
    assert_eq!(queue.edit(id, urgent.clone()).await, Edited::Runs);
    assert_eq!(queue.everything().await, before);
    queue.settle(runner, handed_back(&claimed)).await;
    let before = queue.everything().await;
    let release = Edit { release: Some(7), ..urgent.clone() };
    assert_eq!(queue.edit(id, release).await, Edited::NoRelease);
    let big = Blob { media_type: "a/b".into(), bytes: vec![0; (1 << 20) + 1] };
    for edit in [
        Edit { payload: Some(big), ..urgent.clone() },
        Edit { priority: Some(1001), ..Edit::default() },
        Edit { max_attempts: Some(0), ..urgent.clone() },
        Edit { metadata: Some(json!([1])), ..urgent.clone() },
    ] {
        refusal(queue.database.edit(id, &edit).await);
    }
    assert_eq!(queue.everything().await, before, "all of it or nothing");
    let claimed = queue.claim_one(runner, kind).await;
    queue.settle(runner, completed(&claimed)).await;
    assert_eq!(queue.edit(id, urgent.clone()).await, Edited::Ended(JobState::Completed));
    assert_eq!(queue.edit(JobId(999), urgent).await, Edited::Unknown);
}

#[tokio::test]
async fn a_claim_passes_a_job_that_is_being_changed_and_a_change_waits_for_a_claim() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    let runner = queue.runner().await;
    let ids = queue.jobs("work", 2).await;
    let mut editor = queue.pool.begin().await.unwrap();
    sqlx::query("select stokehold.edit_job($1, null, null, null, '\"new\"', 'application/json', null, null)")
        .bind(ids[0].0)
        .execute(&mut *editor)
        .await
        .unwrap();
    let claimed = queue.claim(runner, kind, 2).await;
    assert_eq!(claimed.iter().map(|job| job.id).collect::<Vec<_>>(), ids[1..]);
    editor.commit().await.unwrap();
    let claimed = queue.claim(runner, kind, 2).await;
    assert_eq!((claimed[0].id, &claimed[0].payload.bytes[..]), (ids[0], &b"\"new\""[..]));
    // The other way round: the claim is not committed yet when the change comes.
    let id = queue.database.enqueue(&[NewJob { ..job("work") }]).await.unwrap()[0];
    let mut claimer = queue.pool.begin().await.unwrap();
    sqlx::query("delete from stokehold.ready where job_id = $1")
        .bind(id.0)
        .execute(&mut *claimer)
        .await
        .unwrap();
    let database = queue.database.clone();
    let edit = Edit { priority: Some(3), ..Edit::default() };
    let changing = tokio::spawn(async move { database.edit(id, &edit).await.unwrap() });
    queue.until_blocked(1).await;
    claimer.commit().await.unwrap();
    assert_eq!(changing.await.unwrap(), Edited::Runs);
}
