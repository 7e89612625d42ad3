//! Marks that do not belong in the repository: loose ends, muted lints, machine paths.

use super::TidyFinding;
use crate::Repository;
use crate::repo::SourceFile;
use crate::rust_source::RustSource;

// The words are put together from pieces, for this file is checked too.

/// Words for work left undone, in any file.
const LOOSE_ENDS: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME")];

/// Macros for work left undone, in code.
const LOOSE_MACROS: &[&str] = &["todo", "unimplemented"];

/// The forbidden attributes: they mute a lint or skip a test.
const ATTRIBUTES: &[&str] = &["#[allow(", "#![allow(", "#[ignore"];

/// Folders of one machine.
const MACHINE: &[&str] = &[concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];

/// Hosts of package registries.
const HOSTS: &[&str] = &[
    concat!("//crates", ".io"),
    concat!("index.crates", ".io"),
    concat!("static.crates", ".io"),
    concat!("npm", "js"),
    concat!("py", "pi"),
];

pub(super) fn find_forbidden_marks(repo: &Repository) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    // The lock file is cargo's, and names the registry.
    // So are the page's libraries whole releases of somebody else.
    for file in
        repo.files.iter().filter(|file| file.path != "Cargo.lock" && !file.path.starts_with("web/vendor/"))
    {
        for (number, line) in (1..).zip(file.text.split('\n')) {
            // A recording holds the bytes of the wire unchanged.
            let line = if file.path.ends_with(".sse") { line.trim_end() } else { line };
            for what in marks_in_line(line) {
                findings.push(TidyFinding::at_line("marks", file, number, what));
            }
        }
        findings.extend(file.rust.iter().flat_map(|source| marks_in_code(file, source)));
        // The contents of the guide have a title for each part.
        if file.path.ends_with(".md") && file.path != "docs/SUMMARY.md" {
            findings.extend(check_title_count(file));
        }
    }
    findings
}

fn marks_in_line(line: &str) -> Vec<String> {
    let mut found = Vec::new();
    if line.ends_with([' ', '\t', '\r']) {
        found.push("space at the end of the line".to_owned());
    }
    for word in LOOSE_ENDS.iter().filter(|word| stands_alone(line, word)) {
        found.push(format!("{word} left behind"));
    }
    for path in MACHINE.iter().filter(|path| stands_alone(line, path)) {
        found.push(format!("a path of one machine, {path}"));
    }
    for host in HOSTS.iter().filter(|host| line.contains(*host)) {
        found.push(format!("the host of a registry, {host}"));
    }
    found
}

/// Tells whether the mark stands in the line without a name running into its front.
fn stands_alone(line: &str, mark: &str) -> bool {
    line.match_indices(mark).any(|(at, _)| {
        !line[..at].ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-' | '~'))
    })
}

fn marks_in_code(file: &SourceFile, source: &RustSource) -> Vec<TidyFinding> {
    let mut found = Vec::new();
    for name in LOOSE_MACROS {
        for at in source.word_offsets(name).filter(|at| source.code[at + name.len()..].starts_with('!')) {
            found.push(TidyFinding::at_line(
                "marks",
                file,
                source.line_at_offset(at),
                format!("{name}! left behind"),
            ));
        }
    }
    for (number, line) in (1..).zip(source.code.lines()) {
        let packed: String = line.split_whitespace().collect();
        for attribute in ATTRIBUTES.iter().filter(|attribute| packed.contains(*attribute)) {
            let what = format!("{attribute} is not for us: expect with a reason, or mend it");
            found.push(TidyFinding::at_line("marks", file, number, what));
        }
    }
    found
}

/// A Markdown file has one title. Lines between fences are not headings.
fn check_title_count(file: &SourceFile) -> Option<TidyFinding> {
    let mut fenced = false;
    let mut titles = 0;
    for line in file.text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced && line.starts_with("# ") {
            titles += 1;
        }
    }
    (titles != 1).then(|| TidyFinding::at_line("marks", file, 1, format!("{titles} titles, one is right")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_finds;

    fn finds(path: &str, text: &str, expect: &[String]) {
        let expect: Vec<String> = expect.iter().map(|what| format!("{path}:{what}")).collect();
        let expect: Vec<&str> = expect.iter().map(String::as_str).collect();
        assert_finds(find_forbidden_marks, &Repository::from_texts(&[(path, text)]), &expect);
    }

    #[test]
    fn every_mark_in_text_is_found() {
        for word in LOOSE_ENDS {
            finds("x.toml", &format!("\n# {word}: later\n"), &[format!("2: {word} left behind")]);
        }
        for path in MACHINE {
            let expect = [format!("1: a path of one machine, {path}")];
            finds("x.toml", &format!("\"{path}x\"\n"), &expect);
            finds("x.toml", &format!("docs{path}x\n"), &[]);
        }
        for host in HOSTS {
            let expect = [format!("1: the host of a registry, {host}")];
            finds("x.toml", &format!("https:{host}/x\n"), &expect);
            finds("Cargo.lock", &format!("https:{host}/x\n"), &[]);
        }
        for end in [" ", "\t", "\r"] {
            finds("x.sh", &format!("x{end}\n"), &["1: space at the end of the line".to_owned()]);
        }
    }

    #[test]
    fn every_mark_in_code_is_found_but_not_in_strings() {
        for name in LOOSE_MACROS {
            finds("x.rs", &format!("{name}!()\n"), &[format!("1: {name}! left behind")]);
            finds("x.rs", &format!("\"{name}!()\"\n"), &[]);
        }
        for attribute in ATTRIBUTES {
            let what = format!("1: {attribute} is not for us: expect with a reason, or mend it");
            finds("x.rs", &format!("{attribute}x)]\n"), std::slice::from_ref(&what));
            finds("x.rs", &format!("{}x)]\n", attribute.replace('[', "[ ")), &[what]);
            finds("x.rs", &format!("// {attribute}x)]\n"), &[]);
        }
    }

    #[test]
    fn a_markdown_file_has_one_title() {
        finds("x.md", "# One\n\n```sh\n# comment\n```\n\n## Two\n", &[]);
        finds("x.md", "# One\n# Two\n", &["1: 2 titles, one is right".to_owned()]);
        finds("x.md", "text\n", &["1: 0 titles, one is right".to_owned()]);
    }
}
