//! The pages of the repository: a link leads to a file, and to a heading of it; links in the book stay in the book.

use super::TidyFinding;
use crate::Repository;
use crate::repo::SourceFile;

/// Where the book is.
const BOOK: &str = "docs";

/// Its contents.
const SUMMARY: &str = "docs/SUMMARY.md";

pub(super) fn find_broken_links(repo: &Repository) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    let pages =
        repo.files.iter().filter(|file| file.path.ends_with(".md") && !file.path.starts_with("web/vendor/"));
    for page in pages {
        for (line, target) in link_targets(repo, page) {
            let wrong = describe_link_fault(repo, page, &target);
            findings.extend(wrong.map(|wrong| TidyFinding::at_line("links", page, line, wrong)));
        }
        if is_in_book(&page.path) && page.path != SUMMARY && !is_listed_in_summary(repo, &page.path) {
            findings.push(TidyFinding::at_line(
                "links",
                page,
                1,
                format!("the page does not stand in {SUMMARY}"),
            ));
        }
    }
    findings
}

/// Describes the fault of a link, if it has one.
fn describe_link_fault(repo: &Repository, page: &SourceFile, target: &str) -> Option<String> {
    let (path, heading) = target.split_once('#').map_or((target, None), |value| (value.0, Some(value.1)));
    let path = if path.is_empty() { page.path.clone() } else { join_path(page.folder(), path) };
    if is_in_book(&page.path) && !is_in_book(&path) {
        return Some(format!("'{target}' leads out of the book"));
    }
    // Pictures of other kinds are no text, and so not known here.
    if path.ends_with(".png") || repo.files.iter().any(|file| file.path.starts_with(&format!("{path}/"))) {
        return None;
    }
    let Some(file) = repo.find_file(&path) else { return Some(format!("'{target}' leads nowhere")) };
    let heading = heading?;
    let found = unfenced_lines(&text_with_includes(repo, file))
        .iter()
        .any(|(_, it)| it.starts_with('#') && heading_anchor(it) == heading);
    (!found).then(|| format!("'{target}' names no heading of {path}"))
}

fn is_in_book(path: &str) -> bool {
    path.starts_with(&format!("{BOOK}/"))
}

fn is_listed_in_summary(repo: &Repository, path: &str) -> bool {
    let Some(summary) = repo.find_file(SUMMARY) else { return false };
    link_targets(repo, summary).iter().any(|(_, it)| join_path(BOOK, it) == path)
}

/// Returns the text of a page as the book shows it: with the text of included pages.
fn text_with_includes(repo: &Repository, page: &SourceFile) -> String {
    let included = |line: &str| {
        let path = line.strip_prefix("{{#include ")?.strip_suffix("}}")?.split(':').next()?;
        Some(repo.find_file(&join_path(page.folder(), path))?.text.clone())
    };
    page.text
        .lines()
        .flat_map(|line| [included(line).unwrap_or_else(|| line.to_owned()), "\n".to_owned()])
        .collect()
}

/// Returns the links of a page that lead to files, with their lines; a page that cannot be included is a link that
/// leads nowhere.
fn link_targets(repo: &Repository, page: &SourceFile) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (line, text) in unfenced_lines(&text_with_includes(repo, page)) {
        if let Some(path) = text.strip_prefix("{{#include ") {
            found.push((line, path.trim_end_matches('}').to_owned()));
        }
        let text: String = text.split('`').step_by(2).collect::<Vec<_>>().join("`");
        let targets = text.split("](").skip(1).filter_map(|part| part.split(')').next());
        let ours = targets.filter(|target| !target.contains("://") && !target.starts_with("mailto:"));
        found.extend(ours.map(|it| (line, it.to_owned())));
    }
    found
}

/// Returns the lines of a text that are in no fenced block, with their numbers.
fn unfenced_lines(text: &str) -> Vec<(usize, String)> {
    let mut is_code = false;
    let lines = (1..).zip(text.lines()).filter(|(_, it)| {
        let is_fence = it.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    });
    lines.map(|(line, text)| (line, text.to_owned())).collect()
}

/// Puts a path behind a folder.
fn join_path(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.trim_end_matches('/').split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." => {}
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

/// Makes the name by which links call a heading.
fn heading_anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
    text.chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, '-' | '_')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_finds;

    const CONTENTS: (&str, &str) = (SUMMARY, "- [A](a.md)\n- [B](b/c.md)\n");
    const OTHER: (&str, &str) = ("docs/b/c.md", "# C\n\n## What `it` is, here\n");
    const OUTSIDE: (&str, &str) = ("bench/README.md", "# Costs\n\n[C](b/c.md) [gone](gone.md)\n");

    /// Checks a page of the book beside the others.
    fn finds(text: &str, expect: &[&str]) {
        let page = ("docs/a.md", text);
        let outside = ("bench/README.md", "# Costs\n");
        assert_finds(find_broken_links, &Repository::from_texts(&[CONTENTS, OTHER, outside, page]), expect);
    }

    #[test]
    fn links_that_lead_somewhere_pass() {
        finds("# A\n[c](b/c.md) [h](./b/c.md#what-it-is-here) [me](#a) [b](b) [w](https://x.y/z.md)\n", &[]);
        finds("# A\n`[no](link.md)`\n```sh\n[no](link.md)\n# no title\n```\n", &[]);
    }

    #[test]
    fn a_link_that_leads_nowhere_is_found() {
        finds("# A\n\n[x](x.md)\n", &["docs/a.md:3: 'x.md' leads nowhere"]);
        finds("# A\n[x](b/c.md#gone)\n", &["docs/a.md:2: 'b/c.md#gone' names no heading of docs/b/c.md"]);
        finds("# A\n[x](#b)\n", &["docs/a.md:2: '#b' names no heading of docs/a.md"]);
        let files = [("README.md", "# R\n[x](docs/x.md)\n")];
        assert_finds(
            find_broken_links,
            &Repository::from_texts(&files),
            &["README.md:2: 'docs/x.md' leads nowhere"],
        );
    }

    #[test]
    fn a_link_out_of_the_book_is_found_and_one_into_it_passes() {
        finds("# A\n[x](../bench/README.md)\n", &["docs/a.md:2: '../bench/README.md' leads out of the book"]);
        let files =
            [CONTENTS, OTHER, ("docs/a.md", "# A\n"), ("README.md", "# R\n[a](docs/a.md) [d](docs/)\n")];
        assert_finds(find_broken_links, &Repository::from_texts(&files), &[]);
    }

    #[test]
    fn a_page_that_is_not_in_the_contents_is_found() {
        let files = [CONTENTS, OTHER, ("docs/a.md", "# A\n"), ("docs/d.md", "# D\n")];
        assert_finds(
            find_broken_links,
            &Repository::from_texts(&files),
            &["docs/d.md:1: the page does not stand in docs/SUMMARY.md"],
        );
    }

    #[test]
    fn what_a_page_includes_has_its_links_from_there() {
        let page = ("docs/a.md", "# A\n{{#include ../bench/README.md:2:}}\n");
        let expect = [
            "bench/README.md:3: 'b/c.md' leads nowhere",
            "bench/README.md:3: 'gone.md' leads nowhere",
            "docs/a.md:4: 'gone.md' leads nowhere",
        ];
        assert_finds(find_broken_links, &Repository::from_texts(&[OUTSIDE, CONTENTS, OTHER, page]), &expect);
        finds("# A\n{{#include ../gone.md}}\n", &["docs/a.md:2: '../gone.md' leads out of the book"]);
    }
}
