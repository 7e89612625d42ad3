//! The table of the rules: patterns that look dangerous, and why.

mod code;
mod files;
mod paths;
mod system;
mod windows;

use super::command::{Command, Script};
use super::{Platform, Rule, Severity};

/// The test of a rule.
#[derive(Debug)]
pub(super) enum Test {
    /// One of the commands.
    Each(fn(&Command) -> bool),
    /// The line as a whole.
    Line(fn(&Script) -> bool),
}

impl Test {
    pub(super) fn holds(&self, script: &Script) -> bool {
        match self {
            Self::Each(test) => script.commands.iter().any(test),
            Self::Line(test) => test(script),
        }
    }
}

/// The columns of a rule, in order.
type Row = (&'static str, &'static str, &'static str, Severity, Platform);

const fn rule(row: Row, description: &'static str, test: Test) -> Rule {
    let (id, category, label, severity, platform) = row;
    Rule { id, label, description, category, severity, platform, test }
}

/// Returns the table.
pub(super) fn all() -> impl Iterator<Item = &'static Rule> {
    [files::RULES, system::RULES, code::RULES, windows::RULES].into_iter().flatten()
}
