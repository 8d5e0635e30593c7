//! Orders as comma-separated values: a header line, quotes where needed (RFC 4180).
//!
//! Written here rather than taken from a library because every fault must be told by line and
//! column, inside quotes and across lines too.

use crate::fault::{Fault, Place};
use crate::order::{FIELDS, OrderLine};

/// One value and where it starts.
#[derive(Debug, PartialEq, Eq)]
struct Cell {
    text: String,
    place: Place,
}

/// Reads a whole file.
pub(crate) fn read(text: &str) -> Result<Vec<OrderLine>, Fault> {
    let mut cells = Cells::new(text);
    let header = cells.row()?.ok_or_else(|| {
        Fault::at(Place::START, format!("no header line; it names {}", FIELDS.join(", ")))
    })?;
    let columns = columns(&header)?;
    let mut lines = Vec::new();
    while let Some(row) = cells.row()? {
        // An empty line is no order.
        if row.len() == 1 && row[0].text.is_empty() {
            continue;
        }
        if row.len() != header.len() {
            let message = format!("{} values, but the header names {}", row.len(), header.len());
            return Err(Fault::at(row[0].place, message));
        }
        let texts = columns.map(|column| row[column].text.as_str());
        let line = OrderLine::from_texts(texts).map_err(|bad| {
            let place = row[columns[bad.field]].place;
            Fault::at(place, format!("{}: {}", FIELDS[bad.field], bad.reason))
        })?;
        lines.push(line);
    }
    Ok(lines)
}

/// Where each field stands. Columns may be in any order, and others may be among them.
fn columns(header: &[Cell]) -> Result<[usize; 7], Fault> {
    let mut columns = [0; 7];
    for (field, name) in FIELDS.iter().enumerate() {
        columns[field] = header
            .iter()
            .position(|cell| cell.text.trim().eq_ignore_ascii_case(name))
            .ok_or_else(|| Fault::at(Place::START, format!("the header does not name {name}")))?;
    }
    Ok(columns)
}

struct Cells<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    place: Place,
}

impl<'a> Cells<'a> {
    fn new(text: &'a str) -> Self {
        Self { rest: text.chars().peekable(), place: Place::START }
    }

    /// The next line's values; none at the end.
    fn row(&mut self) -> Result<Option<Vec<Cell>>, Fault> {
        if self.rest.peek().is_none() {
            return Ok(None);
        }
        let mut row = Vec::new();
        loop {
            row.push(self.cell()?);
            match self.next() {
                Some(',') => {}
                Some('\r') if self.rest.peek() == Some(&'\n') => {
                    self.next();
                    return Ok(Some(row));
                }
                _ => return Ok(Some(row)),
            }
        }
    }

    /// The next value, up to and without what ends it.
    fn cell(&mut self) -> Result<Cell, Fault> {
        let place = self.place;
        if self.rest.peek() != Some(&'"') {
            let mut text = String::new();
            while let Some(&next) = self.rest.peek() {
                match next {
                    ',' | '\n' | '\r' => break,
                    '"' => {
                        return Err(Fault::at(self.place, "a quote inside a value without quotes"));
                    }
                    _ => text.push(next),
                }
                self.next();
            }
            return Ok(Cell { text, place });
        }
        self.next();
        let text = self.quoted(place)?;
        match self.rest.peek() {
            None | Some(',' | '\n' | '\r') => Ok(Cell { text, place }),
            Some(_) => Err(Fault::at(self.place, "text after a closing quote")),
        }
    }

    /// What stands between quotes; two quotes are one.
    fn quoted(&mut self, opened: Place) -> Result<String, Fault> {
        let mut text = String::new();
        loop {
            match self.next() {
                Some('"') if self.rest.peek() == Some(&'"') => {
                    self.next();
                    text.push('"');
                }
                Some('"') => return Ok(text),
                Some(other) => text.push(other),
                None => return Err(Fault::at(opened, "a quote that is never closed")),
            }
        }
    }

    fn next(&mut self) -> Option<char> {
        let next = self.rest.next()?;
        self.place.pass(next);
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "order_id,date,customer,product,quantity,unit_price,currency\n";

    fn fault(rows: &str) -> String {
        read(&format!("{HEADER}{rows}")).expect_err(rows).to_string()
    }

    #[test]
    fn quotes_empty_lines_and_windows_line_ends_are_read() {
        let text = "Currency,order_id,date,customer,product,quantity,unit_price,note\r\n\
                    EUR,1,2026-11-30,\"Ann, \"\"the\"\" Buyer\",Tea,1,2.00,\"two\r\nlines\"\r\n\
                    \r\n\
                    USD,2,2026-11-30,Bob,Tea,1,2.00,";
        let lines = read(text).expect("two lines");
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0].customer, "Ann, \"the\" Buyer");
        assert_eq!(lines[1].currency, "USD");
    }

    #[test]
    fn a_fault_is_told_by_line_and_column() {
        let good = "1,2026-11-30,Ann,Tea,1,2.00,EUR\n";
        assert_eq!(
            fault(&format!("{good}2,2026-11-30,\"A\nB\",Tea,1,free,EUR")),
            "line 4, column 10: unit_price: \"free\" is not a decimal number like 12.50"
        );
        assert_eq!(fault("1,2026-11-30,Ann"), "line 2, column 1: 3 values, but the header names 7");
        assert_eq!(fault("1,\"2026"), "line 2, column 3: a quote that is never closed");
        assert_eq!(fault("1,\"a\"b"), "line 2, column 6: text after a closing quote");
    }

    #[test]
    fn a_missing_column_is_named() {
        let fault = read("order_id,date\n").expect_err("no customer").to_string();
        assert_eq!(fault, "line 1, column 1: the header does not name customer");
        assert!(read("").expect_err("empty").to_string().contains("no header line"));
    }
}
