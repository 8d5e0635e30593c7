//! Days of history: made ahead, dropped when old, never in the way of a completion.

use stokehold_domain::JobId;
use stokehold_queue::Fate;
use tokio::task::JoinSet;

use crate::support::{Queue, completed, next_claim};

/// The partitions of a parent by name, the default one left out.
async fn days(queue: &Queue, parent: &str) -> Vec<String> {
    queue
        .value(format!(
            "select coalesce(array_agg(c.relname::text order by c.relname), '{{}}')
             from pg_inherits i join pg_class c on c.oid = i.inhrelid
             where i.inhparent = 'stokehold.{parent}'::regclass and c.relname !~ 'default$'"
        ))
        .await
}

/// The names of the days from `first` to `last`, counted from today.
async fn names(queue: &Queue, parent: &str, first: i32, last: i32) -> Vec<String> {
    queue
        .value(format!(
            "select array_agg('{parent}_' || to_char((clock_timestamp() at time zone 'UTC')::date + n, 'YYYYMMDD') order by n)
             from generate_series({first}, {last}) n"
        ))
        .await
}

async fn partition_of(queue: &Queue, id: JobId) -> String {
    queue
        .value(format!(
            "select c.relname::text from stokehold.job_history h join pg_class c on c.oid = h.tableoid
             where h.id = {id}"
        ))
        .await
}

/// Ends a job; history has it then.
async fn end_a_job(queue: &Queue) -> JobId {
    let kind = queue.database.kind("work").await.unwrap().unwrap().id;
    let runner = queue.runner().await;
    let id = queue.job("work").await;
    let claimed = queue.claim_one(runner, kind).await;
    assert_eq!(queue.settle(runner, completed(&claimed)).await, Fate::Applied);
    id
}

async fn drop_today(queue: &Queue) {
    for parent in ["job_history", "job_attempts", "job_logs"] {
        let today = &names(queue, parent, 0, 0).await[0];
        queue.run(format!("drop table stokehold.{today}")).await;
    }
}

#[tokio::test]
async fn days_are_made_ahead_from_yesterday_on() {
    let queue = Queue::new().await;
    for parent in ["job_history", "job_attempts", "job_logs"] {
        assert_eq!(days(&queue, parent).await, names(&queue, parent, -1, 3).await);
    }
    assert_eq!(queue.database.keep_partitions().await.unwrap(), (0, 0));
    drop_today(&queue).await;
    assert_eq!(queue.database.keep_partitions().await.unwrap(), (3, 0));
    let made: i32 = queue.value("select made from stokehold.keep_partitions(5)").await;
    assert_eq!(made, 6);
}

#[tokio::test]
async fn days_are_utc_whatever_the_session_thinks() {
    let queue = Queue::new().await;
    queue.kind("work").await;
    for zone in ["Pacific/Kiritimati", "Pacific/Pago_Pago"] {
        drop_today(&queue).await;
        let made = format!("set timezone = '{zone}'; select stokehold.keep_partitions()");
        queue.run(made).await;
        let id = end_a_job(&queue).await;
        let today = &names(&queue, "job_history", 0, 0).await[0];
        assert_eq!(&partition_of(&queue, id).await, today);
    }
}

#[tokio::test]
async fn days_over_the_age_kept_are_dropped_and_no_other() {
    let queue = Queue::new().await;
    for days_ago in [13, 14, 15, 400] {
        queue
            .run(format!(
                "do $$ declare day date := (clock_timestamp() at time zone 'UTC')::date - {days_ago}; begin
                   execute format('create table stokehold.%I partition of stokehold.job_history
                     for values from (%L) to (%L)', 'job_history_' || to_char(day, 'YYYYMMDD'),
                     day || ' 00:00Z', (day + 1) || ' 00:00Z');
                 end $$"
            ))
            .await;
    }
    assert_eq!(queue.database.keep_partitions().await.unwrap(), (0, 2));
    let kept = days(&queue, "job_history").await;
    assert_eq!(kept[..2], names(&queue, "job_history", -14, -13).await);
    queue.run("update stokehold.settings set history_days = 1").await;
    assert_eq!(queue.database.keep_partitions().await.unwrap(), (0, 2));
    assert_eq!(days(&queue, "job_history").await, names(&queue, "job_history", -1, 3).await);
}

#[tokio::test]
async fn a_completion_needs_no_partition_for_its_day_and_moves_there_when_it_is_made() {
    let queue = Queue::new().await;
    queue.kind("work").await;
    drop_today(&queue).await;
    let id = end_a_job(&queue).await;
    assert_eq!(partition_of(&queue, id).await, "job_history_default");
    let before = queue.ended(id).await.unwrap();
    assert_eq!(queue.database.keep_partitions().await.unwrap(), (3, 0));
    let today = &names(&queue, "job_history", 0, 0).await[0];
    assert_eq!(&partition_of(&queue, id).await, today);
    assert_eq!(queue.ended(id).await.unwrap(), before);
    let next = end_a_job(&queue).await;
    assert_eq!(&partition_of(&queue, next).await, today);
}

#[tokio::test]
async fn nodes_that_keep_partitions_at_once_do_not_hurt_each_other() {
    let queue = Queue::new().await;
    queue.kind("work").await;
    for _ in 0..5 {
        drop_today(&queue).await;
        end_a_job(&queue).await;
        let mut nodes = JoinSet::new();
        for _ in 0..6 {
            let database = queue.database.clone();
            nodes.spawn(async move { database.keep_partitions().await.unwrap().0 });
        }
        assert_eq!(nodes.join_all().await.iter().sum::<i32>(), 3);
        assert_eq!(days(&queue, "job_history").await, names(&queue, "job_history", -1, 3).await);
    }
}

#[tokio::test]
async fn a_missing_day_is_made_while_jobs_end_and_none_is_lost() {
    let queue = Queue::new().await;
    let kind = queue.kind("work").await;
    for _ in 0..4 {
        drop_today(&queue).await;
        let mut nodes = JoinSet::new();
        for _ in 0..3 {
            let (database, runner) = (queue.database.clone(), queue.runner().await);
            queue.jobs("work", 40).await;
            nodes.spawn(async move {
                let lanes = [crate::support::lane(kind, 1)];
                while let Some(job) =
                    database.claim(runner, &next_claim(), &lanes).await.unwrap().pop()
                {
                    let batch = [completed(&job)];
                    loop {
                        match database.settle(runner, &batch).await {
                            Ok(fates) => break assert_eq!(fates, [Fate::Applied]),
                            Err(error) => assert!(error.is_temporary(), "{error:?}"),
                        }
                    }
                }
            });
        }
        // In the midst of it.
        queue.until("select exists (select from stokehold.job_history_default)").await;
        assert_eq!(queue.database.keep_partitions().await.unwrap(), (3, 0));
        nodes.join_all().await;
        assert_eq!(queue.live_jobs().await, 0);
        let today = &names(&queue, "job_history", 0, 0).await[0];
        let ended = format!("select count(distinct id) from stokehold.{today}");
        assert_eq!(queue.value::<i64>(ended).await, 120);
        assert_eq!(queue.value::<i64>("select count(*) from stokehold.job_history").await, 120);
    }
}
