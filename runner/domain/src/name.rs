//! Names of kinds, queues and runners.

/// The longest name, in bytes.
pub const MAX_NAME_BYTES: usize = 63;

/// Why a name was refused.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "{what} name {name:?} is not valid: 1 to {MAX_NAME_BYTES} of a-z, 0-9, '.', '_' and '-', \
     beginning with a letter or digit"
)]
pub struct InvalidName {
    what: &'static str,
    name: String,
}

/// Accepts lower-case ASCII letters, digits, `.`, `_` and `-`, beginning with a letter or digit, at
/// most 63 bytes. So a name is never a path, never markup and looks the same to everybody. The
/// tables repeat the rule as a CHECK.
pub fn check_name(what: &'static str, name: &str) -> Result<(), InvalidName> {
    let letter_or_digit = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let valid = name.len() <= MAX_NAME_BYTES
        && name.bytes().next().is_some_and(letter_or_digit)
        && name.bytes().all(|b| letter_or_digit(b) || b"._-".contains(&b));
    if valid { Ok(()) } else { Err(InvalidName { what, name: name.chars().take(80).collect() }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_be_paths_or_markup_are_refused() {
        for good in ["a", "image.resize", "0day", "a_b-c", &"x".repeat(63)] {
            assert_eq!(check_name("kind", good), Ok(()));
        }
        let long = "x".repeat(64);
        for bad in ["", "../x", "a/b", "A", ".a", "-a", "a b", "a\0", "é", "<b>", &long] {
            assert!(check_name("kind", bad).is_err(), "{bad:?} was accepted");
        }
    }
}
