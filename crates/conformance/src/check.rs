//! Asserting: every assertion is counted under its path, so that an invariant can be shown to restate one that was
//! made.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::assertion_id::AssertionId;
use crate::failure::{CaseFailure, Outcome};
use crate::fields::LocatedNode;
use crate::matcher::{ExtraKeyPolicy, TokenBindings, ValueMatcher};

/// Collects the failures, and the paths of all assertions that were made.
#[derive(Debug, Default)]
pub(crate) struct AssertionChecker {
    /// The failed assertions and reading failures.
    pub(crate) failures: Vec<CaseFailure>,
    /// The values of tokens.
    pub(crate) bindings: TokenBindings,
    /// The paths of the assertions that were made.
    pub(crate) asserted: BTreeSet<String>,
    /// The invariants that only restated assertions that were made.
    pub(crate) restated: BTreeSet<String>,
}

impl AssertionChecker {
    /// Adds the failure of something that gave none of its values.
    pub(crate) fn unwrap_or_record<T>(&mut self, outcome: Outcome<T>) -> Option<T> {
        outcome.map_err(|error| self.failures.push(error)).ok()
    }

    /// Asserts that a value matches the fixture's value.
    pub(crate) fn check_value(&mut self, spot: &LocatedNode, actual: &Value, extra: ExtraKeyPolicy) {
        if let Some(matcher) = self.unwrap_or_record(ValueMatcher::from_yaml_node(spot)) {
            let checked = matcher.match_value(actual, extra, &mut self.bindings);
            self.check_result(&spot.path, checked);
        }
    }

    /// Asserts that a value is exactly the fixture's value.
    pub(crate) fn check_exact(&mut self, spot: &LocatedNode, actual: impl Into<Value>) {
        self.check_value(spot, &actual.into(), ExtraKeyPolicy::Refused);
    }

    /// Asserts that something holds, and counts it under a path.
    pub(crate) fn check_result(&mut self, path: &str, checked: Result<(), String>) {
        self.asserted.insert(path.to_owned());
        if let Err(what) = checked {
            self.failures.push(CaseFailure::assertion_error(path, what));
        }
    }

    /// Asserts that a truth value is the fixture's truth value.
    pub(crate) fn check_truth(&mut self, spot: &LocatedNode, actual: Result<(), String>) {
        let Some(wanted) = self.unwrap_or_record(spot.as_bool()) else { return };
        let checked = match (wanted, actual) {
            (true, Err(what)) => Err(what),
            (false, Ok(())) => Err("the fixture says that this is not so, and it is".into()),
            (true, Ok(())) | (false, Err(_)) => Ok(()),
        };
        self.check_result(&spot.path, checked);
    }

    /// Tells whether an assertion with this id was made.
    #[must_use]
    pub(crate) fn has_asserted(&self, id: &AssertionId) -> bool {
        self.asserted.iter().any(|path| id.matches_path(path))
    }

    /// Returns how many assertions were made.
    #[must_use]
    pub(crate) fn assertion_count(&self) -> usize {
        self.asserted.len()
    }
}

/// Says that something holds, or why not.
///
/// # Errors
/// With the words, when it does not.
pub(crate) fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml::parse_document;

    fn spot(text: &str) -> LocatedNode {
        LocatedNode::new(parse_document(text).unwrap(), "invocations[1].expected.it")
    }

    #[test]
    fn a_truth_value_is_asserted_both_ways() {
        for (said, is, fails) in [
            ("true", Ok(()), false),
            ("true", Err("no".to_owned()), true),
            ("false", Ok(()), true),
            ("false", Err("no".to_owned()), false),
            ("7", Ok(()), true),
        ] {
            let mut checker = AssertionChecker::default();
            checker.check_truth(&spot(said), is.clone());
            assert_eq!(!checker.failures.is_empty(), fails, "{said} {is:?}");
        }
    }
}
