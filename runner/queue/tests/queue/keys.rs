//! API keys: found by their whole text only, and stored without it.

use stokehold_queue::{Database, RefusalCode};
use tokio::task::JoinSet;

use crate::support::{Queue, refusal};

/// The secret part of a key's text.
fn secret(text: &str) -> &str {
    text.rsplit('_').next().unwrap()
}

#[tokio::test]
async fn the_secret_of_a_key_is_nowhere_in_the_database() {
    let queue = Queue::new().await;
    let made = queue.database.create_key("deploy").await.unwrap();
    let adopted = Database::new_key_text();
    queue.database.adopt_key("file", &adopted).await.unwrap();
    let dump: String =
        queue.value("select string_agg(k::text, ' ') from stokehold.api_keys k").await;
    for text in [&made.text, &adopted] {
        let secret = secret(text);
        assert_eq!(secret.len(), 52);
        assert!(dump.contains(&text[4..14]));
        assert!(!dump.contains(secret));
        let hex: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
        assert!(!dump.contains(&hex));
    }
    assert!(!format!("{made:?}").contains(secret(&made.text)));
}

#[tokio::test]
async fn a_key_is_found_by_its_whole_text_and_by_nothing_less() {
    let queue = Queue::new().await;
    let made = queue.database.create_key("deploy").await.unwrap();
    let other = queue.database.create_key("other").await.unwrap();
    let found = queue.database.find_key(&made.text).await.unwrap().unwrap();
    assert_eq!((found.id, found.name.as_str()), (made.key.id, "deploy"));
    let (prefix, text) = (&made.key.prefix, &made.text);
    let flipped = if text.ends_with('a') { "b" } else { "a" };
    for wrong in [
        "".to_owned(),
        "sth__".to_owned(),
        prefix.clone(),
        format!("sth_{prefix}_"),
        format!("sth_{prefix}_{}", secret(&other.text)),
        format!("sth_{}_{}", other.key.prefix, secret(text)),
        format!("sth_zzzzzzzzzz_{}", secret(text)),
        format!("{}{flipped}", &text[..text.len() - 1]),
        text[..text.len() - 1].to_owned(),
        format!("{text}a"),
        format!(" {text}"),
        text.to_uppercase(),
        format!("sth_{}\0_{}", &prefix[..9], secret(text)),
        format!("sth_%%%%%%%%%%_{}", secret(text)),
    ] {
        assert!(queue.database.find_key(&wrong).await.unwrap().is_none(), "{wrong:?}");
    }
}

#[tokio::test]
async fn a_revoked_key_is_none_and_cannot_be_adopted_again() {
    let queue = Queue::new().await;
    let made = queue.database.create_key("deploy").await.unwrap();
    queue.run("update stokehold.api_keys set revoked_at = clock_timestamp()").await;
    assert!(queue.database.find_key(&made.text).await.unwrap().is_none());
    let (code, message) = refusal(queue.database.adopt_key("deploy", &made.text).await);
    assert_eq!(code, RefusalCode::Conflict, "{message}");
    assert!(queue.database.find_key(&made.text).await.unwrap().is_none());
}

#[tokio::test]
async fn adopting_a_key_again_or_from_many_processes_stores_it_once() {
    let queue = Queue::new().await;
    let text = Database::new_key_text();
    let mut processes = JoinSet::new();
    for _ in 0..8 {
        let (database, text) = (queue.database.clone(), text.clone());
        processes.spawn(async move { database.adopt_key("file", &text).await.unwrap() });
    }
    processes.join_all().await;
    queue.database.adopt_key("file", &text).await.unwrap();
    assert_eq!(queue.value::<i64>("select count(*) from stokehold.api_keys").await, 1);
    assert_eq!(queue.database.find_key(&text).await.unwrap().unwrap().name, "file");
}

#[tokio::test]
async fn what_has_not_the_form_of_a_key_or_a_name_is_refused() {
    let queue = Queue::new().await;
    let text = Database::new_key_text();
    let wrong = [
        "".to_owned(),
        "sth_short_secret".to_owned(),
        text.to_uppercase(),
        format!("sth_ABCDEFGHIJ_{}", secret(&text)),
        format!("sth_abc'e\\ghi{}_{}", '\0', secret(&text)),
    ];
    for wrong in wrong {
        let (code, _) = refusal(queue.database.adopt_key("file", &wrong).await);
        assert_eq!(code, RefusalCode::Invalid, "{wrong:?}");
    }
    // A taken prefix with another secret is another key.
    let other = format!("{}{}", &text[..15], secret(&Database::new_key_text()));
    queue.database.adopt_key("file", &text).await.unwrap();
    let (code, _) = refusal(queue.database.adopt_key("file", &other).await);
    assert_eq!(code, RefusalCode::Conflict);
    for name in ["", "A", "a b", "a\0"] {
        let (code, _) = refusal(queue.database.create_key(name).await);
        assert_eq!(code, RefusalCode::Invalid, "{name:?}");
    }
    assert_eq!(queue.value::<i64>("select count(*) from stokehold.api_keys").await, 1);
}
