//! Pausing: nothing of what is paused is claimed, jobs stay where they are, and who is paused follows from
//! queue, kind and time.

use std::time::Duration;

use chrono::{TimeDelta, Utc};
use stokehold_domain::{JobState, KindId};
use stokehold_queue::{
    ClaimNumber, Claimant, Hint, Horizon, KindPolicy, PauseEnd, QueueError, RefusalCode, Scope,
    WakeListener,
};

use crate::support::{PATIENCE, Queue, lane, next_claim, refusal};

fn queue_named(name: &str) -> Scope {
    Scope::Queue(name.to_owned())
}

fn kind_named(name: &str) -> Scope {
    Scope::Kind(name.to_owned())
}

impl Queue {
    async fn pause(&self, scope: Scope) {
        self.database.pause(&scope, PauseEnd::Never, None).await.unwrap();
    }

    async fn paused(&self, kind: &str) -> bool {
        self.database.kind(kind).await.unwrap().unwrap().paused
    }

    /// What the tick says: the lanes to claim from, and the kinds that are paused.
    async fn seen(&self) -> (Vec<KindId>, Vec<KindId>) {
        let tick = self.database.tick(&mut Horizon::default(), None).await.unwrap();
        (tick.lanes.iter().map(|lane| lane.lane.kind_id).collect(), tick.paused)
    }
}

#[tokio::test]
async fn nothing_of_a_paused_kind_is_claimed_and_its_jobs_stay_where_they_are() {
    let queue = Queue::new().await;
    let (mail, other) = (queue.kind("mail").await, queue.kind("other").await);
    let runner = queue.runner().await;
    let ids = queue.jobs("mail", 3).await;
    queue.job("other").await;
    let running = queue.claim(runner, mail, 1).await.remove(0);
    queue.pause(kind_named("mail")).await;
    let before = queue.everything().await;
    assert!(queue.claim(runner, mail, 5).await.is_empty());
    // Neither alone nor with an outcome, one lane or several.
    for lanes in [vec![lane(mail, 1)], vec![lane(mail, 2)], vec![lane(mail, 1), lane(mail, 1)]] {
        let turn = queue.database.turn(runner, &[], &next_claim(), &lanes).await.unwrap();
        assert!(turn.claimed.is_empty(), "{lanes:?}");
    }
    assert_eq!(queue.everything().await, before);
    assert_eq!(queue.state(running.id).await, JobState::Running);
    assert_eq!(queue.seen().await, (vec![other], vec![mail]));
    assert_eq!(queue.claim(runner, other, 5).await.len(), 1);
    assert!(queue.database.resume(&kind_named("mail")).await.unwrap());
    assert_eq!(queue.seen().await, (vec![mail], vec![]));
    let claimed = queue.claim(runner, mail, 5).await;
    assert_eq!(claimed.iter().map(|job| job.id).collect::<Vec<_>>(), ids[1..]);
}

#[tokio::test]
async fn a_queue_is_paused_for_all_its_kinds_those_to_come_included() {
    let queue = Queue::new().await;
    queue.kind("one").await;
    queue.pause(queue_named("media")).await;
    assert!(!queue.paused("one").await, "it is of another queue");
    let of = |name: &str| KindPolicy { queue: name.to_owned(), ..KindPolicy::default() };
    let (two, _) = queue.database.put_kind("two", &of("media")).await.unwrap();
    assert!(two.paused && queue.paused("two").await, "a kind that came later");
    let (one, _) = queue.database.put_kind("one", &of("media")).await.unwrap();
    assert!(one.paused, "a kind that moved there");
    let (one, _) = queue.database.put_kind("one", &of("default")).await.unwrap();
    assert!(!one.paused, "and away");
    // Each pause stands by itself.
    queue.pause(kind_named("two")).await;
    queue.pause(Scope::All).await;
    assert!(queue.paused("one").await);
    assert!(queue.database.resume(&Scope::All).await.unwrap());
    assert!(!queue.database.resume(&Scope::All).await.unwrap(), "idempotent");
    assert!(!queue.paused("one").await && queue.paused("two").await);
    assert!(queue.database.resume(&queue_named("media")).await.unwrap());
    assert!(queue.paused("two").await, "it is paused itself");
    assert!(queue.database.resume(&kind_named("two")).await.unwrap());
    assert!(!queue.paused("two").await);
    let rows: i64 = queue.value("select count(*) from stokehold.pauses").await;
    assert_eq!(rows, 0);
}

