//! The readings of the specifications that the code cites by number: each has a row with its tests.

use std::collections::BTreeSet;

use super::{TidyFinding, unexercised};
use crate::Repository;

const PAGE: &str = "docs/decisions/requirements.md";

/// The mark of a rule that is checked by something other than a test of this tree.
const ELSEWHERE: &str = "checked by: ";

pub(super) fn find_untested_requirements(repo: &Repository) -> Vec<TidyFinding> {
    let Some(page) = repo.find_file(PAGE) else {
        return vec![TidyFinding::new("requirements", PAGE, "is missing, and no rule is listed")];
    };
    let mut findings = Vec::new();
    let mut listed = BTreeSet::new();
    for (line, row) in (1..).zip(page.text.lines()).filter(|(_, row)| row.starts_with("| R")) {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        listed.extend(cited_numbers(cells[0]));
        let tests = cells.get(2).copied().unwrap_or_default();
        if tests.starts_with(ELSEWHERE) {
            continue;
        }
        let named = unexercised::tests_named_in_cell(repo, tests);
        if named.is_empty() {
            findings.push(TidyFinding::at_line(
                "requirements",
                page,
                line,
                format!("{} names no test", cells[0]),
            ));
        }
        for (test, _) in named.into_iter().filter(|(_, exists)| !exists) {
            findings.push(TidyFinding::at_line(
                "requirements",
                page,
                line,
                format!("there is no test {test}"),
            ));
        }
    }
    for file in repo.files.iter().filter(|file| file.path.ends_with(".rs")) {
        for (line, text) in (1..).zip(file.text.lines()) {
            let comment = text.split_once("//").map_or("", |(_, comment)| comment);
            for number in cited_numbers(comment).filter(|number| !listed.contains(number)) {
                let fault = format!("rule {number} has no row in {PAGE}");
                findings.push(TidyFinding::at_line("requirements", file, line, fault));
            }
        }
    }
    findings
}

/// Returns the numbers of the rules that a text cites: an R and one or two digits that stand alone.
fn cited_numbers(text: &str) -> impl Iterator<Item = u32> {
    text.split(|letter: char| !letter.is_alphanumeric() && letter != '_').filter_map(|word| {
        let digits = word.strip_prefix('R').filter(|digits| digits.len() <= 2)?;
        digits.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_finds;

    /// Puts the letter into the plants here, else they would be citations.
    fn with_letter(text: &str) -> String {
        text.replace('@', "R")
    }

    fn finds(row: &str, comment: &str, expect: &[&str]) {
        let page = with_letter(&format!("# A\n\n| number | rule | tests |\n|---|---|---|\n{row}\n"));
        let code = with_letter(&format!("#[test]\nfn one() {{}}\n// {comment}\nconst X: &str = \"@9\";\n"));
        let expect: Vec<String> = expect.iter().map(|text| with_letter(text)).collect();
        let expect: Vec<&str> = expect.iter().map(String::as_str).collect();
        assert_finds(
            find_untested_requirements,
            &Repository::from_texts(&[("a/it.rs", &code), (PAGE, &page)]),
            &expect,
        );
    }

    #[test]
    fn a_cited_rule_with_a_row_passes() {
        finds("| @1 | a | `a/it.rs` `one` |", "Why (@1, D2). The type HashR1 is none.", &[]);
        finds("| @12 | a | checked by: the fixtures |", "@12", &[]);
    }

    #[test]
    fn a_cited_rule_without_a_row_is_found() {
        let expect = ["a/it.rs:3: rule 2 has no row in docs/decisions/requirements.md"];
        finds("| @1 | a | `a/it.rs` `one` |", "Why (@1–@2).", &expect);
    }

    #[test]
    fn a_row_without_a_test_is_found() {
        finds("| @1 | a | later |", "", &["docs/decisions/requirements.md:5: @1 names no test"]);
        let expect = ["docs/decisions/requirements.md:5: there is no test 'two' in 'a/it.rs'"];
        finds("| @1 | a | `a/it.rs` `two` |", "", &expect);
    }

    #[test]
    fn a_missing_page_is_one_finding() {
        let expect = ["docs/decisions/requirements.md: is missing, and no rule is listed"];
        assert_finds(
            find_untested_requirements,
            &Repository::from_texts(&[("a/it.rs", "fn one() {}\n")]),
            &expect,
        );
    }
}
