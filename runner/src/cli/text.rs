//! Makes text from strangers fit for a terminal: names, messages and log lines come from handlers,
//! which are not trusted, and terminals obey what they are sent.

use stokehold_domain::problem::clean;

/// One line: control characters are neutralised, line feeds and tabs become spaces.
pub(crate) fn one_line(text: &str) -> String {
    clean(text, text.len()).replace(['\n', '\t'], " ")
}

/// Several lines: control characters other than line feed and tab are neutralised.
pub(crate) fn block(text: &str) -> String {
    clean(text, text.len())
}

/// The same JSON with every character that a terminal might obey, or that hides or reorders text,
/// written as an escape. Such characters stand inside strings only, so the value stays the same.
pub(crate) fn escape_json(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    let mut buffer = [0; 4];
    for c in json.chars() {
        if clean(c.encode_utf8(&mut buffer), 4).starts_with(c) {
            escaped.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                escaped.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    escaped
}

/// The plural of a word with its number: `1 job`, `3 jobs`.
pub(crate) fn counted(number: usize, word: &str) -> String {
    format!("{number} {word}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_never_sent_what_it_would_obey() {
        assert_eq!(one_line("a\x1b[2Jb\nc\td\u{9b}31m"), "a\u{fffd}[2Jb c d\u{fffd}31m");
        assert_eq!(block("a\r\nb"), "a\u{fffd}\nb");
    }

    #[test]
    fn escaped_json_is_the_same_value() {
        let value = serde_json::json!({"a": "x\u{9b}y\u{202e}z\u{1b}é\u{fffd}", "b": ["\n", "\t"]});
        let text = escape_json(&serde_json::to_string_pretty(&value).unwrap());
        assert!(!text.contains(['\u{9b}', '\u{202e}', '\u{1b}']));
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
