//! The result of an audit.

use std::fmt;

use serde::Serialize;

use crate::rule::{AuditRule, RuleViolation};

/// The counts and violations of an audit. Written out, it is one line of counts and one line per violation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct AuditReport {
    /// How many sessions.
    pub sessions: u64,
    /// How many calls clients made.
    pub calls: u64,
    /// How many turns clients were given.
    pub given: u64,
    /// How many outcomes clients were told.
    pub told: u64,
    /// How many turns are stored.
    pub stored: u64,
    /// How many effects were noted.
    pub effects: u64,
    /// The violations.
    pub violations: Vec<RuleViolation>,
}

impl AuditReport {
    /// Returns how many violations there are of a rule.
    #[must_use]
    pub fn count_violations(&self, rule: AuditRule) -> usize {
        self.violations.iter().filter(|violation| violation.rule == rule).count()
    }

    /// Tells whether nothing is wrong.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.violations.is_empty()
    }

    /// Adds the result of another audit, of other sessions.
    pub fn merge_report(&mut self, other: Self) {
        self.sessions += other.sessions;
        self.calls += other.calls;
        self.given += other.given;
        self.told += other.told;
        self.stored += other.stored;
        self.effects += other.effects;
        self.violations.extend(other.violations);
    }
}

impl fmt::Display for AuditReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sessions, calls, given, told, stored, effects, violations } = self;
        write!(f, "{sessions} sessions, {calls} calls, {given} turns given, {told} outcomes told, ")?;
        write!(f, "{stored} turns stored, {effects} effects:")?;
        for (at, rule) in AuditRule::ALL.into_iter().enumerate() {
            write!(f, "{} {} {rule}", if at == 0 { "" } else { "," }, self.count_violations(rule))?;
        }
        violations.iter().try_for_each(|violation| write!(f, "\n{violation}"))
    }
}
