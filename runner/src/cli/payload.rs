//! What a job is given: text on the command line, a file, or stdin; and what it is.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use anyhow::Context;
use clap::Args;
use serde_json::value::RawValue;
use stokehold_domain::blob::{self, is_json, is_media_type};
use stokehold_domain::{Blob, EngineLimits};

use super::fault::Fault;
use super::units;

/// The input of a job.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct PayloadArgs {
    /// The input: JSON, @FILE, or - for stdin; {} without it
    #[arg(long, short = 'p', value_name = "JSON|@FILE|-")]
    payload: Option<String>,
    /// What the input is; by default told from the file's name, else application/json
    #[arg(long, short = 't', value_name = "TYPE", value_parser = media_type)]
    media_type: Option<String>,
}

impl PayloadArgs {
    /// The input that is to take the place of another, if one is given.
    pub(crate) fn read_other(&self) -> anyhow::Result<Option<Blob>> {
        match (&self.payload, &self.media_type) {
            (None, None) => Ok(None),
            (None, Some(_)) => {
                let fault = "--media-type says what another payload is, and there is none";
                Err(Fault::usage(fault).into())
            }
            (Some(_), _) => self.read().map(Some),
        }
    }

    /// Reads the input and checks what can be checked here.
    pub(crate) fn read(&self) -> anyhow::Result<Blob> {
        let source = self.payload.as_deref().unwrap_or("{}");
        let (bytes, told_by_name, origin) = match source.strip_prefix('@') {
            Some("") => return Err(Fault::usage("--payload @ names no file").into()),
            Some(path) => {
                let path = Path::new(path);
                let most = EngineLimits::PAYLOAD_BYTES as u64;
                let bytes = read_file(path, "payload", most)?;
                (bytes, media_type_of(path), format!("the file {}", path.display()))
            }
            None if source == "-" => (read_stdin()?, None, "stdin".to_owned()),
            None => (source.as_bytes().to_vec(), None, "--payload".to_owned()),
        };
        let media_type = match (&self.media_type, told_by_name) {
            (Some(given), _) => given.clone(),
            (None, Some(told)) => told.to_owned(),
            (None, None) => blob::JSON.to_owned(),
        };
        if is_json(&media_type) {
            check_json(&bytes, &origin)?;
        }
        Ok(Blob { media_type, bytes })
    }
}

/// Reads a whole file, or says in one sentence why not.
pub(crate) fn read_file(path: &Path, what: &str, most_bytes: u64) -> anyhow::Result<Vec<u8>> {
    let shown = path.display();
    let facts = fs::metadata(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            anyhow::Error::new(Fault::not_found(format!("there is no {what} file {shown}")))
        }
        _ => anyhow::Error::new(error).context(format!("the {what} file {shown} cannot be read")),
    })?;
    if facts.is_dir() {
        let fault = Fault::invalid(format!("{shown} is a directory, and a {what} file is wanted"));
        return Err(fault.into());
    }
    if facts.len() > most_bytes {
        return Err(too_large(what, &shown.to_string(), facts.len(), most_bytes).into());
    }
    fs::read(path).with_context(|| format!("the {what} file {shown} cannot be read"))
}

fn read_stdin() -> anyhow::Result<Vec<u8>> {
    let most = EngineLimits::PAYLOAD_BYTES as u64;
    let mut bytes = Vec::new();
    // One byte more than allowed tells that there are too many.
    io::stdin().lock().take(most + 1).read_to_end(&mut bytes).context("stdin cannot be read")?;
    if bytes.len() as u64 > most {
        return Err(too_large("payload", "stdin", bytes.len() as u64, most).into());
    }
    Ok(bytes)
}

fn too_large(what: &str, origin: &str, size: u64, most: u64) -> Fault {
    let size = units::grouped(size);
    Fault::invalid(format!(
        "the {what} in {origin} is too large: {size} bytes or more, and {} ({}) are allowed",
        units::grouped(most),
        units::bytes(most)
    ))
}

