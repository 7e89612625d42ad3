//! How modules are named, begun and declared, and the permitted content of a crate's root.

use super::TidyFinding;
use crate::Repository;
use crate::repo::SourceFile;
use crate::rust_source::RustSource;

/// Names that say nothing about a module's content.
const EMPTY_NAMES: &[&str] = &["util", "utils", "helper", "helpers", "common", "types", "manager", "prelude"];

/// Lines of a `lib.rs` that are not documentation.
const ROOT_LINES: usize = 150;

/// Lines of a function that a procedural macro must have in its crate's root.
const MACRO_LINES: usize = 10;

pub(super) fn find_misplaced_code(repo: &Repository) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    for (file, source) in repo.rust_files() {
        let mut find = |line, what: String| findings.push(TidyFinding::at_line("modules", file, line, what));
        if is_in_folder(file, "src") && !file.text.starts_with("//! ") {
            find(1, "a module begins with a line `//! `".to_owned());
        }
        let stem = file.file_name().trim_end_matches(".rs");
        if EMPTY_NAMES.contains(&stem) {
            find(1, format!("`{stem}` does not say what is inside"));
        }
        for at in source.word_offsets("mod") {
            let rest = source.code[at + 3..].trim_start();
            if EMPTY_NAMES.iter().any(|name| rest.starts_with(&format!("{name} {{"))) {
                find(source.line_at_offset(at), "the name does not say what is inside".to_owned());
            }
        }
        if file.folder().ends_with("/tests") && !file.folder().contains("/src/") {
            find(1, "integration tests live in one binary, tests/it".to_owned());
        } else if !is_declared_by_parent(repo, file) {
            find(1, "no module declares this file, so nothing compiles it".to_owned());
        }
        if file.path.ends_with("src/lib.rs") {
            for (line, what) in check_crate_root(source, &file.text) {
                find(line, what);
            }
        }
    }
    findings
}

fn is_in_folder(file: &SourceFile, folder: &str) -> bool {
    file.folder().split('/').any(|part| part == folder)
}

/// Tells whether a parent has `mod name;` for this file. Roots need none.
fn is_declared_by_parent(repo: &Repository, file: &SourceFile) -> bool {
    let folder = file.folder();
    let modules = is_in_folder(file, "src") || folder.contains("/tests/it") || folder == "tests/it";
    if !modules || matches!(file.file_name(), "lib.rs" | "main.rs") || folder.ends_with("src/bin") {
        return true;
    }
    let own = file.path.trim_end_matches(".rs").trim_end_matches("/mod");
    let Some((parent, name)) = own.rsplit_once('/') else { return true };
    let candidates = ["/lib.rs", "/main.rs", "/mod.rs", ".rs"];
    candidates
        .iter()
        .filter_map(|end| repo.find_file(&format!("{parent}{end}"))?.rust.as_ref())
        .any(|source| source.word_offsets(name).any(|at| declares_module(source, at, name)))
}

fn declares_module(source: &RustSource, at: usize, name: &str) -> bool {
    let raw = source.code[..at].trim_end_matches("r#").trim_end();
    raw.ends_with("mod") && source.code[at + name.len()..].trim_start().starts_with(';')
}

/// A crate's root declares and exports; code lives in modules.
fn check_crate_root(source: &RustSource, text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for function in source.functions() {
        let before = source.code[..function.span.start].trim_end();
        let attribute = before.rsplit("#[").next().unwrap_or_default();
        let of_macro = attribute.starts_with("proc_macro") && function.lines <= MACRO_LINES;
        if !of_macro {
            found.push((function.line, format!("lib.rs holds the body of fn {}", function.name)));
        }
    }
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//")).count();
    if lines > ROOT_LINES {
        let what = format!("lib.rs has {lines} lines beside its docs, {ROOT_LINES} is the limit");
        found.push((1, what));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_finds;

    const ROOT: (&str, &str) = ("a/src/lib.rs", "//! A.\nmod x;\nmod r#y;\n");

    #[test]
    fn a_house_in_order_passes() {
        let files = [
            ROOT,
            ("a/src/x.rs", "//! X.\n#[cfg(test)]\nmod tests;\n"),
            ("a/src/x/tests.rs", "//! Tests.\n"),
            ("a/src/y/mod.rs", "//! Y.\n"),
            ("a/src/bin/tool.rs", "//! T.\n"),
            ("a/tests/it/main.rs", "mod z;\n"),
            ("a/tests/it/z.rs", ""),
        ];
        assert_finds(find_misplaced_code, &Repository::from_texts(&files), &[]);
    }

    #[test]
    fn a_module_without_its_line_and_an_empty_name_are_found() {
        let files = [ROOT, ("a/src/x.rs", "mod prelude {}\n"), ("a/src/y.rs", "//! Y.\nmod utils;\n")];
        let expect = [
            "a/src/x.rs:1: a module begins with a line `//! `",
            "a/src/x.rs:1: the name does not say what is inside",
            "a/src/y/utils.rs:1: `utils` does not say what is inside",
        ];
        let utils = ("a/src/y/utils.rs", "//! U.\n");
        assert_finds(find_misplaced_code, &Repository::from_texts(&[&files[..], &[utils]].concat()), &expect);
    }

    #[test]
    fn a_file_that_nothing_compiles_is_found() {
        let files = [
            ("a/src/lib.rs", "//! A.\n// mod lost;\nmod lost_too;\n"),
            ("a/src/lost.rs", "//! L.\n"),
            ("a/tests/it/lost.rs", ""),
            ("a/tests/other.rs", ""),
        ];
        let expect = [
            "a/src/lost.rs:1: no module declares this file, so nothing compiles it",
            "a/tests/it/lost.rs:1: no module declares this file, so nothing compiles it",
            "a/tests/other.rs:1: integration tests live in one binary, tests/it",
        ];
        assert_finds(find_misplaced_code, &Repository::from_texts(&files), &expect);
    }

    #[test]
    fn code_in_a_root_is_found() {
        let root = |text: &str, expect: &[&str]| {
            assert_finds(find_misplaced_code, &Repository::from_texts(&[("a/src/lib.rs", text)]), expect);
        };
        root("//! A.\nfn f() {}\n", &["a/src/lib.rs:2: lib.rs holds the body of fn f"]);
        root("//! A.\n#[proc_macro_derive(State)]\npub fn state(i: T) -> T {\n    x(i)\n}\n", &[]);
        let long = format!("//! A.\n{}", "pub use x::Y;\n".repeat(151));
        root(&long, &["a/src/lib.rs:1: lib.rs has 151 lines beside its docs, 150 is the limit"]);
    }
}
