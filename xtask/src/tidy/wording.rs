//! The measures of names and comments that have reached their bounds stay within them.

use super::TidyFinding;
use crate::{Repository, measure_language};

pub(super) fn find_exceeded_measures(repo: &Repository) -> Vec<TidyFinding> {
    let beyond = measure_language(repo).into_iter().filter(|measure| !measure.is_within_bound());
    beyond.map(|measure| TidyFinding::new("wording", "the workspace", measure.to_string())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_finds;

    #[test]
    fn a_measure_beyond_its_bound_is_found_and_one_that_was_never_reached_is_not() {
        let file = |text: &str| Repository::from_texts(&[("crates/a/src/x.rs", text)]);
        assert_finds(find_exceeded_measures, &file("// A comment.\nstruct StoredOutcome;\nfn f() {}\n"), &[]);
        let expect = "the workspace: comment lines with \"what\": 100.0 % (bound <= 3): beyond its bound";
        assert_finds(find_exceeded_measures, &file("// What it is.\nstruct StoredOutcome;\n"), &[expect]);
    }
}
