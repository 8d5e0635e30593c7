//! Cases that are data: each folder of `tests/cases` holds a guest, what it is given and how it must
//! end. Adding one needs no Rust. `case.json` says:
//!
//! - `refused`: the code with which the upload is refused; or `outcome`: the code of its outcome
//! - `says`, `advice`, `frames`, `log`, `result_says`, `result_lacks`: texts that must (not) be found
//! - `result`, `media_type`, `problem_code`, `delay_ms`, `progress`, `log_lines`: exact values
//! - `limits`, `metadata`, `world` (of the contract, for a core module that follows it)
//! - `within_ms`, `fuel`, `host_calls`, `peak_memory_bytes`, `log_bytes`, `same_fuel_twice`
//!
//! The guest is `guest.wat`, or bytes in a file of any other ending; `payload` is optional.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use stokehold_domain::{Digest, Limits, LogLine, Outcome, Verdict};
use stokehold_sandbox::{Control, Handler, Progress, Report, Sandbox};

use crate::guests;

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Case {
    refused: Option<String>,
    outcome: Option<String>,
    says: Vec<String>,
    advice: Vec<String>,
    frames: Vec<String>,
    log: Vec<String>,
    result_says: Vec<String>,
    result_lacks: Vec<String>,
    #[serde(deserialize_with = "present")]
    result: Option<Option<String>>,
    media_type: Option<String>,
    problem_code: Option<String>,
    delay_ms: Option<u64>,
    progress: Option<(u64, u64, String)>,
    log_lines: Option<Vec<(String, String)>>,
    limits: Limits,
    metadata: Vec<(String, String)>,
    world: Option<String>,
    within_ms: Option<u64>,
    fuel: Option<u64>,
    host_calls: Option<u64>,
    peak_memory_bytes: Option<u64>,
    log_bytes: Option<usize>,
    same_fuel_twice: bool,
}

/// Tells `null` from absent.
fn present<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(from).map(Some)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_case_ends_as_its_folder_says() {
    let sandbox = guests::sandbox(guests::small());
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let only = std::env::var("CASE").ok();
    let mut folders: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| only.as_deref().is_none_or(|only| path.ends_with(only)))
        .collect();
    folders.sort();
    assert!(!folders.is_empty(), "no cases found");
    let mut wrong = String::new();
    for folder in folders {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        for complaint in run_case(&sandbox, &folder).await {
            writeln!(wrong, "{name}: {complaint}").unwrap();
        }
    }
    guests::idle(&sandbox).await;
    assert!(wrong.is_empty(), "\n{wrong}");
}

async fn run_case(sandbox: &Sandbox, folder: &Path) -> Vec<String> {
    let text = fs::read_to_string(folder.join("case.json")).unwrap();
    let case: Case = match serde_json::from_str(&text) {
        Ok(case) => case,
        Err(error) => return vec![format!("case.json: {error}")],
    };
    let guest = guest(folder, case.world.as_deref());
    let loaded = match sandbox.admit(&guest) {
        Ok(admission) => {
            assert_eq!(admission.digest, Digest(Sha256::digest(&guest).into()));
            sandbox.load(admission.digest, &guest).await
        }
        Err(refusal) => Err(refusal),
    };
    match (loaded, &case.refused) {
        (Ok(handler), None) => judge_run(sandbox, &handler, &case, folder).await,
        (Ok(_), Some(code)) => vec![format!("was taken, and not refused as {code}")],
        (Err(refusal), Some(code)) => {
            let mut wrong = expect_texts("refusal", &refusal.to_string(), &case.says);
            if refusal.code() != code {
                wrong.push(format!("refused as {} ({refusal}), not {code}", refusal.code()));
            }
            wrong
        }
        (Err(refusal), None) => vec![format!("refused as {}: {refusal}", refusal.code())],
    }
}

fn guest(folder: &Path, world: Option<&str>) -> Vec<u8> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let path = files.into_iter().find(|path| path.file_stem().is_some_and(|s| s == "guest"));
    let path = path.unwrap_or_else(|| panic!("{}: no guest", folder.display()));
    let bytes = if path.extension().is_some_and(|ending| ending == "wat") {
        wat::parse_file(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    } else {
        fs::read(&path).unwrap()
    };
    match world {
        Some(world) => guests::with_contract(bytes, world),
        None => bytes,
    }
}

