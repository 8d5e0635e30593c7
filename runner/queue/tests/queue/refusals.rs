//! What enqueueing refuses: the first wrong job by its number, and the whole batch with it.

use serde_json::json;
use stokehold_domain::Blob;
use stokehold_queue::{Horizon, NewJob, RefusalCode};

use crate::support::{Queue, job, refusal};

fn blob(media_type: &str) -> Blob {
    Blob { media_type: media_type.to_owned(), bytes: Vec::new() }
}

#[tokio::test]
async fn a_wrong_job_is_named_by_its_number_and_takes_the_whole_batch_with_it() {
    let queue = Queue::new().await;
    queue.kind("mail").await;
    use RefusalCode::{Invalid, TooLarge, UnknownKind};
    let big = Blob::json(vec![b'1'; (1 << 20) + 1]);
    let wrong = [
        (job("nail"), UnknownKind, "there is no kind 'nail'"),
        (job("o'hara"), UnknownKind, "there is no kind 'o''hara'"),
        (NewJob::new("mail", big), TooLarge, "the payload has 1048577 bytes; at most 1048576"),
        (NewJob { priority: Some(1001), ..job("mail") }, Invalid, "priority 1001 is not within"),
        (NewJob { priority: Some(i32::MIN), ..job("mail") }, Invalid, "priority -2147483648 is"),
        (NewJob { max_attempts: Some(0), ..job("mail") }, Invalid, "max_attempts 0 is not within"),
        (NewJob { max_attempts: Some(1001), ..job("mail") }, Invalid, "max_attempts 1001 is not"),
        (NewJob { metadata: Some(json!([1])), ..job("mail") }, Invalid, "metadata is not a JSON"),
        (NewJob { metadata: Some(json!(null)), ..job("mail") }, Invalid, "metadata is not a JSON"),
        (
            NewJob { metadata: Some(json!({ "k": "x".repeat(16384 - 8) })), ..job("mail") },
            TooLarge,
            "metadata is over 16384 bytes",
        ),
        (
            NewJob::new("mail", blob(&format!("a/{}", "b".repeat(254)))),
            Invalid,
            "the media type is over 255 bytes",
        ),
    ];
    for (wrong, code, text) in wrong {
        // Last in the batch, then first of two wrong ones.
        let batch = [job("mail"), job("mail"), wrong.clone()];
        let (found, message) = refusal(queue.database.enqueue(&batch).await);
        assert_eq!(found, code, "{message}");
        assert!(message.starts_with("job 3: ") && message.contains(text), "{message}");
        let batch = [job("mail"), wrong, job("mail"), job("nobody")];
        let (found, message) = refusal(queue.database.enqueue(&batch).await);
        assert_eq!(found, code, "{message}");
        assert!(message.starts_with("job 2: ") && message.contains(text), "{message}");
    }
    assert_eq!(queue.live_jobs().await, 0);
}

#[tokio::test]
async fn the_sql_contract_refuses_with_the_codes_that_clients_rely_on() {
    let queue = Queue::new().await;
    queue.kind("mail").await;
    for (call, code, text) in [
        ("enqueue('nail')", "SH404", "job 1: there is no kind 'nail'"),
        ("enqueue(null)", "SH404", "job 1: there is no kind null"),
        ("enqueue('mail', null)", "SH422", "job 1: the payload is null"),
        ("enqueue_bytes('mail', null, 'a/b')", "SH422", "job 1: the payload is null"),
        ("enqueue('mail', priority => 1001)", "SH422", "job 1: priority 1001"),
        ("enqueue('mail', max_attempts => 0)", "SH422", "job 1: max_attempts 0"),
        ("enqueue('mail', metadata => '3')", "SH422", "job 1: metadata is not a JSON object"),
        ("enqueue_bytes('mail', '', 'a/' || repeat('b', 254))", "SH422", "job 1: the media type"),
        ("enqueue('mail', to_jsonb(repeat('x', 1048576)))", "SH413", "job 1: the payload has"),
        ("enqueue_many(array['mail'], null)", "SH422", "enqueue_many: 1 kinds and 0 payloads"),
        ("enqueue_many(null, array[''::bytea])", "SH422", "enqueue_many: 0 kinds and 1 payloads"),
        (
            "enqueue_many(array['mail'], array['', '']::bytea[])",
            "SH422",
            "enqueue_many: 1 kinds and 2 payloads",
        ),
        (
            "enqueue_many(array['mail', null], array['', '']::bytea[])",
            "SH404",
            "job 2: there is no kind null",
        ),
        // An array that goes on past the jobs belongs to no job.
        (
            "enqueue_many(array['mail'], array['']::bytea[], priorities => array[1, 2])",
            "SH404",
            "job 2: there is no kind null",
        ),
    ] {
        let (found, message) = queue.refused(format!("select stokehold.{call}")).await;
        assert_eq!(found, code, "{call}: {message}");
        assert!(message.starts_with(text), "{call}: {message}");
    }
    assert_eq!(queue.live_jobs().await, 0);
}

#[tokio::test]
async fn text_that_postgresql_cannot_store_is_refused_as_the_callers_mistake() {
    let queue = Queue::new().await;
    queue.kind("mail").await;
    for wrong in [
        job("ma\0il"),
        NewJob::new("mail", blob("text/pl\0ain")),
        NewJob { metadata: Some(json!({ "k": "a\0b" })), ..job("mail") },
        NewJob { metadata: Some(json!({ "a\0b": 1 })), ..job("mail") },
    ] {
        let (code, message) = refusal(queue.database.enqueue(&[job("mail"), wrong]).await);
        assert_eq!(code, RefusalCode::Invalid);
        assert!(message.contains("U+0000"), "{message}");
    }
    assert_eq!(queue.live_jobs().await, 0);
}

#[tokio::test]
async fn a_time_that_programs_cannot_read_is_refused_and_the_queue_lives_on() {
    let queue = Queue::new().await;
    queue.kind("mail").await;
    for time in ["infinity", "-infinity", "290000-01-01", "0001-01-01 BC"] {
        let (code, message) =
            queue.refused(format!("select stokehold.enqueue('mail', run_at => '{time}')")).await;
        assert_eq!(code, "SH422", "{time}: {message}");
        assert!(message.starts_with("job 1: run_at "), "{message}");
    }
    queue.database.tick(&mut Horizon::default(), None).await.unwrap();
    assert_eq!(queue.live_jobs().await, 0);
}

#[tokio::test]
async fn a_media_type_that_could_not_be_a_header_is_refused() {
    let queue = Queue::new().await;
    queue.kind("mail").await;
    for wrong in ["", "text", "/plain", "text/", "te xt/plain", "text/plain\r\nX: y", "text/é"] {
        let batch = [job("mail"), NewJob::new("mail", blob(wrong))];
        let (code, message) = refusal(queue.database.enqueue(&batch).await);
        assert_eq!(code, RefusalCode::Invalid);
        assert!(message.starts_with("job 2: the media type"), "{wrong:?}: {message}");
    }
    for right in ["application/ld+json", "text/csv; header=present", "x-a.b/c_d!#$&-^"] {
        queue.database.enqueue(&[NewJob::new("mail", blob(right))]).await.unwrap();
    }
    assert_eq!(queue.live_jobs().await, 3);
}
