//! Tidy: the rules of the repository that a machine can check. One file per rule.

mod absences;
mod edges;
mod errors;
mod external;
mod floors;
mod inert;
mod invariants;
mod keys;
mod links;
mod lock_ceiling;
mod marks;
mod modules;
mod plan;
mod requirements;
mod select;
mod sizes;
mod unexercised;
mod wording;

use std::fmt;

pub use edges::describe_crate_edges;
pub use errors::missing_error_pages;

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

    fn at_line(rule: &'static str, file: &SourceFile, line: usize, what: impl Into<String>) -> Self {
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
pub fn find_violations(repo: &Repository) -> Vec<TidyFinding> {
    let checks: [fn(&Repository) -> Vec<TidyFinding>; 18] = [
        edges::find_forbidden_edges,
        external::find_forbidden_packages,
        floors::find_imports_from_above,
        inert::find_narration_readers,
        plan::find_impure_names,
        absences::find_global_state_and_environment,
        modules::find_misplaced_code,
        sizes::find_oversized_code,
        marks::find_forbidden_marks,
        invariants::find_untested_invariants,
        requirements::find_untested_requirements,
        errors::find_unmatched_categories,
        lock_ceiling::find_exceeded_ceiling,
        unexercised::find_missing_tests,
        links::find_broken_links,
        keys::find_undocumented_keys,
        wording::find_exceeded_measures,
        select::find_unbiased_selects,
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