async fn judge_run(
    sandbox: &Sandbox,
    handler: &Handler,
    case: &Case,
    folder: &Path,
) -> Vec<String> {
    let payload = fs::read(folder.join("payload")).unwrap_or_else(|_| b"null".to_vec());
    let run = async |control: Control| {
        let mut attempt = guests::attempt(&payload);
        attempt.metadata = case.metadata.clone();
        sandbox.run(handler, attempt, &case.limits, control).await
    };
    let control = Control::new();
    let started = Instant::now();
    let report = run(control.clone()).await;
    let took = started.elapsed();

    let mut wrong = judge_outcome(&report.outcome, case);
    wrong.extend(judge_log(&report.log, case));
    wrong.extend(judge_receipt(&report, case));
    if let Some(most) = case.within_ms
        && took.as_millis() > u128::from(most)
    {
        wrong.push(format!("took {took:?}, more than {most} ms"));
    }
    if let Some((done, total, note)) = &case.progress {
        let wanted = Progress { done: *done, total: *total, note: Some(note.clone()) };
        if control.progress().as_ref() != Some(&wanted) {
            wrong.push(format!("progress {:?}, not {wanted:?}", control.progress()));
        }
    }
    if case.same_fuel_twice {
        let again = run(Control::new()).await;
        if again.receipt.fuel != report.receipt.fuel || report.receipt.fuel == 0 {
            let fuels = (report.receipt.fuel, again.receipt.fuel);
            wrong.push(format!("used fuel {fuels:?} for the same input"));
        }
    }
    wrong
}

fn judge_outcome(outcome: &Outcome, case: &Case) -> Vec<String> {
    let mut wrong = Vec::new();
    let problem = outcome.problem().unwrap_or_default();
    if Some(outcome.code()) != case.outcome.as_deref() {
        let wanted = case.outcome.as_deref();
        wrong.push(format!("ended as {} ({problem:?}), not {wanted:?}", outcome.code()));
    }
    wrong.extend(expect_texts("message", &problem.message, &case.says));
    wrong.extend(expect_texts("advice", &problem.advice.unwrap_or_default(), &case.advice));
    wrong.extend(expect_texts("frames", &problem.frames.join("\n"), &case.frames));
    if case.problem_code.is_some() && problem.code != case.problem_code {
        wrong.push(format!("problem code {:?}, not {:?}", problem.code, case.problem_code));
    }
    let blob = match outcome {
        Outcome::Completed(blob) => blob.as_ref(),
        _ => None,
    };
    let result = blob.map(|blob| String::from_utf8_lossy(&blob.bytes).into_owned());
    if let Some(wanted) = &case.result
        && result != *wanted
    {
        wrong.push(format!("result {result:?}, not {wanted:?}"));
    }
    let text = result.unwrap_or_default();
    wrong.extend(expect_texts("result", &text, &case.result_says));
    for unwanted in case.result_lacks.iter().filter(|unwanted| text.contains(*unwanted)) {
        wrong.push(format!("result has {unwanted:?}: {text:?}"));
    }
    if case.media_type.is_some() && blob.map(|blob| &blob.media_type) != case.media_type.as_ref() {
        wrong.push(format!("media type of {blob:?}, not {:?}", case.media_type));
    }
    let delay = match outcome {
        Outcome::Verdict(Verdict::RetryAfter(delay, _) | Verdict::Snooze(delay, _)) => {
            Some(delay.as_millis() as u64)
        }
        _ => None,
    };
    if delay != case.delay_ms {
        wrong.push(format!("delay {delay:?}, not {:?}", case.delay_ms));
    }
    wrong
}

fn judge_log(log: &[LogLine], case: &Case) -> Vec<String> {
    let text: Vec<_> = log.iter().map(|line| line.message.as_str()).collect();
    let mut wrong = expect_texts("log", &text.join("\n"), &case.log);
    if let Some(wanted) = &case.log_lines {
        let lines: Vec<_> =
            log.iter().map(|l| (l.level.as_str().to_owned(), l.message.clone())).collect();
        if lines != *wanted {
            wrong.push(format!("log lines {lines:?}, not {wanted:?}"));
        }
    }
    if let Some(most) = case.log_bytes {
        let bytes: usize = text.iter().map(|line| line.len()).sum();
        if bytes > most {
            wrong.push(format!("{bytes} bytes of log kept, more than {most}"));
        }
    }
    wrong
}

fn judge_receipt(report: &Report, case: &Case) -> Vec<String> {
    let receipt = &report.receipt;
    let mut wrong = Vec::new();
    for (name, got, wanted) in [
        ("fuel", receipt.fuel, case.fuel),
        ("host calls", receipt.host_calls, case.host_calls),
        ("peak memory", receipt.peak_memory_bytes, case.peak_memory_bytes),
    ] {
        if wanted.is_some_and(|wanted| wanted != got) {
            wrong.push(format!("{name} {got}, not {wanted:?}"));
        }
    }
    if receipt.fuel > case.limits.fuel {
        wrong.push(format!("used {} fuel of {}", receipt.fuel, case.limits.fuel));
    }
    wrong
}

fn expect_texts(what: &str, text: &str, wanted: &[String]) -> Vec<String> {
    let missing = wanted.iter().filter(|wanted| !text.contains(*wanted));
    missing.map(|wanted| format!("{what} lacks {wanted:?}: {}", Value::from(text))).collect()
}
