//! Modules, kinds and the releases between them.

use serde_json::json;
use stokehold_domain::{Backoff, Digest, Limits, RetryPolicy};
use stokehold_queue::{KindPolicy, NewModule, RefusalCode};
use tokio::task::JoinSet;

use crate::support::{Queue, refusal};

#[tokio::test]
async fn a_module_is_stored_once_and_never_changes() {
    let queue = Queue::new().await;
    let digest = Digest([7; 32]);
    let bytes: Vec<u8> = (0..=255).cycle().take(3 << 20).collect();
    let first = NewModule { digest, bytes: &bytes, report: &json!({ "n": 1 }) };
    assert!(queue.database.put_module(first).await.unwrap());
    let again = NewModule { digest, bytes: b"other", report: &json!({ "n": 2 }) };
    assert!(!queue.database.put_module(again).await.unwrap());
    assert_eq!(queue.database.module_bytes(digest).await.unwrap(), Some(bytes));
    let record = queue.database.module(digest).await.unwrap().unwrap();
    assert_eq!((record.size_bytes, record.releases), (3 << 20, 0));
    assert_eq!(record.report, json!({ "n": 1 }));
    assert!(queue.database.module(Digest([8; 32])).await.unwrap().is_none());
    assert!(queue.database.module_bytes(Digest([8; 32])).await.unwrap().is_none());
}

#[tokio::test]
async fn putting_a_kind_again_changes_its_policy_and_nothing_else() {
    let queue = Queue::new().await;
    let kind = queue.kind("mail").await;
    let policy = KindPolicy {
        queue: "slow".to_owned(),
        priority: -1000,
        retry: RetryPolicy {
            max_attempts: 1000,
            backoff: Backoff { base_ms: 0, cap_ms: 5, ..Backoff::default() },
        },
        ..KindPolicy::default()
    };
    let (changed, is_new) = queue.database.put_kind("mail", &policy).await.unwrap();
    assert!(!is_new);
    assert_eq!((changed.id, changed.active_release), (kind, Some(1)));
    let stored = queue.database.kind("mail").await.unwrap().unwrap();
    assert_eq!((stored.id, stored.policy, stored.active_release), (kind, policy.clone(), Some(1)));
    assert!(queue.database.put_kind("other", &policy).await.unwrap().1);
    let ensured = queue.database.ensure_kind("mail").await.unwrap();
    assert_eq!((ensured.id, ensured.policy), (kind, policy));
}

#[tokio::test]
async fn a_kind_that_cannot_be_is_refused() {
    let queue = Queue::new().await;
    let retry = |max_attempts| KindPolicy {
        retry: RetryPolicy { max_attempts, ..RetryPolicy::default() },
        ..KindPolicy::default()
    };
    let priority = |priority| KindPolicy { priority, ..KindPolicy::default() };
    let in_queue = |name: &str| KindPolicy { queue: name.to_owned(), ..KindPolicy::default() };
    for (name, policy) in [
        ("", KindPolicy::default()),
        ("a/b", KindPolicy::default()),
        ("a\0", KindPolicy::default()),
        ("mail", in_queue("No")),
        ("mail", in_queue("a\0")),
        ("mail", retry(0)),
        ("mail", retry(1001)),
        ("mail", retry(u16::MAX)),
        ("mail", priority(1001)),
        ("mail", priority(-1001)),
    ] {
        let (code, message) = refusal(queue.database.put_kind(name, &policy).await);
        assert_eq!(code, RefusalCode::Invalid, "{message}");
    }
    assert!(queue.database.kinds().await.unwrap().is_empty());
    assert!(queue.database.kind("a'b").await.unwrap().is_none());
}

#[tokio::test]
async fn releases_made_at_once_have_numbers_without_gaps_or_twins() {
    let queue = Queue::new().await;
    queue.database.ensure_kind("mail").await.unwrap();
    let digest = queue.module(1).await;
    let mut makers = JoinSet::new();
    for _ in 0..10 {
        let database = queue.database.clone();
        makers.spawn(async move {
            let made = database.create_release("mail", digest, &Limits::DEFAULT, true);
            made.await.unwrap().number
        });
    }
    let mut numbers = makers.join_all().await;
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=10).collect::<Vec<_>>());
    let listed = queue.database.releases("mail").await.unwrap();
    assert_eq!(listed.iter().map(|release| release.number).collect::<Vec<_>>(), {
        numbers.reverse();
        numbers
    });
    let active = queue.database.kind("mail").await.unwrap().unwrap().active_release;
    assert_eq!(active, Some(10));
}

