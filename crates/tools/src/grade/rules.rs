//! The table of the rules: patterns that look dangerous, and why.

mod code;
mod files;
mod paths;
mod system;
mod windows;

use super::command::{ParsedCommand, ParsedCommandLine};
use super::{GradingRule, Platform, Severity};

/// The test of a rule.
#[derive(Debug)]
pub(super) enum RuleMatcher {
    /// One of the commands.
    Each(fn(&ParsedCommand) -> bool),
    /// The line as a whole.
    Line(fn(&ParsedCommandLine) -> bool),
}

impl RuleMatcher {
    pub(super) fn holds(&self, script: &ParsedCommandLine) -> bool {
        match self {
            Self::Each(test) => script.commands.iter().any(test),
            Self::Line(test) => test(script),
        }
    }
}

/// The columns of a rule, in order.
type Row = (&'static str, &'static str, &'static str, Severity, Platform);

const fn rule(row: Row, description: &'static str, test: RuleMatcher) -> GradingRule {
    let (id, category, label, severity, platform) = row;
    GradingRule { id, label, description, category, severity, platform, test }
}

/// Returns the table.
pub(super) fn all() -> impl Iterator<Item = &'static GradingRule> {
    [files::RULES, system::RULES, code::RULES, windows::RULES].into_iter().flatten()
}
