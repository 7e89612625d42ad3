//! The keys of the configuration and their page: every key that the code reads is shown there. That the page shows no
//! other is the reader's own test: it reads every block of the page, and an unknown key is a mistake.

use std::collections::BTreeMap;

use super::TidyFinding;
use crate::Repository;
use crate::repo::SourceFile;
use crate::rust_source::RustSource;

const CODE: &str = "crates/config/src/";
const PAGE: &str = "docs/configuration.md";

/// Functions that read a key of a table, named first.
const READERS: &[&str] = &[
    "take_raw_value",
    "read_text",
    "read_text_list",
    "read_icon",
    "read_color",
    "read_path",
    "read_flag",
    "read_count",
    "read_integer",
    "read_number",
    "read_duration",
    "read_byte_count",
    "read_choice",
    "open_section",
    "open_named_sections",
    "read_json_object",
];

pub(super) fn find_undocumented_keys(repo: &Repository) -> Vec<TidyFinding> {
    let Some(page) = repo.find_file(PAGE) else { return Vec::new() };
    let shown = documented_words(&page.text);
    let missing = keys_in_code(repo).into_iter().filter(|(key, _)| !shown.contains(key));
    missing
        .map(|(key, place)| TidyFinding::new("keys", place, format!("{PAGE} does not show the key `{key}`")))
        .collect()
}

/// Returns the words of the page's configurations that can be keys.
fn documented_words(page: &str) -> Vec<&str> {
    let mut is_toml = false;
    let lines = page.lines().filter(|line| {
        if line.starts_with("```") {
            is_toml = *line == "```toml";
        }
        is_toml
    });
    let is_part = |it: char| it.is_ascii_alphanumeric() || it == '_';
    let code = lines.map(|it| it.split('#').next().unwrap_or_default());
    code.flat_map(|it| it.split(move |c| !is_part(c))).collect()
}

/// Returns the keys that are read, each with one place.
fn keys_in_code(repo: &Repository) -> BTreeMap<&str, String> {
    let mut found = BTreeMap::new();
    for (file, source) in repo.rust_files().filter(|(file, _)| file.path.starts_with(CODE)) {
        let tests_from = file.first_test_line().unwrap_or(usize::MAX);
        for literal in &source.literals {
            let line = source.line_at_offset(literal.start);
            if line < tests_from && is_configuration_key(file, source, literal) {
                let key = &file.text[literal.clone()];
                found.entry(key).or_insert_with(|| format!("{}:{line}", file.path));
            }
        }
    }
    found
}

/// Checks whether a literal is the key in a read of a table: `section.read_text("title")`,
/// `count(&mut section, "steps")`, or a row of a list of limits, `("steps", &mut limits.steps)`.
fn is_configuration_key(file: &SourceFile, source: &RustSource, literal: &std::ops::Range<usize>) -> bool {
    let before = source.code[..literal.start - 1].trim_end();
    let is_word =
        file.text[literal.clone()].chars().all(|letter| letter.is_ascii_lowercase() || letter == '_');
    let is_read = READERS.iter().any(|it| before.ends_with(&format!(".{it}(")));
    let is_passed = before.ends_with("section,") || before.ends_with("inner,");
    let is_row = before.ends_with('(') && source.code[literal.end + 1..].starts_with(", &mut ");
    is_word && (is_read || is_passed || is_row)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_finds;

    const READER: &str = r#"//! R.
fn read(section: &mut Section<'_>) {
    let title = section.read_text("title");
    let listen = address(section, "listen");
    for (key, limit) in [("steps", &mut limits.steps)] { limit.set(key); }
    let hint = section.qualified_key("nothing");
}
"#;

    fn finds(page: &str, expect: &[&str]) {
        assert_finds(
            find_undocumented_keys,
            &Repository::from_texts(&[("crates/config/src/a.rs", READER), (PAGE, page)]),
            expect,
        );
    }

    #[test]
    fn keys_that_the_page_shows_pass() {
        finds("```toml\ntitle = \"x\"\nlimits = { steps = 3 }\n[listen.x]\n```\n", &[]);
    }

    #[test]
    fn a_key_that_the_page_does_not_show_is_found() {
        let expect = ["crates/config/src/a.rs:4: docs/configuration.md does not show the key `listen`"];
        finds("listen\n```toml\ntitle = \"x\"\nsteps = 3 # listen\n```\nlisten = 1\n", &expect);
    }
}
