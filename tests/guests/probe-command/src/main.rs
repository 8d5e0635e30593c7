//! A plain WASI command that does what its payload says, so that tests can produce every outcome
//! of the command contract: payload on standard input, result on standard output, log lines on
//! standard error, exit code as verdict.
//!
//! The payload is `{"do": "WORD", …}`; the words are the variants of [`Task`].

use std::collections::BTreeMap;
use std::hint::black_box;
use std::io::{Read, Write};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

/// The input is wrong: never try again (`EX_DATAERR`).
const BAD_DATA: i32 = 65;
/// Reading or writing failed: try again (`EX_TEMPFAIL`).
const TRY_AGAIN: i32 = 75;

/// What to do, with its parameters.
#[derive(Debug, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
enum Task {
    /// Prints `value`.
    Ok {
        #[serde(default)]
        value: Value,
    },
    /// Prints nothing.
    Noop,
    /// Loops for ever.
    Spin,
    /// Takes memory until there is none left.
    Allocate,
    /// Recurses until the stack is used up.
    Stack,
    /// Panics.
    Panic {
        #[serde(default = "default_message")]
        message: String,
    },
    /// Ends by a trap.
    Abort,
    /// Sleeps.
    Sleep { ms: u64 },
    /// Says `start` on standard error, sleeps, says `end`, and prints `value`.
    Witness {
        #[serde(default)]
        ms: u64,
        #[serde(default)]
        value: Value,
    },
    /// Says the message on standard error and ends with this code.
    Exit {
        code: i32,
        #[serde(default = "default_message")]
        message: String,
    },
    /// Prints this text as it is, which need not be JSON.
    Print { text: String },
    /// Writes so many lines to standard error, each fourth as a JSON object.
    StderrFlood { lines: u64 },
    /// Writes so many bytes to standard output: one JSON string.
    StdoutFlood { bytes: usize },
    /// Prints the environment's variables and the arguments.
    Env,
    /// Tries to read a file, and prints what came of it.
    Fs,
}

fn default_message() -> String {
    "as the payload asked".into()
}

fn main() {
    let mut payload = Vec::new();
    if let Err(error) = std::io::stdin().read_to_end(&mut payload) {
        stop(TRY_AGAIN, &format!("reading the payload: {error}"));
    }
    match serde_json::from_slice(&payload) {
        Ok(task) => carry_out(task),
        Err(error) => stop(BAD_DATA, &format!("payload: {error}")),
    }
}

fn carry_out(task: Task) {
    match task {
        Task::Ok { value } => print(value.to_string().as_bytes()),
        Task::Noop => {}
        Task::Spin => spin(),
        Task::Allocate => allocate(),
        Task::Stack => print(stack(0).to_string().as_bytes()),
        Task::Panic { message } => panic!("{message}"),
        Task::Abort => std::process::abort(),
        Task::Sleep { ms } => std::thread::sleep(Duration::from_millis(ms)),
        Task::Witness { ms, value } => {
            eprintln!("start");
            std::thread::sleep(Duration::from_millis(ms));
            eprintln!("end");
            print(value.to_string().as_bytes());
        }
        Task::Exit { code, message } => stop(code, &message),
        Task::Print { text } => print(text.as_bytes()),
        Task::StderrFlood { lines } => stderr_flood(lines),
        Task::StdoutFlood { bytes } => stdout_flood(bytes),
        Task::Env => print(environment().to_string().as_bytes()),
        Task::Fs => print(file_system().to_string().as_bytes()),
    }
}

fn stop(code: i32, message: &str) -> ! {
    eprintln!("{message}");
    std::process::exit(code);
}

fn print(bytes: &[u8]) {
    let mut output = std::io::stdout().lock();
    if let Err(error) = output.write_all(bytes).and_then(|()| output.flush()) {
        stop(TRY_AGAIN, &format!("writing the result: {error}"));
    }
}

/// The counter is looked at, so that the loop is not optimised away.
fn spin() -> ! {
    let mut count: u64 = 0;
    loop {
        count = black_box(count.wrapping_add(1));
    }
}

fn allocate() -> ! {
    let mut kept: Vec<Vec<u8>> = Vec::new();
    loop {
        kept.push(black_box(vec![1; 1024 * 1024]));
        black_box(&kept);
    }
}

/// The limit is never reached; it only keeps the compiler from seeing that this never ends.
fn stack(depth: u64) -> u64 {
    if black_box(depth) == u64::MAX {
        return 0;
    }
    stack(depth + 1).wrapping_add(depth)
}

fn stderr_flood(lines: u64) {
    for line in 0..lines {
        if line % 4 == 3 {
            eprintln!("{}", json!({ "level": "debug", "msg": format!("line {line} of {lines}") }));
        } else {
            eprintln!("line {line} of {lines}");
        }
    }
}

/// Written in pieces, so that the host's limit is met before the guest's memory is.
fn stdout_flood(bytes: usize) {
    const PIECE: [u8; 4096] = [b'x'; 4096];
    let mut left = bytes.saturating_sub(2);
    print(b"\"");
    while left > 0 {
        let size = left.min(PIECE.len());
        print(&PIECE[..size]);
        left -= size;
    }
    print(b"\"");
}

fn environment() -> Value {
    let variables: BTreeMap<String, String> = std::env::vars().collect();
    json!({ "variables": variables, "arguments": std::env::args().collect::<Vec<_>>() })
}

fn file_system() -> Value {
    let read = std::fs::read("/etc/passwd").map(|bytes| bytes.len());
    let write = std::fs::write("/tmp/probe", "x");
    json!({
        "read": read.map_err(|error| error.to_string()),
        "write": write.map_err(|error| error.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_read_from_their_words() {
        let task = |text| serde_json::from_str::<Task>(text).expect("a task");
        assert!(matches!(task(r#"{"do":"exit","code":75}"#), Task::Exit { code: 75, .. }));
        assert!(matches!(
            task(r#"{"do":"stderr-flood","lines":2}"#),
            Task::StderrFlood { lines: 2 }
        ));
    }
}
