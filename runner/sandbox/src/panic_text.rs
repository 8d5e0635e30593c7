//! Finds the message of a panic in what the guest printed before it trapped, because "wasm
//! `unreachable` instruction executed" helps nobody.

/// Lines of one message that are kept.
const MAX_LINES: usize = 20;

/// Reads lines of standard error and remembers the last panic among them.
#[derive(Debug, Default)]
pub(crate) struct PanicText {
    text: Option<String>,
    at: Option<String>,
    open_lines: usize,
}

impl PanicText {
    /// Reads the next line.
    pub(crate) fn read(&mut self, line: &str) {
        if let Some(start) = begin(line) {
            (self.text, self.at, self.open_lines) = (start.text, start.at, start.open_lines);
            return;
        }
        if self.open_lines == 0 {
            return;
        }
        // Rust ends a message with a note, Go with the stack of the goroutine.
        if line.starts_with("note: ")
            || line.starts_with("goroutine ")
            || line.starts_with("stack ")
        {
            self.open_lines = 0;
            return;
        }
        self.open_lines -= 1;
        let text = self.text.get_or_insert_default();
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(line);
    }

    /// The message and where it was raised, if a panic was printed.
    pub(crate) fn message(&self) -> Option<String> {
        let text = self.text.as_deref().map(str::trim_end).unwrap_or_default();
        match &self.at {
            Some(at) if text.is_empty() => Some(format!("at {at}")),
            Some(at) => Some(format!("{text} at {at}")),
            None => (!text.is_empty()).then(|| text.to_owned()),
        }
    }
}

struct Begun {
    text: Option<String>,
    at: Option<String>,
    open_lines: usize,
}

fn begin(line: &str) -> Option<Begun> {
    if let Some((thread, rest)) = line.split_once(" panicked at ")
        && thread.trim_start().starts_with("thread '")
    {
        return Some(rust(rest));
    }
    // Rust without a thread: the panic message alone, as `core` formats it.
    if let Some(rest) = line.strip_prefix("panicked at ") {
        return Some(rust(rest));
    }
    let (text, open_lines) = if let Some(text) = line.strip_prefix("panic: ") {
        (text, MAX_LINES) // Go and TinyGo
    } else if let Some(text) = line.strip_prefix("fatal error: ") {
        (text, MAX_LINES) // the Go runtime
    } else if line.starts_with("Assertion failed: ") || line.starts_with("abort: ") {
        (line, 0) // wasi-libc, AssemblyScript
    } else {
        return None;
    };
    Some(Begun { text: Some(text.to_owned()), at: None, open_lines })
}

/// New form: `src/lib.rs:1:2:` and the message on the lines after. Old form, before Rust 1.73:
/// `'the message', src/lib.rs:1:2`.
fn rust(rest: &str) -> Begun {
    if let Some(at) = rest.strip_suffix(':') {
        return Begun { text: None, at: Some(at.to_owned()), open_lines: MAX_LINES };
    }
    let old = rest.strip_prefix('\'').and_then(|rest| rest.rsplit_once("', "));
    match old {
        Some((text, at)) => {
            Begun { text: Some(text.to_owned()), at: Some(at.to_owned()), open_lines: 0 }
        }
        None => Begun { text: Some(rest.to_owned()), at: None, open_lines: 0 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(lines: &[&str]) -> Option<String> {
        let mut panic = PanicText::default();
        lines.iter().for_each(|line| panic.read(line));
        panic.message()
    }

    #[test]
    fn both_forms_of_rust_and_those_of_others_are_read() {
        let note = "note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace";
        let new = ["", "thread 'main' (1) panicked at src/lib.rs:10:5:", "no card", "at all", note];
        assert_eq!(message(&new).unwrap(), "no card\nat all at src/lib.rs:10:5");
        let old = ["thread '<unnamed>' panicked at 'it's over', src/a.rs:3:7", note];
        assert_eq!(message(&old).unwrap(), "it's over at src/a.rs:3:7");
        let go = ["panic: boom", "", "goroutine 1 [running]:", "main.main()"];
        assert_eq!(message(&go).unwrap(), "boom");
        let c = ["Assertion failed: x > 0 (main.c: main: 4)"];
        assert_eq!(message(&c).unwrap(), c[0]);
    }

    #[test]
    fn the_last_panic_counts_and_ordinary_lines_do_not() {
        assert_eq!(message(&["we panicked at nothing", "done"]), None);
        let two = ["panicked at a.rs:1:1:", "first", "panicked at b.rs:2:2:", "second"];
        assert_eq!(message(&two).unwrap(), "second at b.rs:2:2");
    }

    #[test]
    fn a_message_without_end_is_cut() {
        let mut panic = PanicText::default();
        panic.read("panicked at a.rs:1:1:");
        (0..1000).for_each(|n| panic.read(&format!("line {n}")));
        assert_eq!(panic.message().unwrap().lines().count(), MAX_LINES);
    }
}
