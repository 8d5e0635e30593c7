//! Where a command's words go: data to stdout, as text for people or as one JSON document for
//! programs; everything else to stderr.

use std::io::{self, IsTerminal, Write};

use comfy_table::{
    Attribute, Cell, Color, ColumnConstraint, ContentArrangement, Table, Width, presets,
};
use console::Style;
use serde::Serialize;

use super::fault::Fault;
use super::text::{block, escape_json, one_line};

/// Blanks between columns.
const COLUMN_GAP: u16 = 2;
/// Words up to this width are never broken.
const UNBROKEN: u16 = 64;

/// How to print, decided once at start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    json: bool,
    stdout_is_terminal: bool,
    colour: bool,
}

impl Output {
    /// Text or JSON; colours as terminal and `NO_COLOR` say.
    pub(crate) fn new(json: bool) -> Self {
        Output {
            json,
            stdout_is_terminal: io::stdout().is_terminal(),
            colour: console::colors_enabled(),
        }
    }

    /// Programs read the output.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// People read the output.
    pub(crate) fn is_terminal(&self) -> bool {
        self.stdout_is_terminal
    }

    /// Someone is there to answer a question.
    pub(crate) fn is_interactive(&self) -> bool {
        !self.json && io::stdin().is_terminal() && io::stderr().is_terminal()
    }

    /// The one JSON document.
    pub(crate) fn document<T: Serialize>(&self, value: &T) -> io::Result<()> {
        let text = if self.stdout_is_terminal {
            escape_json(&serde_json::to_string_pretty(value)?)
        } else {
            serde_json::to_string(value)?
        };
        self.raw(format!("{text}\n").as_bytes())
    }

    /// A line of data, of our own words or of text already made fit to print.
    pub(crate) fn line(&self, text: impl AsRef<str>) -> io::Result<()> {
        self.raw(format!("{}\n", text.as_ref()).as_bytes())
    }

    /// Bytes of data, as they are.
    pub(crate) fn raw(&self, bytes: &[u8]) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(bytes)?;
        stdout.flush()
    }

    /// A stranger's text: made fit for a terminal when it goes to one, as it is otherwise.
    pub(crate) fn foreign_text(&self, text: &str) -> io::Result<()> {
        let text = if self.stdout_is_terminal { block(text) } else { text.to_owned() };
        let end = if self.stdout_is_terminal && !text.ends_with('\n') { "\n" } else { "" };
        self.raw(format!("{text}{end}").as_bytes())
    }

    /// A remark for whoever watches, on stderr. That nobody can read it is no failure.
    pub(crate) fn note(&self, text: impl AsRef<str>) {
        drop(writeln!(io::stderr().lock(), "{}", text.as_ref()));
    }

    /// Asks before something that cannot be undone; where nobody can answer, it is refused with `would`, which
    /// says what would be done.
    pub(crate) fn confirm(&self, question: &str, would: &str) -> anyhow::Result<bool> {
        if !self.is_interactive() {
            let fault = Fault::usage(format!("{would}; nothing was"));
            return Err(fault.hint("Say --yes to do it without a question.").into());
        }
        write!(io::stderr(), "{question}? [y/N] ")?;
        let mut answer = String::new();
        io::stdin().read_line(&mut answer)?;
        Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
    }

    /// Rows under a header, as wide as the terminal. Every cell is made fit to print.
    pub(crate) fn table<const N: usize>(
        &self,
        header: [&str; N],
        rows: impl IntoIterator<Item = [String; N]>,
    ) -> io::Result<()> {
        self.part_of_table(header, true, rows)
    }

    /// One part of a long table, of which only the first shows the header.
    pub(crate) fn part_of_table<const N: usize>(
        &self,
        header: [&str; N],
        is_first: bool,
        rows: impl IntoIterator<Item = [String; N]>,
    ) -> io::Result<()> {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
        table.set_header(header.map(|title| {
            let cell = Cell::new(title);
            if self.colour { cell.add_attribute(Attribute::Bold) } else { cell }
        }));
        let mut widest = header.map(longest_word);
        for row in rows {
            let row = row.map(|text| one_line(&text));
            for (widest, text) in widest.iter_mut().zip(&row) {
                *widest = longest_word(text).max(*widest);
            }
            table.add_row(row.map(|text| self.cell(&text)));
        }
        for (column, widest) in table.column_iter_mut().zip(widest) {
            column.set_padding((0, COLUMN_GAP));
            // An id or name broken in two reads worse than a line too long.
            let width = Width::Fixed(widest.min(UNBROKEN) + COLUMN_GAP);
            column.set_constraint(ColumnConstraint::LowerBoundary(width));
        }
        let lines: Vec<String> = table
            .lines()
            .skip(usize::from(!is_first))
            .map(|line| line.trim_end().to_owned())
            .collect();
        self.line(lines.join("\n"))
    }

    /// Names with values, one a line, values aligned. Every value is made fit to print.
    pub(crate) fn fields(&self, fields: &[(&str, String)]) -> io::Result<()> {
        let width = fields.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
        let bold = self.style().bold();
        for (name, value) in fields {
            let name = bold.apply_to(format!("{name:<width$}"));
            let indent = format!("\n{:1$}", "", width + 2);
            self.line(format!("{name}  {}", block(value).trim_end().replace('\n', &indent)))?;
        }
        Ok(())
    }

    fn cell(&self, text: &str) -> Cell {
        let cell = Cell::new(text);
        // Never colour alone: the word stands there too.
        match text {
            _ if !self.colour => cell,
            "completed" | "live" => cell.fg(Color::Green),
            "discarded" | "dead" => cell.fg(Color::Red),
            "retryable" | "cancelled" => cell.fg(Color::Yellow),
            "running" => cell.fg(Color::Cyan),
            _ => cell,
        }
    }

    fn style(&self) -> Style {
        Style::new().force_styling(self.colour && self.stdout_is_terminal)
    }
}

fn longest_word(text: &str) -> u16 {
    let widths = text.split(' ').map(console::measure_text_width);
    widths.max().and_then(|width| u16::try_from(width).ok()).unwrap_or_default()
}

/// An optional value as a cell.
pub(crate) fn or_dash<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}
