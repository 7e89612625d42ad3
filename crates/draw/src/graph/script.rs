//! The lines of a picture that is a text.

use std::fmt::Write as _;

/// Lines, each indented by its nesting depth, and names for the elements that they draw.
#[derive(Default)]
pub(super) struct DiagramText {
    pub(super) text: String,
    /// How many names were given; those of nodes are no identifiers.
    named: usize,
    /// How deep the next line is nested.
    pub(super) depth: usize,
}

impl DiagramText {
    /// Adds a line.
    pub(super) fn push_line(&mut self, text: &str) {
        let indent = self.depth * 2;
        // A text takes everything.
        let _ = writeln!(self.text, "{:indent$}{text}", "");
    }

    /// Returns a name that nothing else has.
    pub(super) fn next_id(&mut self) -> String {
        self.named += 1;
        format!("n{}", self.named)
    }
}
