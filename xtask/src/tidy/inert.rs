//! Narration is inert: who can emit it cannot reach who can read it (agent-chat-output §3.2).

use std::collections::BTreeSet;

use super::TidyFinding;
use crate::Repository;

/// The crate that reads narration.
const READER: &str = "server";

/// The crates that put the others together: they hand a sink to the one and the log to the other. The simulation runs the
/// server's handlers beside the agents, and compares runs with narration and without.
const ROOTS: &[&str] = &["cli", "conformance", "singletree", "simulation", "bench"];

/// The names of the reading types.
const NAMES: &[&str] = &["NarrationView", "NarrationLog"];

/// The places that may take emitted narration: the sink that drops it, the reader's, and the terminal, where people read.
const SINKS: &[&str] = &["crates/narration/", "crates/server/", "crates/cli/src/narration_screen.rs"];

pub(super) fn find_narration_readers(repo: &Repository) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    for package in repo.packages.iter().filter(|package| !ROOTS.contains(&package.folder.as_str())) {
        if package.folder != READER && reachable_crates(repo, &package.folder).contains(READER) {
            let what = format!("reaches {READER}, where narration is read");
            findings.push(TidyFinding::new("inert", &package.folder, what));
        }
    }
    for (file, source) in repo.rust_files() {
        let tests_from = file.first_test_line().unwrap_or(usize::MAX);
        let mut find = |at: usize, what: String| {
            let line = source.line_at_offset(at);
            if line < tests_from {
                findings.push(TidyFinding::at_line("inert", file, line, what));
            }
        };
        let is_root = |root: &str| file.path.starts_with(&format!("crates/{root}/"));
        let may_name = file.path.starts_with("crates/server/") || ROOTS.iter().any(|it| is_root(it));
        for name in NAMES.iter().filter(|_| !may_name && !file.path.starts_with("xtask/")) {
            source.word_offsets(name).for_each(|at| {
                find(at, format!("{name} is the server's: who emits narration cannot read it"))
            });
        }
        if !SINKS.iter().any(|it| file.path.starts_with(it)) {
            for at in source
                .word_offsets("NarrationSink")
                .filter(|at| source.code[at + "NarrationSink".len()..].starts_with(" for "))
            {
                find(at, "a sink that is not the reader's could read what is narrated".to_owned());
            }
        }
        if file.path.starts_with("crates/narration/") {
            for at in source.word_offsets("Deserialize") {
                find(at, "narration is written out, and not read in".to_owned());
            }
        }
    }
    findings
}

/// Returns the crates of the workspace that a crate depends on, over any number of others.
fn reachable_crates<'a>(repo: &'a Repository, from: &'a str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut next = vec![from];
    while let Some(folder) = next.pop() {
        for package in repo.packages.iter().filter(|package| package.folder == folder) {
            next.extend(package.internal_dependencies(false).filter(|to| reached.insert(*to)));
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packages::{DependencyFeatures, PackageDependency, WorkspacePackage};
    use crate::tidy::assert_finds;

    fn packages(edges: &[(&str, &[&str])]) -> Repository {
        let to = |name: &&str| PackageDependency {
            name: (*name).into(),
            internal: true,
            dev: false,
            features: DependencyFeatures::default(),
        };
        let package = |(folder, names): &(&str, &[&str])| WorkspacePackage {
            folder: (*folder).into(),
            dependencies: names.iter().map(to).collect(),
        };
        Repository { packages: edges.iter().map(package).collect(), ..Repository::default() }
    }

    // The plants are put together here, else they would be found.
    fn finds(path: &str, code: &str, expect: &[&str]) {
        let expect: Vec<String> = expect.iter().map(|what| format!("{path}:1: {what}")).collect();
        let expect: Vec<&str> = expect.iter().map(String::as_str).collect();
        assert_finds(find_narration_readers, &Repository::from_texts(&[(path, code)]), &expect);
    }

    #[test]
    fn a_crate_that_reaches_the_reader_is_found_over_any_number_of_others() {
        let workspace_packages = packages(&[
            ("narration", &[]),
            ("harness", &["narration"]),
            ("agent", &["harness"]),
            ("server", &["agent", "narration"]),
            ("cli", &["server"]),
        ]);
        assert_finds(find_narration_readers, &workspace_packages, &[]);
        let leak =
            packages(&[("server", &[]), ("tools", &["server"]), ("agent", &["tools"]), ("cli", &["agent"])]);
        let what = "reaches server, where narration is read";
        assert_finds(find_narration_readers, &leak, &[&format!("tools: {what}"), &format!("agent: {what}")]);
    }

    #[test]
    fn the_names_of_the_reader_are_the_servers_and_the_roots() {
        let what = "NarrationLog is the server's: who emits narration cannot read it";
        finds("crates/harness/src/x.rs", "fn f(x: NarrationLog) {}", &[what]);
        finds("crates/agent/tests/it/x.rs", "fn f(x: NarrationLog) {}", &[]);
        finds("crates/server/src/x.rs", "fn f(x: NarrationLog, y: NarrationView) {}", &[]);
        finds("crates/cli/src/x.rs", "fn f(x: NarrationLog) {}", &[]);
    }

    #[test]
    fn no_other_sink_takes_narration_but_in_tests() {
        let what = "a sink that is not the reader's could read what is narrated";
        finds("crates/harness/src/x.rs", "impl NarrationSink for X {}", &[what]);
        finds("crates/harness/src/x.rs", "fn f(x: &dyn NarrationSink) {}", &[]);
        finds("crates/harness/tests/it/x.rs", "impl NarrationSink for X {}", &[]);
        finds("crates/server/src/x.rs", "impl NarrationSink for X {}", &[]);
    }

    #[test]
    fn narration_is_not_read_in() {
        let what = "narration is written out, and not read in";
        finds("crates/narration/src/x.rs", "#[derive(Deserialize)] struct X;", &[what]);
        finds("crates/llm/src/x.rs", "#[derive(Deserialize)] struct X;", &[]);
    }
}
