//! The list of rules that no fixture exercises: each entry names tests of ours, and each of them exists.

use super::TidyFinding;
use crate::Repository;
use crate::repo::SourceFile;

const PAGE: &str = "docs/unexercised.md";

pub(super) fn find_missing_tests(repo: &Repository) -> Vec<TidyFinding> {
    let Some(page) = repo.find_file(PAGE) else {
        return vec![TidyFinding::new("unexercised", PAGE, "is missing, and no test is named")];
    };
    let mut findings = Vec::new();
    for (line, row) in (1..).zip(page.text.lines()).filter(|(_, row)| row.starts_with("| ")) {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        let (Some(entry), Some(tests)) = (cells.first(), cells.get(2)) else {
            findings.push(TidyFinding::at_line(
                "unexercised",
                page,
                line,
                "a row has an entry, a section and tests",
            ));
            continue;
        };
        // The head of the table.
        if *tests == "tests" {
            continue;
        }
        let found = tests_named_in_cell(repo, tests);
        if found.is_empty() {
            findings.push(TidyFinding::at_line(
                "unexercised",
                page,
                line,
                format!("'{entry}' names no test"),
            ));
        }
        let missing = found.into_iter().filter_map(|(test, exists)| (!exists).then_some(test));
        findings.extend(missing.map(|missing| {
            TidyFinding::at_line("unexercised", page, line, format!("there is no test {missing}"))
        }));
    }
    findings
}

/// Returns the tests that a cell names, each after its file, and whether they exist.
pub(super) fn tests_named_in_cell(repo: &Repository, cell: &str) -> Vec<(String, bool)> {
    let mut path = "";
    let mut tests = Vec::new();
    for name in cell.split('`').skip(1).step_by(2) {
        if name.ends_with(".rs") {
            path = name;
        } else {
            let exists = repo.find_file(path).is_some_and(|file| has_test_function(file, name));
            tests.push((format!("'{name}' in '{path}'"), exists));
        }
    }
    tests
}

/// Tells whether a file has a function of this name that is run as a test.
fn has_test_function(file: &SourceFile, name: &str) -> bool {
    let lines: Vec<_> = file.text.lines().map(str::trim).collect();
    let begins = format!("fn {name}(");
    let at = lines.iter().position(|line| line.contains(&begins) && !line.starts_with("//"));
    at.is_some_and(|at| {
        let before =
            lines[..at].iter().rev().take_while(|line| line.starts_with("#[") || line.starts_with("//"));
        before.into_iter().any(|it| it.starts_with("#[test]") || it.starts_with("#[tokio::test"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_finds;

    const CODE: &str = "#[test]\nfn one() {}\n\n// why\n#[tokio::test(start_paused = true)]\n// how\nasync fn two() {}\n\nfn helper() {}\n";

    fn finds(row: &str, expect: &[&str]) {
        let page = format!("# A\n\n| what | section | tests |\n|---|---|---|\n{row}\n");
        let expect: Vec<_> = expect.iter().map(|it| format!("{PAGE}:5: {it}")).collect();
        let expect: Vec<_> = expect.iter().map(String::as_str).collect();
        assert_finds(
            find_missing_tests,
            &Repository::from_texts(&[("a/it.rs", CODE), (PAGE, &page)]),
            &expect,
        );
    }

    #[test]
    fn tests_that_exist_pass() {
        finds("| a | §1 | `a/it.rs` `one`, `two` |", &[]);
    }

    #[test]
    fn what_is_no_test_is_found() {
        finds("| a | §1 | `a/it.rs` `one` `three` |", &["there is no test 'three' in 'a/it.rs'"]);
        finds("| a | §1 | `a/it.rs` `helper` |", &["there is no test 'helper' in 'a/it.rs'"]);
        finds("| a | §1 | `a/no.rs` `one` |", &["there is no test 'one' in 'a/no.rs'"]);
        finds("| a | §1 | `one` |", &["there is no test 'one' in ''"]);
    }

    #[test]
    fn an_entry_without_a_test_is_found() {
        finds("| a | §1 | later |", &["'a' names no test"]);
        finds("| a | §1 |", &["a row has an entry, a section and tests"]);
    }

    #[test]
    fn a_missing_page_is_one_finding() {
        let expect = ["docs/unexercised.md: is missing, and no test is named"];
        assert_finds(find_missing_tests, &Repository::from_texts(&[("a/it.rs", CODE)]), &expect);
    }
}
