//! Makes a thumbnail of a JPEG or PNG image. `README.md` tells what to send and what comes back.

mod options;
mod thumbnail;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use stokehold_sdk::{Blob, Failure, Job, context, log};

use options::Options;

/// The JSON form of the payload: the image in base64, and the options beside it.
#[derive(Deserialize)]
struct Request {
    image: String,
    #[serde(flatten)]
    options: Options,
}

/// An image and what to make of it.
struct Work {
    image: Vec<u8>,
    options: Options,
}

#[stokehold_sdk::handler]
fn resize(job: Job<Blob>) -> Result<Blob, Failure> {
    let work = match job.payload.essence().as_str() {
        "application/json" => from_json(&job.payload)?,
        _ => Work {
            image: job.payload.bytes,
            options: Options::from_metadata(&context::metadata())?,
        },
    };
    let made = thumbnail::make(&work.image, &work.options)?;
    log::info!(
        width = made.width, height = made.height, bytes = made.blob.bytes.len();
        "{}x{} becomes {}x{}", made.original.0, made.original.1, made.width, made.height
    );
    Ok(made.blob)
}

fn from_json(payload: &Blob) -> Result<Work, Failure> {
    let request: Request = payload.parse_json()?;
    let image = STANDARD.decode(request.image.trim()).map_err(|error| {
        Failure::permanent(format!("field `image` is not base64: {error}")).code("bad-payload")
    })?;
    request.options.check()?;
    Ok(Work { image, options: request.options })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_json_form_holds_image_and_options() {
        let text = r#"{"image":"aGk=","max_width":10,"format":"png"}"#;
        let work = from_json(&Blob::new("application/json", text)).expect("a request");
        assert_eq!(work.image, b"hi");
        assert_eq!((work.options.max_width, work.options.max_height), (10, 256));
    }

    #[test]
    fn text_that_is_not_base64_is_never_tried_again() {
        let blob = Blob::new("application/json", r#"{"image":"!"}"#);
        let failure = from_json(&blob).err().expect("bad base64");
        assert!(!failure.is_retryable());
        assert!(failure.to_string().contains("field `image` is not base64"));
    }
}
