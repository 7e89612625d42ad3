//! The numbered invariants: every invariant that the code cites exists, and every invariant is tested.

use std::collections::{BTreeMap, BTreeSet};

use super::TidyFinding;
use crate::Repository;

const PAGE: &str = "ARCHITECTURE.md";

/// The mark of an invariant that is checked by something other than a test of this tree.
const ELSEWHERE: &str = "(checked by: ";

pub(super) fn find_untested_invariants(repo: &Repository) -> Vec<TidyFinding> {
    let Some(page) = repo.find_file(PAGE) else {
        return vec![TidyFinding::new("invariants", PAGE, "is missing, and no invariant is listed")];
    };
    let listed = listed_invariants(&page.text);
    let mut findings = Vec::new();
    let mut tested = BTreeSet::new();
    for file in repo.files.iter().filter(|file| file.path.ends_with(".rs")) {
        let tests_from = file.first_test_line().unwrap_or(usize::MAX);
        for (number, line) in (1..).zip(file.text.lines()) {
            for cited in cited_invariants(line) {
                if !listed.contains_key(&cited) {
                    let what = format!("INV-{cited} is not listed in {PAGE}");
                    findings.push(TidyFinding::at_line("invariants", file, number, what));
                } else if number >= tests_from {
                    tested.insert(cited);
                }
            }
        }
    }
    for (invariant, entry) in listed {
        if !tested.contains(&invariant) && !entry.text.contains(ELSEWHERE) {
            let what = format!("no test cites INV-{invariant}");
            findings.push(TidyFinding::at_line("invariants", page, entry.line, what));
        }
    }
    findings
}

struct InvariantEntry {
    line: usize,
    text: String,
}

/// Returns the entries: each begins with its number and goes on to the next or a blank line.
fn listed_invariants(page: &str) -> BTreeMap<usize, InvariantEntry> {
    let mut entries: BTreeMap<usize, InvariantEntry> = BTreeMap::new();
    let mut current = None;
    for (line, text) in (1..).zip(page.lines()) {
        let start = text.trim_start_matches(['-', '*', '#', '|', ' ']);
        let marked = start.len() < text.len();
        if let Some(number) = cited_invariants(start).next().filter(|_| marked && start.starts_with("INV-")) {
            entries.entry(number).or_insert(InvariantEntry { line, text: String::new() });
            current = Some(number);
        } else if text.trim().is_empty() {
            current = None;
        }
        if let Some(entry) = current.and_then(|number| entries.get_mut(&number)) {
            entry.text += text.trim();
            entry.text.push(' ');
        }
    }
    entries
}

/// Returns the numbers of the invariants that a line names.
fn cited_invariants(line: &str) -> impl Iterator<Item = usize> {
    line.split("INV-").skip(1).filter_map(|rest| {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        rest[..digits].parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_finds;

    /// Puts the number into the name here, else these plants would be citations.
    fn named(text: &str) -> String {
        text.replace('@', "INV-")
    }

    fn finds(page: &str, code: &str, expect: &[&str]) {
        let (page, code) = (named(page), named(code));
        let expect: Vec<String> = expect.iter().map(|text| named(text)).collect();
        let expect: Vec<&str> = expect.iter().map(String::as_str).collect();
        let files = [("a/src/x.rs", code.as_str()), (PAGE, page.as_str())];
        assert_finds(find_untested_invariants, &Repository::from_texts(&files), &expect);
    }

    const TESTED: &str = "// @1\n#[cfg(test)]\nmod tests {\n    // @1, @2\n}\n";

    #[test]
    fn what_is_listed_and_tested_passes() {
        finds("# A\n\n- **@1 One.** Text.\n- **@2 Two.** Text.\n", TESTED, &[]);
    }

    #[test]
    fn a_citation_of_nothing_is_found() {
        let expect = ["a/src/x.rs:4: @2 is not listed in ARCHITECTURE.md"];
        finds("### @1 One\n\nText about @2.\n", TESTED, &expect);
    }

    #[test]
    fn an_invariant_that_only_code_cites_is_found() {
        let expect = ["ARCHITECTURE.md:1: no test cites @1"];
        finds("- **@1 One.** Text.\n", "// @1\nfn f() {}\n", &expect);
    }

    #[test]
    fn an_entry_may_say_who_else_checks_it_on_its_lines_only() {
        let page = "- **@1 One.** Text\n  (checked by: tidy).\n- **@2 Two.**\n\n(checked by: x)\n";
        finds(page, "", &["ARCHITECTURE.md:3: no test cites @2"]);
    }

    #[test]
    fn a_missing_page_is_one_finding() {
        let expect = ["ARCHITECTURE.md: is missing, and no invariant is listed"];
        assert_finds(find_untested_invariants, &Repository::from_texts(&[("a/src/x.rs", TESTED)]), &expect);
    }
}
