//! Tidy: the rules of the repository that a machine can check. One file per rule.

mod absences;
mod edges;
mod errors;
mod external;
mod inert;
mod invariants;
mod keys;
mod links;
mod lock_ceiling;
mod marks;
mod modules;
mod plan;
mod requirements;
mod sizes;
mod unexercised;
mod wording;

use std::fmt;

pub use edges::edges;
pub use errors::missing_pages;

use crate::Repository;
use crate::repo::SourceFile;

/// One place where a rule is broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TidyFinding {
    rule: &'static str,
    place: String,
    what: String,
}

impl TidyFinding {
    fn new(rule: &'static str, place: impl Into<String>, what: impl Into<String>) -> Self {
        Self { rule, place: place.into(), what: what.into() }
    }

    fn at(rule: &'static str, file: &SourceFile, line: usize, what: impl Into<String>) -> Self {
        Self::new(rule, format!("{}:{line}", file.path), what)
    }
}

impl fmt::Display for TidyFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} [{}]", self.place, self.what, self.rule)
    }
}

/// Runs every check and returns their findings, rule by rule.
#[must_use]
pub fn tidy(repo: &Repository) -> Vec<TidyFinding> {
    let checks: [fn(&Repository) -> Vec<TidyFinding>; 16] = [
        edges::check,
        external::check,
        inert::check,
        plan::check,
        absences::check,
        modules::check,
        sizes::check,
        marks::check,
        invariants::check,
        requirements::check,
        errors::check,
        lock_ceiling::check,
        unexercised::check,
        links::check,
        keys::check,
        wording::check,
    ];
    checks.iter().flat_map(|check| check(repo)).collect()
}

/// Asserts that a check finds exactly these faults, each written as its place and its text.
#[cfg(test)]
fn assert_finds(check: fn(&Repository) -> Vec<TidyFinding>, repo: &Repository, expect: &[&str]) {
    let found: Vec<String> =
        check(repo).iter().map(|finding| format!("{}: {}", finding.place, finding.what)).collect();
    assert_eq!(found, expect);
}
