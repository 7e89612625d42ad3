//! The rules that a chat can break, one name each.

use std::fmt;

use serde::Serialize;

/// A promise that was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditRule {
    /// Something that was accepted or told is not stored (INV-2).
    Lost,
    /// Something that happened once is stored twice, or a key or a wait has two turns (INV-2, INV-7).
    Doubled,
    /// The stored turns are not in the order of acceptance, or one turn stands inside another (INV-1).
    Reordered,
    /// A turn that was answered before another was asked for comes after it (INV-1).
    Overtaken,
    /// The told outcome is not the stored outcome (INV-3).
    Contradicted,
    /// A reply without its message, or a tool call without its answer (INV-6).
    Orphaned,
    /// Something is stored that nobody asked for, or that was refused.
    Invented,
    /// A turn without an outcome that nothing will end, or a call that was never answered (INV-8).
    Stuck,
    /// A tool had its effect more often than the process died (D7).
    Repeated,
}

impl AuditRule {
    /// All of them, in the order of reports.
    pub const ALL: [Self; 9] = [
        Self::Lost,
        Self::Doubled,
        Self::Reordered,
        Self::Overtaken,
        Self::Contradicted,
        Self::Orphaned,
        Self::Invented,
        Self::Stuck,
        Self::Repeated,
    ];

    /// Returns its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Doubled => "doubled",
            Self::Reordered => "reordered",
            Self::Overtaken => "overtaken",
            Self::Contradicted => "contradicted",
            Self::Orphaned => "orphaned",
            Self::Invented => "invented",
            Self::Stuck => "stuck",
            Self::Repeated => "repeated",
        }
    }
}

impl fmt::Display for AuditRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One broken promise, where, and in one line why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RuleViolation {
    /// Which promise.
    pub rule: AuditRule,
    /// In which session.
    pub session: String,
    /// A description of the violation, on one line.
    pub why: String,
}

impl fmt::Display for RuleViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {}: {}", self.rule, self.session, self.why)
    }
}
