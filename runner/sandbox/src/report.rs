//! What comes out of an attempt.

use stokehold_domain::{LogLine, Outcome, Receipt};

/// One attempt, ended.
#[derive(Clone, Debug)]
pub struct Report {
    /// How it ended.
    pub outcome: Outcome,
    /// What it used, whatever the outcome.
    pub receipt: Receipt,
    /// The lines it logged that nobody took with
    /// [`Control::take_new_lines`](crate::Control::take_new_lines) while it ran. The lines taken and
    /// these, in that order, are the whole log, within the limit of log bytes.
    pub log: Vec<LogLine>,
}
