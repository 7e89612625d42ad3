//! A `select!` in a library polls its branches in their order: an unbiased one draws the order from a random source that
//! no environment can replace (INV-11).

use super::TidyFinding;
use crate::Repository;

/// Programs, tests and examples may choose at random.
const FREE: &[&str] =
    &["crates/cli/", "crates/conformance/", "crates/torture/", "examples/", "bench/", "xtask/"];

pub(super) fn find_unbiased_selects(repo: &Repository) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    for (file, source) in repo.rust_files() {
        let in_library =
            file.path.starts_with("crates/") && file.folder().split('/').any(|part| part == "src");
        if !in_library || FREE.iter().any(|free| file.path.starts_with(free)) {
            continue;
        }
        let tests_from = file.first_test_line().unwrap_or(usize::MAX);
        for at in source.word_offsets("select") {
            // Other macros may have this name, so tokio's is never imported.
            if !source.code[..at].ends_with("tokio::") {
                continue;
            }
            let after = source.code[at + "select".len()..].trim_start();
            let first = after.trim_start_matches(['!', '{', '(', '[', ' ', '\n']);
            let line = source.line_at_offset(at);
            if line < tests_from && !first.starts_with("biased;") {
                let what = "a select! without `biased;` polls in random order";
                findings.push(TidyFinding::at_line("select", file, line, what));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_finds;

    #[test]
    fn an_unbiased_select_is_found_in_libraries_only() {
        let unbiased = "\ntokio::select! {\n    a = b => c,\n}\n";
        let imported = "use tokio::select;\n";
        let why = "crates/x/src/y.rs:1: a select! without `biased;` polls in random order";
        assert_finds(
            find_unbiased_selects,
            &Repository::from_texts(&[("crates/x/src/y.rs", imported)]),
            &[why],
        );
        let what = "crates/x/src/y.rs:2: a select! without `biased;` polls in random order";
        assert_finds(
            find_unbiased_selects,
            &Repository::from_texts(&[("crates/x/src/y.rs", unbiased)]),
            &[what],
        );
        for path in ["crates/cli/src/y.rs", "crates/x/tests/it/y.rs", "bench/src/y.rs"] {
            assert_finds(find_unbiased_selects, &Repository::from_texts(&[(path, unbiased)]), &[]);
        }
        for code in [
            "tokio::select! {\n    biased;\n    a = b => c,\n}\n",
            "fn select() {}\n",
            "select!(a);\n",
            "// tokio::select! {}\n",
        ] {
            assert_finds(find_unbiased_selects, &Repository::from_texts(&[("crates/x/src/y.rs", code)]), &[]);
        }
    }
}
