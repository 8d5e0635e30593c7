//! What is wrong with the input, and where.

use std::fmt;

/// A place in a text: both count from 1, columns in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

impl Place {
    /// Where a text begins.
    pub(crate) const START: Self = Self { line: 1, column: 1 };

    /// Moves past a character.
    pub(crate) fn pass(&mut self, character: char) {
        if character == '\n' {
            self.line += 1;
            self.column = 1;
        } else {
            self.column += 1;
        }
    }
}

/// What is wrong, and where.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    place: Place,
    message: String,
}

impl Fault {
    /// A fault at a place.
    pub(crate) fn at(place: Place, message: impl Into<String>) -> Self {
        Self { place, message: message.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { line, column } = self.place;
        write!(f, "line {line}, column {column}: {}", self.message)
    }
}
