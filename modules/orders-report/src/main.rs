//! Sums up orders: CSV or JSON on standard input, a JSON report on standard output.
//!
//! A plain WASI command: no SDK, nothing of Stokehold in it. The queue's contract for commands is
//! all it keeps to: log lines on standard error, and an exit code that says what to do next.

mod csv;
mod fault;
mod json;
mod money;
mod order;
mod report;

use std::io::{Read, Write};
use std::process::ExitCode;

use fault::{Fault, Place};
use order::OrderLine;
use report::Report;

/// The input is wrong: never try again (`EX_DATAERR`).
const BAD_DATA: u8 = 65;
/// Reading or writing failed: try again (`EX_TEMPFAIL`).
const TRY_AGAIN: u8 = 75;

fn main() -> ExitCode {
    let mut input = Vec::new();
    if let Err(error) = std::io::stdin().read_to_end(&mut input) {
        log("error", &format!("reading the orders: {error}"));
        return ExitCode::from(TRY_AGAIN);
    }
    let media_type = std::env::var("JOB_CONTENT_TYPE").unwrap_or_default();
    let lines = match read(&input, &media_type) {
        Ok(lines) => lines,
        Err(fault) => {
            log("error", &fault.to_string());
            return ExitCode::from(BAD_DATA);
        }
    };
    let report = Report::of(&lines);
    log("info", &format!("{} orders in {} lines", report.orders, report.lines));
    match write(&report) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log("error", &format!("writing the report: {error}"));
            ExitCode::from(TRY_AGAIN)
        }
    }
}

/// A media type that says neither leaves the first character to tell: only JSON begins with `[`.
fn read(input: &[u8], media_type: &str) -> Result<Vec<OrderLine>, Fault> {
    let text = std::str::from_utf8(input).map_err(|error| {
        let mut place = Place::START;
        String::from_utf8_lossy(&input[..error.valid_up_to()])
            .chars()
            .for_each(|character| place.pass(character));
        Fault::at(place, "not UTF-8")
    })?;
    // Spreadsheets like to begin a file with a byte-order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let looks_like_json = text.trim_start().starts_with('[');
    if looks_like_json && !media_type.starts_with("text/csv") {
        json::read(text)
    } else {
        csv::read(text)
    }
}

fn write(report: &Report) -> std::io::Result<()> {
    let mut output = std::io::stdout().lock();
    serde_json::to_writer(&mut output, report)?;
    output.flush()
}

/// One line of JSON: the queue keeps level and message apart.
fn log(level: &str, message: &str) {
    eprintln!("{}", serde_json::json!({ "level": level, "msg": message }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_is_told_by_its_first_character() {
        assert_eq!(read(b" []", "application/json").expect("no orders"), []);
        let header = "\u{feff}order_id,date,customer,product,quantity,unit_price,currency";
        assert_eq!(read(header.as_bytes(), "").expect("no orders"), []);
    }

    #[test]
    fn bytes_that_are_no_text_are_told_by_their_place() {
        let fault = read(b"ab\nc\xff", "text/csv").expect_err("not UTF-8");
        assert_eq!(fault.to_string(), "line 2, column 2: not UTF-8");
    }
}
