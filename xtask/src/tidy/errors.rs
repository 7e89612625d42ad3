//! Error categories and their pages: each has the other.

use std::collections::BTreeMap;

use super::TidyFinding;
use crate::Repository;
use crate::repo::SourceFile;
use crate::rust_source::RustSource;

const PAGES: &str = "docs/errors/";

pub(super) fn find_unmatched_categories(repo: &Repository) -> Vec<TidyFinding> {
    let categories = categories_in_code(repo);
    let mut findings = Vec::new();
    for (category, place) in &categories {
        if !is_snake_case(category) {
            let what = format!("the category `{category}` is not snake_case");
            findings.push(TidyFinding::new("errors", place, what));
        } else if repo.find_file(&error_page_path(category)).is_none() {
            let what = format!("the category has no page {}", error_page_path(category));
            findings.push(TidyFinding::new("errors", place, what));
        }
    }
    for file in repo.files.iter().filter(|file| file.folder() == PAGES.trim_end_matches('/')) {
        let category = file.file_name().trim_end_matches(".md");
        if file.file_name() != "README.md" && !categories.contains_key(category) {
            findings.push(TidyFinding::new("errors", &file.path, "no code returns this category"));
        }
    }
    findings
}

/// Returns the pages that categories in the code lack.
#[must_use]
pub fn missing_error_pages(repo: &Repository) -> Vec<String> {
    categories_in_code(repo)
        .into_keys()
        .map(error_page_path)
        .filter(|path| repo.find_file(path).is_none())
        .collect()
}

fn error_page_path(category: &str) -> String {
    format!("{PAGES}{category}.md")
}

fn is_snake_case(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

/// Returns the categories that functions named `category` or `…_category` return, each with one place.
fn categories_in_code(repo: &Repository) -> BTreeMap<&str, String> {
    let mut found = BTreeMap::new();
    for (file, source) in repo.rust_files() {
        let tests_from = file.first_test_line().unwrap_or(usize::MAX);
        for function in source.functions() {
            let named = function.name == "category" || function.name.ends_with("_category");
            if named && function.line < tests_from {
                for (line, category) in returned_strings(file, source, &function.span) {
                    found.entry(category).or_insert_with(|| format!("{}:{line}", file.path));
                }
            }
        }
    }
    found
}

/// Returns the strings in the function that are values: of an arm, a block or a return.
fn returned_strings<'a>(
    file: &'a SourceFile,
    source: &RustSource,
    span: &std::ops::Range<usize>,
) -> Vec<(usize, &'a str)> {
    let inside = source.literals.iter().filter(|literal| span.contains(&literal.start));
    let is_value = |literal: &&std::ops::Range<usize>| {
        let before = source.code[span.start..literal.start - 1].trim_end();
        ["=>", "{", "return", ";"].iter().any(|end| before.ends_with(end))
    };
    inside
        .filter(is_value)
        .map(|literal| (source.line_at_offset(literal.start), &file.text[literal.clone()]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_finds;

    const CODE: &str = r#"//! E.
impl Error {
    fn category(&self) -> &'static str {
        match self {
            Self::A => "not_found",
            Self::B | Self::C { .. } => {
                "conflict"
            }
            Self::D(source) => source.category(),
            Self::E => name("not a category"),
        }
    }
    fn text(&self) -> &str { match self { Self::A => "elsewhere" } }
}
"#;

    const PAGE_A: (&str, &str) = ("docs/errors/not_found.md", "");
    const PAGE_B: (&str, &str) = ("docs/errors/conflict.md", "");

    #[test]
    fn categories_with_their_pages_pass() {
        let files = [("a/src/e.rs", CODE), PAGE_A, PAGE_B, ("docs/errors/README.md", "")];
        assert_finds(find_unmatched_categories, &Repository::from_texts(&files), &[]);
    }

    #[test]
    fn a_category_without_a_page_is_found_and_listed() {
        let repo = Repository::from_texts(&[("a/src/e.rs", CODE), PAGE_A]);
        let expect = ["a/src/e.rs:7: the category has no page docs/errors/conflict.md"];
        assert_finds(find_unmatched_categories, &repo, &expect);
        assert_eq!(missing_error_pages(&repo), ["docs/errors/conflict.md"]);
    }

    #[test]
    fn a_page_without_a_category_is_found() {
        let old = ("docs/errors/old.md", "");
        let files = [("a/src/e.rs", CODE), PAGE_A, PAGE_B, old];
        let expect = ["docs/errors/old.md: no code returns this category"];
        assert_finds(find_unmatched_categories, &Repository::from_texts(&files), &expect);
    }

    #[test]
    fn a_category_out_of_shape_is_found_and_tests_have_none() {
        let code = r#"fn category() -> &'static str { "Not-Snake" }"#;
        let expect = ["a/src/e.rs:1: the category `Not-Snake` is not snake_case"];
        assert_finds(find_unmatched_categories, &Repository::from_texts(&[("a/src/e.rs", code)]), &expect);
        assert_finds(find_unmatched_categories, &Repository::from_texts(&[("a/src/e/tests.rs", code)]), &[]);
    }
}