pub(super) fn check_json(bytes: &[u8], origin: &str) -> Result<(), Fault> {
    match serde_json::from_slice::<&RawValue>(bytes) {
        Ok(_) => Ok(()),
        Err(error) => Err(Fault::invalid(format!("the payload in {origin} is not JSON: {error}"))
            .hint("If it is not meant to be JSON, say what it is with --media-type, such as text/plain.")),
    }
}

pub(super) fn media_type(text: &str) -> Result<String, String> {
    if is_media_type(text) {
        Ok(text.to_owned())
    } else {
        Err(format!("{text:?} is not a media type: write type/subtype, such as text/csv"))
    }
}

/// What a file's name says of its content; bytes when it says nothing known.
pub(super) fn media_type_of(path: &Path) -> Option<&'static str> {
    let extension = path.extension()?.to_str()?.to_ascii_lowercase();
    Some(match extension.as_str() {
        "json" => "application/json",
        "ndjson" | "jsonl" => "application/x-ndjson",
        "txt" | "log" => "text/plain",
        "csv" => "text/csv",
        "html" | "htm" => "text/html",
        "md" => "text/markdown",
        "xml" => "application/xml",
        "yaml" | "yml" => "application/yaml",
        "pdf" => "application/pdf",
        "jpg" | "jpeg" => "image/jpeg",
        "png" => "image/png",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "svg" => "image/svg+xml",
        "mp3" => "audio/mpeg",
        "wav" => "audio/wav",
        "mp4" => "video/mp4",
        "zip" => "application/zip",
        "gz" => "application/gzip",
        _ => "application/octet-stream",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(payload: &str, media_type: Option<&str>) -> anyhow::Result<Blob> {
        let media_type = media_type.map(ToOwned::to_owned);
        PayloadArgs { payload: Some(payload.to_owned()), media_type }.read()
    }

    #[test]
    fn text_is_json_unless_said_otherwise_and_is_kept_as_written() {
        let blob = read(r#"{"n": 9007199254740993.0}"#, None).unwrap();
        assert_eq!((blob.media_type.as_str(), blob.bytes.len()), (blob::JSON, 25));
        assert_eq!(PayloadArgs::default().read().unwrap(), Blob::json(*b"{}"));
        assert_eq!(read("hello", Some("text/plain")).unwrap().bytes, b"hello");
    }

    #[test]
    fn a_media_type_alone_takes_the_place_of_no_payload() {
        assert_eq!(PayloadArgs::default().read_other().unwrap(), None);
        let alone = PayloadArgs { payload: None, media_type: Some("text/csv".into()) };
        assert!(alone.read_other().unwrap_err().to_string().contains("--media-type"));
        let both = PayloadArgs { payload: Some("a,b".into()), ..alone };
        let blob = Blob { media_type: "text/csv".into(), bytes: b"a,b".to_vec() };
        assert_eq!(both.read_other().unwrap(), Some(blob));
    }

    #[test]
    fn wrong_json_is_refused_with_line_and_column() {
        let error = read("{\"a\":\n 1,}", None).unwrap_err();
        assert!(error.to_string().contains("at line 2 column 4"), "{error}");
        assert!(read("hello", None).is_err());
    }

    #[test]
    fn a_file_tells_by_its_name_what_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("Photo.JPG");
        fs::write(&path, [0xff, 0xd8]).unwrap();
        let source = format!("@{}", path.display());
        assert_eq!(read(&source, None).unwrap().media_type, "image/jpeg");
        assert_eq!(read(&source, Some("image/x-raw")).unwrap().media_type, "image/x-raw");
    }

    #[test]
    fn a_file_that_is_absent_a_directory_or_too_large_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("big.bin");
        let source = format!("@{}", path.display());
        let told = |source: &str| read(source, None).unwrap_err().to_string();
        assert!(told(&source).starts_with("there is no payload file "), "{}", told(&source));
        assert!(told(&format!("@{}", folder.path().display())).contains("is a directory"));
        fs::write(&path, vec![0; EngineLimits::PAYLOAD_BYTES + 1]).unwrap();
        assert!(told(&source).contains("1,048,577 bytes or more, and 1,048,576 (1 MiB)"));
        assert!(told("@").contains("names no file"));
    }
}
