//! What the demo shows: jobs that work, jobs that fail in every way that matters, and how each ended.

pub(crate) mod inputs;
pub(crate) mod scenes;
