//! From the job that a request describes to the job that the queue takes: what is wrong is named by
//! its place before the database is asked.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use stokehold_domain::{Blob, EngineLimits, JobOptions, RetryPolicy, blob, check_name};
use stokehold_queue::{NewJob, QueueError, RefusalCode};

use crate::codes::Code;
use crate::extract::pointer_text;
use crate::problem::ApiError;
use crate::wire::{self, FieldError};

/// What bytes are when nobody says.
pub(crate) const BYTES: &str = "application/octet-stream";
/// Priorities lie between minus this and this.
pub(crate) const MOST_PRIORITY: i32 = 1_000;
/// The largest metadata of a job, in bytes of JSON. The enqueue function repeats it.
const METADATA_BYTES: usize = 16 << 10;

/// The job, or what is wrong with it; `base` is where it stands in the body.
pub(crate) fn read(job: wire::NewJob, base: &str) -> Result<NewJob, ApiError> {
    let at = |field: &str, detail: String| ApiError::field(&format!("{base}/{field}"), detail);
    check_name("kind", &job.kind).map_err(|error| at("kind", error.to_string()))?;
    check_numbers(job.priority, job.max_attempts).map_err(|(field, why)| at(field, why))?;
    if let Some(metadata) = &job.metadata {
        check_metadata(metadata, base)?;
    }
    if let Some(backoff) = &job.backoff {
        backoff.check().map_err(|error| at("backoff", error.to_string()))?;
    }
    let payload = payload(job.payload, job.payload_base64, job.media_type, base)?;
    let options = JobOptions {
        unique: job.unique.map(Into::into),
        expires_at: job.expires_at,
        tags: job.tags,
        concurrency_key: job.concurrency_key,
        release: job.release,
        backoff: job.backoff,
        timeout_ms: job.timeout_ms,
    };
    Ok(NewJob {
        options,
        run_at: job.run_at,
        priority: job.priority,
        max_attempts: job.max_attempts,
        metadata: job.metadata.map(Value::Object),
        ..NewJob::new(job.kind, payload)
    })
}

/// Another input, if a body gives one.
pub(crate) fn other_payload(
    json: Option<Box<RawValue>>,
    base64: Option<String>,
    media_type: Option<String>,
) -> Result<Option<Blob>, ApiError> {
    match (&json, &base64, &media_type) {
        (None, None, None) => Ok(None),
        (None, None, Some(_)) => {
            let why = "`media_type` says what another payload is, and there is none";
            Err(ApiError::field("/media_type", why))
        }
        _ => payload(json, base64, media_type, "").map(Some),
    }
}

/// The input that a body at `base` gives as JSON or as bytes; `{}` if it gives none.
pub(crate) fn payload(
    json: Option<Box<RawValue>>,
    base64: Option<String>,
    media_type: Option<String>,
    base: &str,
) -> Result<Blob, ApiError> {
    let at = |field: &str, detail: String| ApiError::field(&format!("{base}/{field}"), detail);
    let payload = match (json, base64) {
        (Some(_), Some(_)) => {
            let why = "`payload` and `payload_base64` exclude each other".to_owned();
            return Err(at("payload_base64", why));
        }
        (json, None) => {
            let media_type = media_type.unwrap_or_else(|| blob::JSON.to_owned());
            if !blob::is_json(&media_type) || !blob::is_media_type(&media_type) {
                let why = "`payload` is JSON: give other bytes as `payload_base64`".to_owned();
                return Err(at("media_type", why));
            }
            let bytes = json.map_or_else(|| b"{}".to_vec(), |json| json.get().as_bytes().to_vec());
            Blob { media_type, bytes }
        }
        (None, Some(text)) => {
            let bytes = STANDARD
                .decode(text)
                .map_err(|error| at("payload_base64", format!("it is not base64: {error}")))?;
            let media_type = media_type.unwrap_or_else(|| BYTES.to_owned());
            check_media_type(&media_type).map_err(|why| at("media_type", why))?;
            let payload = Blob { media_type, bytes };
            check_json(&payload)
                .map_err(|error| at("payload_base64", format!("it is not JSON: {error}")))?;
            payload
        }
    };
    if payload.bytes.len() > EngineLimits::PAYLOAD_BYTES {
        let most = EngineLimits::PAYLOAD_BYTES;
        return Err(too_large("the payload", payload.bytes.len(), most, format!("{base}/payload"))
            .hint("Store the data elsewhere and enqueue a reference to it."));
    }
    Ok(payload)
}

