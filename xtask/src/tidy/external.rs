//! Which foreign packages a crate may see, directly or through its dependencies.

use std::collections::{BTreeMap, BTreeSet};

use super::TidyFinding;
use crate::Repository;
use crate::packages::PackageDependency;

/// The packages that a crate must never see, however far down. Tests are free.
const NEVER: &[(&str, &[&str])] = &[
    ("env", &["rusqlite", "reqwest", "axum"]),
    ("graph", &["tokio", "rusqlite", "reqwest", "axum"]),
    ("session", &["tokio", "rusqlite", "reqwest", "axum"]),
    ("durable", &["tokio", "rusqlite", "reqwest", "axum"]),
    ("llm", &["tokio", "rusqlite", "reqwest", "axum"]),
    ("narration", &["tokio", "rusqlite", "reqwest", "axum"]),
    ("protocol", &["tokio", "rusqlite", "reqwest", "axum"]),
    ("macros", &["tokio", "rusqlite", "reqwest", "axum"]),
    ("prompts", &["rusqlite", "reqwest", "axum"]),
    ("engine", &["rusqlite", "reqwest", "axum"]),
    ("harness", &["rusqlite", "reqwest", "axum"]),
    ("store-sqlite", &["reqwest", "axum"]),
    ("store-postgres", &["rusqlite", "reqwest", "axum"]),
    ("tools", &["rusqlite", "axum"]),
    ("providers", &["rusqlite", "axum"]),
    ("agent", &["rusqlite", "axum"]),
    ("server", &["rusqlite"]),
];

/// The heavy packages: who may name each in its manifest, and who in tests besides.
const HOMES: &[(&str, &[&str], &[&str])] = &[
    ("rusqlite", &["store-sqlite", "bench"], &["cli", "harness"]),
    ("tokio-postgres", &["store-postgres"], &[]),
    ("axum", &["server", "simulation"], &[]),
    ("reqwest", &["http", "mcp", "bench"], &[]),
    ("clap", &["cli", "conformance", "bench"], &[]),
    ("rustyline", &["cli"], &[]),
    ("syn", &["macros"], &[]),
];

pub(super) fn find_forbidden_packages(repo: &Repository) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    for (folder, never) in NEVER {
        let seen = paths_to_packages(repo, folder);
        for path in never.iter().filter_map(|name| seen.get(name)) {
            findings.push(TidyFinding::new("external", path, "is a path that must not be"));
        }
    }
    for package in &repo.packages {
        for (name, homes, in_tests) in HOMES {
            let home = |list: &[&str]| list.contains(&package.folder.as_str());
            let normal = package.external_dependencies(false).any(|to| to == *name) && !home(homes);
            let tests =
                package.external_dependencies(true).any(|to| to == *name) && !home(homes) && !home(in_tests);
            if normal || tests {
                let what = format!("may not name {name}");
                findings.push(TidyFinding::new("external", &package.folder, what));
            }
        }
    }
    findings
}

/// Returns every package that a crate sees, each with a path that leads to it.
///
/// Beyond the crate's manifest the lock file lists the dependencies. It takes the features and platforms of the whole
/// workspace together, so this may see more than one build does, never less. An optional dependency of one of our
/// crates is seen by those who ask for features of that crate, and by the crate itself.
fn paths_to_packages<'a>(repo: &'a Repository, folder: &'a str) -> BTreeMap<&'a str, String> {
    let mut seen = BTreeMap::new();
    let mut without_features = BTreeSet::new();
    // Of each package: whether features are asked for; nothing of a foreign one.
    let mut next = vec![(folder, Some(true), folder.to_owned())];
    while let Some((name, features, path)) = next.pop() {
        if seen.contains_key(name) || (features == Some(false) && !without_features.insert(name)) {
            continue;
        }
        if let Some(features) = features {
            for package in repo.packages.iter().filter(|package| package.folder == name) {
                let built = |to: &&PackageDependency| !to.dev && (features || !to.features.optional);
                for to in package.dependencies.iter().filter(built) {
                    let features = to.internal.then_some(to.features.requested);
                    next.push((&to.name, features, format!("{path} -> {}", to.name)));
                }
            }
        } else {
            for to in repo.lock.direct_dependencies(name) {
                next.push((to, None, format!("{path} -> {to}")));
            }
        }
        // A crate that was met without features may be met again with them.
        if features != Some(false) {
            seen.insert(name, path);
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::CargoLockfile;
    use crate::packages::{DependencyFeatures, WorkspacePackage};
    use crate::tidy::assert_finds;

    /// `to` names foreign packages; `crates/x` is one of ours, `test:x` is for tests, `x?` is optional, and of `x+`
    /// features are asked for.
    fn package(folder: &str, to: &[&str]) -> WorkspacePackage {
        let dependency = |text: &&str| PackageDependency {
            name: text
                .trim_start_matches("test:")
                .trim_start_matches("crates/")
                .trim_end_matches(['?', '+'])
                .into(),
            internal: text.contains("crates/"),
            dev: text.starts_with("test:"),
            features: DependencyFeatures { optional: text.ends_with('?'), requested: text.ends_with('+') },
        };
        WorkspacePackage { folder: folder.into(), dependencies: to.iter().map(dependency).collect() }
    }

    fn repo(packages: Vec<WorkspacePackage>, lock: &str) -> Repository {
        Repository { packages, lock: CargoLockfile::parse(lock), ..Repository::default() }
    }

    #[test]
    fn what_the_table_allows_passes() {
        let packages = vec![
            package("durable", &["serde", "test:tokio"]),
            package("engine", &["crates/durable", "tokio"]),
            package("store-sqlite", &["rusqlite"]),
            package("cli", &["clap", "test:rusqlite"]),
        ];
        assert_finds(find_forbidden_packages, &repo(packages, ""), &[]);
    }

    #[test]
    fn a_forbidden_package_is_found_however_far_down() {
        let packages = vec![package("durable", &["log"]), package("engine", &["crates/durable"])];
        let lock = "name = \"log\"\n \"sink 1.0.0\",\nname = \"sink\"\n \"tokio\",\n \"axum\",\n";
        let expect = [
            "durable -> log -> sink -> tokio: is a path that must not be",
            "durable -> log -> sink -> axum: is a path that must not be",
            "engine -> durable -> log -> sink -> axum: is a path that must not be",
        ];
        assert_finds(find_forbidden_packages, &repo(packages, lock), &expect);
    }

    #[test]
    fn an_optional_package_is_seen_by_those_who_ask_for_features() {
        let packages = |llm: &str| {
            let env = package("env", &["serde", "tokio?"]);
            vec![env, package("narration", &["crates/env"]), package("llm", &[llm, "crates/narration"])]
        };
        assert_finds(find_forbidden_packages, &repo(packages("crates/env"), ""), &[]);
        let expect = ["llm -> env -> tokio: is a path that must not be"];
        assert_finds(find_forbidden_packages, &repo(packages("crates/env+"), ""), &expect);
    }

    #[test]
    fn a_heavy_package_outside_its_home_is_found() {
        let packages = vec![package("cli", &["rusqlite"]), package("bench", &["test:syn"])];
        let expect = ["cli: may not name rusqlite", "bench: may not name syn"];
        assert_finds(find_forbidden_packages, &repo(packages, ""), &expect);
    }
}