#[tokio::test]
async fn a_pause_ends_by_itself_and_the_last_word_counts() {
    let queue = Queue::new().await;
    let kind = queue.kind("mail").await;
    let runner = queue.runner().await;
    queue.job("mail").await;
    let scope = kind_named("mail");
    let hour = PauseEnd::After(Duration::from_secs(3600));
    queue.database.pause(&scope, hour, Some("the provider is down\0")).await.unwrap();
    let pause = queue.database.pauses().await.unwrap().remove(0);
    assert_eq!(pause.reason.as_deref(), Some("the provider is down\u{fffd}"));
    let left: f64 = queue
        .value("select extract(epoch from until - clock_timestamp())::float8 from stokehold.pauses")
        .await;
    assert!((3500.0..=3600.0).contains(&left), "{left}");
    let moment = PauseEnd::After(Duration::from_millis(300));
    queue.database.pause(&scope, moment, None).await.unwrap();
    let again = queue.database.pauses().await.unwrap().remove(0);
    assert_eq!((again.paused_at, again.reason), (pause.paused_at, None));
    assert!(queue.claim(runner, kind, 1).await.is_empty());
    queue.until("select until < clock_timestamp() from stokehold.pauses").await;
    assert!(!queue.paused("mail").await && queue.database.pauses().await.unwrap().is_empty());
    assert_eq!(queue.seen().await, (vec![kind], vec![]));
    assert_eq!(queue.claim(runner, kind, 1).await.len(), 1);
    // It is over: nothing was paused any more.
    assert!(!queue.database.resume(&scope).await.unwrap());
    // At a time, and without an end.
    let at = Utc::now() + TimeDelta::days(1);
    queue.database.pause(&scope, PauseEnd::At(at), None).await.unwrap();
    let until = queue.database.pauses().await.unwrap()[0].until.unwrap();
    assert!((until - at).abs() < TimeDelta::milliseconds(1));
    queue.database.pause(&scope, PauseEnd::Never, None).await.unwrap();
    assert_eq!(queue.database.pauses().await.unwrap()[0].until, None);
    let longest = PauseEnd::After(Duration::MAX);
    queue.database.pause(&scope, longest, None).await.unwrap();
    assert!(queue.database.pauses().await.unwrap()[0].until.is_some());
}

#[tokio::test]
async fn pauses_that_make_no_sense_are_refused_in_words() {
    let queue = Queue::new().await;
    queue.kind("mail").await;
    let pause = async |scope: Scope, end| -> Result<(), QueueError> {
        queue.database.pause(&scope, end, None).await
    };
    let (code, message) = refusal(pause(kind_named("mial"), PauseEnd::Never).await);
    assert_eq!((code, message.as_str()), (RefusalCode::UnknownKind, "there is no kind 'mial'"));
    let past = PauseEnd::At(Utc::now() - TimeDelta::hours(1));
    let (code, message) = refusal(pause(kind_named("mail"), past).await);
    assert_eq!(code, RefusalCode::Invalid);
    assert!(message.starts_with("the pause would be over"), "{message}");
    let (code, _) = refusal(pause(queue_named("../etc"), PauseEnd::Never).await);
    assert_eq!(code, RefusalCode::Invalid);
    let (code, message) = queue.refused("select stokehold.pause('namespace', 'a')").await;
    assert_eq!(code, "SH422", "{message}");
    assert!(queue.database.pauses().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_pause_and_a_kind_that_is_made_at_the_same_time_do_not_miss_each_other() {
    let queue = Queue::new().await;
    let mut maker = queue.pool.begin().await.unwrap();
    sqlx::query("insert into stokehold.kinds (name, queue) values ('late', 'media')")
        .execute(&mut *maker)
        .await
        .unwrap();
    let database = queue.database.clone();
    let pausing = tokio::spawn(async move {
        database.pause(&queue_named("media"), PauseEnd::Never, None).await.unwrap();
    });
    queue.until_blocked(1).await;
    maker.commit().await.unwrap();
    pausing.await.unwrap();
    assert!(queue.paused("late").await, "the kind was committed while the pause waited");
    // The other way round.
    let mut pauser = queue.pool.begin().await.unwrap();
    sqlx::query("select stokehold.pause('queue', 'audio')").execute(&mut *pauser).await.unwrap();
    let database = queue.database.clone();
    let policy = KindPolicy { queue: "audio".to_owned(), ..KindPolicy::default() };
    let making = tokio::spawn(async move { database.put_kind("later", &policy).await.unwrap() });
    queue.until_blocked(1).await;
    pauser.commit().await.unwrap();
    assert!(making.await.unwrap().0.paused);
}

#[tokio::test]
async fn nodes_that_wait_are_told_of_pauses_and_of_their_end() {
    let queue = Queue::new().await;
    queue.kind("mail").await;
    let mut listener = WakeListener::connect(&queue.database).await.unwrap();
    for resumes in [false, true] {
        match resumes {
            false => queue.pause(kind_named("mail")).await,
            true => assert!(queue.database.resume(&kind_named("mail")).await.unwrap()),
        }
        let hint = tokio::time::timeout(PATIENCE, listener.heard()).await.unwrap().unwrap();
        assert_eq!(hint, Hint::Look);
    }
}

#[tokio::test]
async fn a_pause_holds_for_runners_that_serve_its_queue_only_too() {
    let queue = Queue::new().await;
    let kind = queue.kind("mail").await;
    let runner = queue.runner().await;
    queue.job("mail").await;
    queue.pause(Scope::All).await;
    let queues = ["default".to_owned()];
    let claimant = Claimant { runner, queues: Some(&queues) };
    let claim = ClaimNumber { ..next_claim() };
    assert!(queue.database.claim(claimant, &claim, &[lane(kind, 1)]).await.unwrap().is_empty());
}
