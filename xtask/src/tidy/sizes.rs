//! Files and functions that fit the head.

use super::TidyFinding;
use crate::Repository;

/// Lines of a file without its tests.
const FILE: usize = 500;
/// Lines of the tests at the end of a file; more of them go into a file of their own.
const INLINE_TESTS: usize = 150;
/// Lines of a file of tests; above this it is split by behaviour.
const TEST_FILE: usize = 600;
/// Lines of a function, tests included.
const FUNCTION: usize = 70;

pub(super) fn find_oversized_code(repo: &Repository) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    for (file, source) in repo.rust_files() {
        let all = file.text.lines().count();
        let tests = file.first_test_line().map_or(0, |from| (all + 1).saturating_sub(from));
        let (tests_max, name) =
            if file.is_only_tests() { (TEST_FILE, "a test file") } else { (INLINE_TESTS, "inline tests") };
        let mut limit = |line, what: &str, size: usize, max: usize| {
            if size > max {
                let what = format!("{what} of {size} lines, {max} is the limit");
                findings.push(TidyFinding::at_line("sizes", file, line, what));
            }
        };
        limit(1, "a file", all - tests, FILE);
        limit(file.first_test_line().unwrap_or(1), name, tests, tests_max);
        for function in source.functions() {
            limit(function.line, &format!("fn {}", function.name), function.lines, FUNCTION);
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_finds;

    fn finds(path: &str, text: &str, expect: &[&str]) {
        assert_finds(find_oversized_code, &Repository::from_texts(&[(path, text)]), expect);
    }

    #[test]
    fn a_long_file_is_found_and_its_tests_do_not_count() {
        let code = |lines| "const A: u8 = 1;\n".repeat(lines);
        let tests = "#[cfg(test)]\nmod tests {\n}\n";
        finds("a/src/x.rs", &(code(500) + tests), &[]);
        let expect = ["a/src/x.rs:1: a file of 501 lines, 500 is the limit"];
        finds("a/src/x.rs", &(code(501) + tests), &expect);
    }

    #[test]
    fn long_inline_tests_are_found_and_a_test_file_may_be_longer() {
        let tests = |lines: usize| {
            format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "    const A: u8 = 1;\n".repeat(lines))
        };
        finds("a/src/x.rs", &tests(147), &[]);
        let expect = ["a/src/x.rs:1: inline tests of 151 lines, 150 is the limit"];
        finds("a/src/x.rs", &tests(148), &expect);
        finds("a/tests/it/x.rs", &tests(148), &[]);
        let expect = ["a/tests/it/x.rs:1: a test file of 601 lines, 600 is the limit"];
        finds("a/tests/it/x.rs", &tests(598), &expect);
    }

    #[test]
    fn a_long_function_is_found_even_in_tests() {
        let function = |lines: usize| format!("//! X.\nfn f() {{\n{}}}\n", "    '{';\n".repeat(lines));
        finds("a/src/x.rs", &function(68), &[]);
        finds("a/src/x.rs", &function(69), &["a/src/x.rs:2: fn f of 71 lines, 70 is the limit"]);
        let expect = ["a/src/x/tests.rs:2: fn f of 71 lines, 70 is the limit"];
        finds("a/src/x/tests.rs", &function(69), &expect);
    }
}
