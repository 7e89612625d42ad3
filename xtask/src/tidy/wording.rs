//! The measures of names and comments stay within their bounds.

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
    fn a_measure_beyond_its_bound_is_found() {
        let file = |text: &str| Repository::from_texts(&[("crates/a/src/x.rs", text)]);
        assert_finds(
            find_exceeded_measures,
            &file("// A comment.\nstruct StoredOutcome;\nfn read_outcome() {}\n"),
            &[],
        );
        let expect = "the workspace: comment lines with \"what\": 100.0 % (bound <= 3): beyond its bound";
        assert_finds(
            find_exceeded_measures,
            &file("// What it is.\nstruct StoredOutcome;\nfn read_outcome() {}\n"),
            &[expect],
        );
        let expect =
            "the workspace: mean length of a function name: 1.0 letters (bound >= 11): beyond its bound";
        assert_finds(find_exceeded_measures, &file("struct StoredOutcome;\nfn f() {}\n"), &[expect]);
    }
}