/// Refuses metadata that cannot be stored.
pub(crate) fn check_metadata(metadata: &Map<String, Value>, base: &str) -> Result<(), ApiError> {
    let pointer = format!("{base}/metadata");
    if let Some(pointer) = find_nul(metadata, &pointer) {
        let why = "metadata holds the character U+0000, which PostgreSQL cannot store";
        return Err(ApiError::field(&pointer, why));
    }
    let bytes = serde_json::to_vec(metadata).map_or(usize::MAX, |json| json.len());
    if bytes > METADATA_BYTES {
        return Err(too_large("metadata", bytes, METADATA_BYTES, pointer)
            .hint("Put what the handler reads into the payload."));
    }
    Ok(())
}

/// Refuses text that is not a media type.
pub(crate) fn check_media_type(text: &str) -> Result<(), String> {
    let most = blob::MAX_MEDIA_TYPE_BYTES;
    if blob::is_media_type(text) {
        return Ok(());
    }
    Err(format!("a media type such as image/png is wanted, of {most} ASCII characters at most"))
}

/// Refuses bytes that say they are JSON and are not.
pub(crate) fn check_json(payload: &Blob) -> Result<(), serde_json::Error> {
    if payload.is_json() {
        // Checks the form alone: nothing is built of it, however deep it is.
        serde_json::from_slice::<&RawValue>(&payload.bytes)?;
    }
    Ok(())
}

/// Refuses numbers outside their range, naming the field.
pub(crate) fn check_numbers(
    priority: Option<i32>,
    max_attempts: Option<i32>,
) -> Result<(), (&'static str, String)> {
    let most_attempts = i32::from(RetryPolicy::MAX_ATTEMPTS);
    for (field, number, least, most) in [
        ("priority", priority, -MOST_PRIORITY, MOST_PRIORITY),
        ("max_attempts", max_attempts, 1, most_attempts),
    ] {
        if let Some(number) = number
            && !(least..=most).contains(&number)
        {
            return Err((field, format!("`{field}` is {number}: {least} to {most} is allowed")));
        }
    }
    Ok(())
}

/// Where the first U+0000 is, in a key or a text however deep.
pub(crate) fn find_nul(object: &Map<String, Value>, base: &str) -> Option<String> {
    object.iter().find_map(|(key, value)| {
        let pointer = format!("{base}/{}", pointer_text(key));
        if key.contains('\0') { Some(pointer) } else { find_nul_in(value, pointer) }
    })
}

fn find_nul_in(value: &Value, pointer: String) -> Option<String> {
    match value {
        Value::String(text) => text.contains('\0').then_some(pointer),
        Value::Object(object) => find_nul(object, &pointer),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .find_map(|(n, item)| find_nul_in(item, format!("{pointer}/{n}"))),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

fn too_large(what: &str, bytes: usize, most: usize, pointer: String) -> ApiError {
    let detail = format!("{what} has {bytes} bytes; at most {most} are taken");
    ApiError::new(Code::RequestTooLarge, detail.clone()).errors(vec![FieldError {
        pointer: Some(pointer),
        detail,
        ..FieldError::default()
    }])
}

/// What the enqueue function refused; `base` says where the job of an index stands in the body.
pub(crate) fn refused(error: QueueError, base: impl Fn(usize) -> String) -> ApiError {
    let index = error.refused_job();
    let QueueError::Refused { code, message, hint } = error else { return error.into() };
    // The number is said by the pointer.
    let message = match (index, message.split_once(": ")) {
        (Some(_), Some((_, rest))) => rest,
        _ => message.as_str(),
    };
    let of_a_job = index.is_some();
    let index = index.unwrap_or(0);
    let field = match code {
        RefusalCode::UnknownKind => "/kind",
        _ => "",
    };
    let error = FieldError {
        pointer: Some(format!("{}{field}", base(index))),
        detail: message.to_owned(),
        ..FieldError::default()
    };
    if code == RefusalCode::Conflict {
        let code = if of_a_job { Code::JobDuplicate } else { Code::RequestRepeated };
        return ApiError::new(code, message).hint(hint.unwrap_or_default());
    }
    let refused = QueueError::Refused { code, message: message.to_owned(), hint };
    ApiError::from(refused).errors(vec![error])
}