#[tokio::test]
async fn a_release_is_activated_forwards_and_backwards_and_only_if_it_exists() {
    let queue = Queue::new().await;
    let kind = queue.kind("mail").await;
    let digest = queue.module(2).await;
    let limits = Limits { fuel: 5, ..Limits::DEFAULT };
    let second = queue.database.create_release("mail", digest, &limits, false).await.unwrap();
    assert_eq!(second.number, 2);
    let active = async || queue.database.kind("mail").await.unwrap().unwrap().active_release;
    assert_eq!(active().await, Some(1));
    queue.database.activate_release("mail", 2).await.unwrap();
    assert_eq!(active().await, Some(2));
    queue.database.activate_release("mail", 1).await.unwrap();
    for number in [0, -1, 3, i32::MAX] {
        let (code, message) = refusal(queue.database.activate_release("mail", number).await);
        assert_eq!(code, RefusalCode::NotFound);
        assert!(message.contains(&number.to_string()), "{message}");
    }
    let (code, _) = refusal(queue.database.activate_release("nail", 1).await);
    assert_eq!(code, RefusalCode::UnknownKind);
    assert_eq!(active().await, Some(1));
    let runnable = queue.database.runnable_release(kind, 2).await.unwrap().unwrap();
    assert_eq!((runnable.digest, runnable.limits), (digest, limits));
    assert!(queue.database.runnable_release(kind, 3).await.unwrap().is_none());
}

#[tokio::test]
async fn a_release_of_nothing_or_with_limits_over_the_ceiling_is_refused_and_leaves_no_gap() {
    let queue = Queue::new().await;
    queue.database.ensure_kind("mail").await.unwrap();
    let (digest, unknown) = (queue.module(1).await, Digest([9; 32]));
    let (fine, ceiling) = (Limits::DEFAULT, Limits::CEILING);
    let too_much = [
        Limits { fuel: ceiling.fuel + 1, ..fine },
        Limits { timeout_ms: ceiling.timeout_ms + 1, ..fine },
        Limits { memory_bytes: ceiling.memory_bytes + 1, ..fine },
        Limits { result_bytes: ceiling.result_bytes + 1, ..fine },
        Limits { log_bytes: ceiling.log_bytes + 1, ..fine },
        Limits { host_calls: ceiling.host_calls + 1, ..fine },
        Limits { fuel: 0, ..fine },
    ];
    for limits in too_much {
        let made = queue.database.create_release("mail", digest, &limits, true).await;
        assert_eq!(refusal(made).0, RefusalCode::Invalid);
    }
    let made = queue.database.create_release("mail", unknown, &fine, true).await;
    let (code, message) = refusal(made);
    assert_eq!(code, RefusalCode::NotFound);
    assert!(message.contains(&unknown.to_string()), "{message}");
    let made = queue.database.create_release("nail", digest, &fine, true).await;
    assert_eq!(refusal(made).0, RefusalCode::UnknownKind);
    assert!(queue.database.releases("mail").await.unwrap().is_empty());
    assert_eq!(refusal(queue.database.releases("nail").await).0, RefusalCode::UnknownKind);
    let made = queue.database.create_release("mail", digest, &ceiling, true).await.unwrap();
    assert_eq!(made.number, 1);
    assert_eq!(queue.database.releases("mail").await.unwrap()[0].limits, ceiling);
}

#[tokio::test]
async fn pruning_spares_modules_that_are_used_or_young() {
    let queue = Queue::new().await;
    queue.kind("mail").await;
    let (used, old, young) = (Digest([1; 32]), queue.module(2).await, queue.module(3).await);
    queue
        .run("update stokehold.modules set created_at = created_at - interval '2 hours' where bytes <> '\\x03'")
        .await;
    assert_eq!(queue.database.prune_modules(3600.0, true).await.unwrap(), [old]);
    assert_eq!(queue.database.modules().await.unwrap().len(), 3);
    assert_eq!(queue.database.prune_modules(3600.0, false).await.unwrap(), [old]);
    assert!(queue.database.prune_modules(3600.0, false).await.unwrap().is_empty());
    let mut left: Vec<Digest> =
        queue.database.modules().await.unwrap().iter().map(|module| module.digest).collect();
    left.sort_unstable();
    assert_eq!(left, [used, young]);
}

#[tokio::test]
async fn a_module_is_not_pruned_from_under_a_release_that_is_being_made() {
    let queue = Queue::new().await;
    queue.database.ensure_kind("mail").await.unwrap();
    let digest = queue.module(1).await;
    for _ in 0..20 {
        queue.module(1).await;
        queue.run("update stokehold.modules set created_at = created_at - interval '1 day'").await;
        let (made, pruned) = tokio::join!(
            queue.database.create_release("mail", digest, &Limits::DEFAULT, false),
            queue.database.prune_modules(3600.0, false)
        );
        match made {
            // Either the release is there and its module too, or neither.
            Ok(_) => {
                match pruned {
                    Ok(pruned) => assert!(pruned.is_empty()),
                    Err(error) => assert!(error.is_temporary(), "{error:?}"),
                }
                assert!(queue.database.module_bytes(digest).await.unwrap().is_some());
                queue.run("delete from stokehold.releases").await;
            }
            Err(error) => {
                assert_eq!(refusal::<()>(Err(error)).0, RefusalCode::NotFound);
                assert_eq!(pruned.unwrap(), [digest]);
            }
        }
    }
}
