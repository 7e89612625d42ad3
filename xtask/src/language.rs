//! Measures of the language: how long names are, how many mean several things, and how comments are worded.

use std::collections::BTreeMap;
use std::fmt;

use crate::Repository;
use crate::repo::SourceFile;
use crate::rust_source::RustSource;

/// A measure of the whole workspace and its bound.
#[derive(Debug, Clone, PartialEq)]
pub struct LanguageMeasure {
    name: &'static str,
    value: f64,
    unit: &'static str,
    bound: MeasureBound,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum MeasureBound {
    AtLeast(f64),
    AtMost(f64),
}

impl LanguageMeasure {
    /// Checks whether the value is within the bound.
    #[must_use]
    pub fn is_within_bound(&self) -> bool {
        match self.bound {
            MeasureBound::AtLeast(least) => self.value >= least,
            MeasureBound::AtMost(most) => self.value <= most,
        }
    }
}

impl fmt::Display for LanguageMeasure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sign, bound) = match self.bound {
            MeasureBound::AtLeast(bound) => (">=", bound),
            MeasureBound::AtMost(bound) => ("<=", bound),
        };
        let verdict = if self.is_within_bound() { "ok" } else { "beyond its bound" };
        write!(f, "{}: {:.1} {} (bound {sign} {bound}): {verdict}", self.name, self.value, self.unit)
    }
}

const FUNCTION_NAMES: &str = "mean length of a function name";

/// Names that each crate uses for the same thing.
const SHARED_NAMES: [&str; 2] = ["Error", "Result"];

/// Measures the workspace: names in `src` without its tests, comments also in tests.
#[must_use]
pub fn measure_language(repo: &Repository) -> Vec<LanguageMeasure> {
    let (mut types, mut functions) = (BTreeMap::<String, usize>::new(), Vec::new());
    let (mut comments, mut with_what) = (0, 0);
    let (mut closures, mut of_it) = (0, 0);
    for (file, source) in repo.rust_files() {
        for line in file.text.lines().filter(|line| is_comment(line)) {
            comments += 1;
            with_what += usize::from(contains_what(line));
        }
        if !is_product_code(file) {
            continue;
        }
        let code = without_tests(file, source);
        for name in ["struct", "enum", "trait"].iter().flat_map(|keyword| declared_names(code, keyword)) {
            *types.entry(name.to_owned()).or_default() += 1;
        }
        functions.extend(declared_names(code, "fn").map(|name| name.len()));
        for parameter in closure_parameters(code) {
            closures += 1;
            of_it += usize::from(parameter == "it");
        }
    }
    types.retain(|name, _| !SHARED_NAMES.contains(&name.as_str()));
    let lengths: Vec<usize> = types.keys().map(String::len).collect();
    let several = types.values().filter(|count| **count > 1).count();
    let measure = |name, value, unit, bound| LanguageMeasure { name, value, unit, bound };
    vec![
        measure(
            "type names with several meanings",
            percentage(several, types.len()),
            "%",
            MeasureBound::AtMost(6.0),
        ),
        measure("mean length of a type name", mean_length(&lengths), "letters", MeasureBound::AtLeast(11.0)),
        measure(FUNCTION_NAMES, mean_length(&functions), "letters", MeasureBound::AtLeast(11.0)),
        measure(
            "comment lines with \"what\"",
            percentage(with_what, comments),
            "%",
            MeasureBound::AtMost(3.0),
        ),
        measure("closures named `it`", percentage(of_it, closures), "%", MeasureBound::AtMost(15.0)),
    ]
}

/// Checks whether the code of a file is a part of the product and its tools, not of their tests.
fn is_product_code(file: &SourceFile) -> bool {
    let is_counted =
        ["crates/", "bench/", "xtask/", "examples/"].iter().any(|root| file.path.starts_with(root));
    is_counted && !file.is_only_tests()
}

fn without_tests<'a>(file: &SourceFile, source: &'a RustSource) -> &'a str {
    let Some(from) = file.first_test_line() else { return &source.code };
    let end: usize = source.code.split_inclusive('\n').take(from - 1).map(str::len).sum();
    &source.code[..end]
}

fn is_comment(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("//") && line.contains(|letter: char| letter.is_alphanumeric())
}

fn contains_what(line: &str) -> bool {
    line.split(|letter: char| !letter.is_alphanumeric()).any(|word| word.eq_ignore_ascii_case("what"))
}

/// Returns the names that are declared by a keyword.
fn declared_names<'a>(code: &'a str, keyword: &'a str) -> impl Iterator<Item = &'a str> {
    code.match_indices(keyword).filter_map(move |(at, _)| {
        let is_whole = !code[..at].ends_with(is_name_letter);
        let rest = code[at + keyword.len()..].strip_prefix(' ')?;
        let end = rest.find(|letter| !is_name_letter(letter)).unwrap_or(rest.len());
        (is_whole && end > 0).then(|| &rest[..end])
    })
}

/// Returns the names of the parameters of closures that have one, and nothing else between the bars.
fn closure_parameters(code: &str) -> impl Iterator<Item = &str> {
    code.match_indices('|').filter_map(move |(at, _)| {
        let rest = code[at + 1..].trim_start_matches('&');
        let rest = rest.strip_prefix("mut ").unwrap_or(rest);
        let end = rest.find(|letter| !is_name_letter(letter))?;
        (end > 0 && rest[end..].starts_with('|')).then(|| &rest[..end])
    })
}

fn is_name_letter(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

fn mean_length(lengths: &[usize]) -> f64 {
    lengths.iter().sum::<usize>() as f64 / lengths.len().max(1) as f64
}

fn percentage(part: usize, whole: usize) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(files: &[(&str, &str)]) -> Vec<f64> {
        measure_language(&Repository::from_texts(files)).iter().map(|measure| measure.value).collect()
    }

    #[test]
    fn names_comments_and_closures_are_counted_outside_of_tests() {
        let code =
            "// What it is.\nstruct Abc;\nenum Error {}\nfn four() { x.map(|it| it); y.map(|&row| row) }\n";
        let tests = "#[cfg(test)]\nmod tests {\n    // Plain.\n    struct Xyz;\n    fn f() { |it| 1; }\n}\n";
        let text = format!("{code}{tests}");
        assert_eq!(values(&[("crates/a/src/x.rs", &text)]), [0.0, 3.0, 4.0, 50.0, 50.0]);
    }

    #[test]
    fn a_name_of_two_types_has_several_meanings() {
        let files =
            [("crates/a/src/x.rs", "struct Ended;"), ("crates/b/src/x.rs", "enum Ended {}\ntrait Row {}")];
        assert_eq!(values(&files)[..2], [50.0, 4.0]);
    }

    #[test]
    fn strings_tests_and_other_words_are_not_counted() {
        let text = "// Whatever, somewhat.\nfn abcd() { f(\"|it| what\"); a || b; }\n";
        assert_eq!(values(&[("crates/a/src/x.rs", text)]), [0.0, 0.0, 4.0, 0.0, 0.0]);
        assert_eq!(values(&[("crates/a/tests/it/x.rs", "// what\nstruct X;")])[3], 100.0);
    }

    #[test]
    fn a_measure_says_whether_it_is_within_its_bound() {
        let measure = |value, bound| LanguageMeasure { name: "n", value, unit: "%", bound };
        assert_eq!(measure(6.0, MeasureBound::AtMost(6.0)).to_string(), "n: 6.0 % (bound <= 6): ok");
        assert!(!measure(10.9, MeasureBound::AtLeast(11.0)).is_within_bound());
    }
}
