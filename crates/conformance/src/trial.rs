//! Shared code of the runner's tests: a case, changed in one place.

use crate::case::split_cases;
use crate::dialect::FixtureDialect;
use crate::execute::execute_case;
use crate::yaml::parse_document;

/// Runs the cases of a text and returns everything that failed.
pub(crate) fn failures(text: &str) -> Vec<String> {
    failures_in(FixtureDialect::Graph, text)
}

/// Runs the cases of a text in a dialect and returns everything that failed.
pub(crate) fn failures_in(dialect: FixtureDialect, text: &str) -> Vec<String> {
    let cases = split_cases(parse_document(text).unwrap(), "case", dialect).unwrap();
    cases.into_iter().flat_map(execute_case).map(|it| it.to_string()).collect()
}

/// Changes a case in one place, which it must have, and returns the failures of the changed case.
pub(crate) fn changed(case: &str, from: &str, to: &str) -> Vec<String> {
    assert!(case.contains(from), "{from}");
    failures(&case.replacen(from, to, 1))
}
