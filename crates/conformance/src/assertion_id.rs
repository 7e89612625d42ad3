//! Ids of assertions: keys at the end of a path, or in the middle of a path, by which a table names the assertions of
//! a case.

/// The id of an assertion: keys that follow each other in its path, as in `error.category`. A key with a number in
/// brackets is that item of its list; a key without a number is every item. `a|b` names the assertions of both ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AssertionId(pub(crate) &'static str);

impl AssertionId {
    /// Tells whether the assertion of this path is one of those that the id names.
    #[must_use]
    pub(crate) fn matches_path(self, path: &str) -> bool {
        let path: Vec<&str> = path.split('.').collect();
        self.0.split('|').any(|keys| {
            let keys: Vec<&str> = keys.split('.').collect();
            path.windows(keys.len())
                .any(|window| window.iter().zip(&keys).all(|(step, key)| step_matches_key(step, key)))
        })
    }
}

/// Checks whether a step of a path, as `list[1]`, matches a key.
fn step_matches_key(step: &str, key: &str) -> bool {
    step == key || step.split('[').next() == Some(key)
}

/// Tells whether a place lies at or below an assertion's path, so that the assertion reads it.
#[must_use]
pub(crate) fn is_within_assertion(place: &str, assertion: &str) -> bool {
    place.strip_prefix(assertion).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_names_whole_keys_that_follow_each_other() {
        for (id, path, names) in [
            ("it", "invocations[1].expected.it", true),
            ("expected.it", "invocations[1].expected.it", true),
            ("it", "invocations[1].expected.it.part", true),
            ("final_state|it", "invocations[1].expected.it", true),
            ("invocations.expected", "invocations[1].expected.it", true),
            ("invocations[1]", "invocations[1].expected.it", true),
            ("invocations[0]", "invocations[1].expected.it", false),
            ("invocations.it", "invocations[1].expected.it", false),
            ("t", "invocations[1].expected.it", false),
            ("final_state", "invocations[1].expected.it", false),
        ] {
            assert_eq!(AssertionId(id).matches_path(path), names, "{id} {path}");
        }
    }

    #[test]
    fn an_assertion_reads_what_lies_below_it() {
        assert!(is_within_assertion("a.b", "a.b"));
        assert!(is_within_assertion("a.b[0].c", "a.b"));
        assert!(!is_within_assertion("a.bc", "a.b"));
        assert!(!is_within_assertion("a", "a.b"));
    }
}
