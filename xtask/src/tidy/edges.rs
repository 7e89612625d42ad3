//! Which crate may depend on which: one way down, no circle.

use std::collections::BTreeMap;

use super::TidyFinding;
use crate::Repository;
use crate::packages::WorkspacePackage;

/// The permitted dependencies of each crate. An edge that is not here is forbidden.
const ALLOWED: &[(&str, &[&str])] = &[
    ("env", &[]),
    ("narration", &[]),
    ("protocol", &[]),
    ("xtask", &[]),
    ("durable", &[]),
    ("erasures", &["durable"]),
    ("http", &[]),
    ("llm", &[]),
    ("graph", &["durable"]),
    ("engine", &["graph", "durable", "llm"]),
    ("macros", &["engine"]),
    ("telemetry", &["engine", "llm"]),
    ("otlp", &["telemetry", "http"]),
    ("tools", &["http", "llm"]),
    ("prompts", &["llm"]),
    ("providers", &["http", "llm"]),
    ("mcp", &["http", "tools", "llm"]),
    ("client", &["http", "protocol"]),
    ("session", &["graph", "durable", "llm"]),
    ("harness", &["session", "engine", "durable", "llm", "narration", "telemetry"]),
    ("export", &["harness", "telemetry", "durable"]),
    ("draw", &["harness", "engine", "durable", "narration", "telemetry"]),
    ("campaign", &["durable", "llm"]),
    ("audit", &["harness", "durable", "llm"]),
    ("test-store", &["durable", "store-postgres"]),
    ("torture", &["audit", "agent", "harness", "engine", "durable", "store-testing", "llm", "tools"]),
    (
        "simulation",
        &[
            "audit",
            "agent",
            "campaign",
            "controller",
            "server",
            "harness",
            "engine",
            "durable",
            "http",
            "llm",
            "narration",
            "protocol",
            "tools",
        ],
    ),
    ("agent", &["harness", "engine", "durable", "macros", "llm", "narration", "tools"]),
    (
        "controller",
        &["campaign", "agent", "harness", "engine", "durable", "macros", "llm", "narration", "tools"],
    ),
    (
        "config",
        &[
            "controller",
            "campaign",
            "agent",
            "providers",
            "mcp",
            "harness",
            "engine",
            "http",
            "llm",
            "tools",
            "prompts",
            "narration",
            "telemetry",
        ],
    ),
    (
        "server",
        &[
            "controller",
            "campaign",
            "harness",
            "agent",
            "draw",
            "engine",
            "durable",
            "http",
            "llm",
            "protocol",
            "narration",
            "telemetry",
            "export",
        ],
    ),
];

/// The crate below all others: every library may depend on it, except those named here.
const GROUND: &str = "env";

/// Crates that do not depend on [`GROUND`]: a type and a sink, wire shapes, generated code, and the project's chores.
const WITHOUT_GROUND: &[&str] = &["env", "narration", "protocol", "macros", "xtask", "draw"];

/// The permitted dependencies of any store, and of the tests for stores.
const STORES: &[&str] = &["durable", "erasures"];

/// The roots, where the crates are put together: they may depend on anything.
const ROOTS: &[&str] = &["cli", "conformance", "singletree", "bench"];

type Levels<'a> = BTreeMap<&'a str, usize>;

pub(super) fn find_forbidden_edges(repo: &Repository) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    for package in &repo.packages {
        if !ROOTS.contains(&package.folder.as_str()) && allowed_dependencies(&package.folder).is_none() {
            findings.push(edge_finding(package, "has no row in the table of edges"));
        }
        for to in package.internal_dependencies(false).filter(|to| !is_allowed_edge(&package.folder, to)) {
            findings.push(edge_finding(package, &format!("may not depend on {to}")));
        }
    }
    match compute_levels(&repo.packages) {
        Ok(levels) => findings.extend(find_tests_reaching_up(&repo.packages, &levels)),
        Err(circle) => findings.push(TidyFinding::new("edges", circle, "is a circle")),
    }
    findings
}

/// Prints the edges between crates as they are, the highest crate first.
#[must_use]
pub fn describe_crate_edges(repo: &Repository) -> String {
    let levels = match compute_levels(&repo.packages) {
        Ok(levels) => levels,
        Err(circle) => return format!("a circle: {circle}\n"),
    };
    let mut packages: Vec<&WorkspacePackage> = repo.packages.iter().collect();
    packages.sort_by_key(|p| (std::cmp::Reverse(levels[p.folder.as_str()]), &p.folder));
    let mut text = String::from("crate edges, one way down:\n");
    for package in packages {
        let mut to: Vec<&str> = package.internal_dependencies(false).collect();
        to.sort_by_key(|to| (std::cmp::Reverse(levels[to]), *to));
        let to = if to.is_empty() { "nothing of ours".to_owned() } else { to.join(", ") };
        let folder = &package.folder;
        text += &format!("  {} {folder:<12} -> {to}\n", levels[folder.as_str()]);
    }
    text
}

fn edge_finding(package: &WorkspacePackage, what: &str) -> TidyFinding {
    TidyFinding::new("edges", &package.folder, what)
}

fn allowed_dependencies(folder: &str) -> Option<&'static [&'static str]> {
    if folder.starts_with("store-") {
        return Some(STORES);
    }
    ALLOWED.iter().find(|(from, _)| *from == folder).map(|(_, to)| *to)
}

fn is_allowed_edge(from: &str, to: &str) -> bool {
    let ground = to == GROUND && !WITHOUT_GROUND.contains(&from);
    ROOTS.contains(&from) || allowed_dependencies(from).is_some_and(|row| ground || row.contains(&to))
}

/// A test may use the dependencies of its crate, and every crate that stands no higher than its own.
fn find_tests_reaching_up(packages: &[WorkspacePackage], levels: &Levels<'_>) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    for package in packages {
        let from = package.folder.as_str();
        let up = |to: &&str| !is_allowed_edge(from, to) && levels[to] > levels[from];
        for to in package.internal_dependencies(true).filter(up) {
            findings.push(edge_finding(package, &format!("may not depend on {to}, not even in tests")));
        }
    }
    findings
}

/// Gives every crate a level above all it depends on, or names a circle.
fn compute_levels(packages: &[WorkspacePackage]) -> Result<Levels<'_>, String> {
    let mut levels = Levels::new();
    while levels.len() < packages.len() {
        let before = levels.len();
        for package in packages {
            let below: Option<Vec<usize>> =
                package.internal_dependencies(false).map(|to| levels.get(to).copied()).collect();
            if let Some(below) = below {
                levels.insert(&package.folder, below.iter().max().map_or(0, |top| top + 1));
            }
        }
        if levels.len() == before {
            return Err(describe_circle(packages, &levels));
        }
    }
    Ok(levels)
}

/// Follows the edges between crates without a level until one comes again.
fn describe_circle(packages: &[WorkspacePackage], levels: &Levels<'_>) -> String {
    let stuck = |folder: &&str| !levels.contains_key(*folder);
    let mut at = packages.iter().map(|package| package.folder.as_str()).find(stuck);
    let mut path: Vec<&str> = Vec::new();
    while let Some(folder) = at {
        if let Some(first) = path.iter().position(|seen| *seen == folder) {
            path.push(folder);
            return path[first..].join(" -> ");
        }
        path.push(folder);
        let package = packages.iter().find(|package| package.folder == folder);
        at = package.and_then(|package| package.internal_dependencies(false).find(stuck));
    }
    path.join(" -> ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packages::{DependencyFeatures, PackageDependency};
    use crate::tidy::assert_finds;

    fn repo(packages: &[(&str, &[&str], &[&str])]) -> Repository {
        let to = |names: &[&str], dev| {
            let new = |name: &&str| PackageDependency {
                name: (*name).into(),
                internal: true,
                dev,
                features: DependencyFeatures::default(),
            };
            names.iter().map(new).collect::<Vec<_>>()
        };
        let packages = packages.iter().map(|(folder, normal, tests)| WorkspacePackage {
            folder: (*folder).into(),
            dependencies: [to(normal, false), to(tests, true)].concat(),
        });
        Repository { packages: packages.collect(), ..Repository::default() }
    }

    #[test]
    fn the_edges_of_the_table_pass() {
        let repo = repo(&[
            ("durable", &[], &[]),
            ("engine", &["durable"], &["macros"]),
            ("macros", &[], &["engine"]),
            ("store-sqlite", &["durable"], &["store-sqlite"]),
            ("cli", &["engine", "store-sqlite"], &[]),
        ]);
        assert_finds(find_forbidden_edges, &repo, &[]);
        assert_eq!(
            describe_crate_edges(&repo),
            "crate edges, one way down:\n  2 cli          -> engine, store-sqlite\n  \
             1 engine       -> durable\n  1 store-sqlite -> durable\n  \
             0 durable      -> nothing of ours\n  0 macros       -> nothing of ours\n"
        );
    }

    #[test]
    fn an_edge_that_is_not_in_the_table_is_found() {
        let llm = ("llm", &[] as &[&str], &[] as &[&str]);
        let repo = repo(&[llm, ("graph", &["llm"], &[]), ("store-x", &["llm"], &[])]);
        let expect = ["graph: may not depend on llm", "store-x: may not depend on llm"];
        assert_finds(find_forbidden_edges, &repo, &expect);
    }

    #[test]
    fn all_but_a_few_crates_may_depend_on_the_environment() {
        let env = ("env", &[] as &[&str], &["env"] as &[&str]);
        let repo = repo(&[
            env,
            ("llm", &["env"], &[]),
            ("store-x", &["env"], &[]),
            ("narration", &["env"], &[]),
            ("other", &["env"], &[]),
        ]);
        let expect = [
            "narration: may not depend on env",
            "other: has no row in the table of edges",
            "other: may not depend on env",
        ];
        assert_finds(find_forbidden_edges, &repo, &expect);
    }

    #[test]
    fn a_crate_without_a_row_is_found() {
        assert_finds(
            find_forbidden_edges,
            &repo(&[("new", &[], &[])]),
            &["new: has no row in the table of edges"],
        );
    }

    #[test]
    fn a_circle_is_found_and_named() {
        let repo = repo(&[
            ("cli", &["singletree"], &[]),
            ("singletree", &["bench"], &[]),
            ("bench", &["singletree"], &[]),
        ]);
        assert_finds(find_forbidden_edges, &repo, &["singletree -> bench -> singletree: is a circle"]);
        assert_eq!(describe_crate_edges(&repo), "a circle: singletree -> bench -> singletree\n");
    }

    #[test]
    fn tests_may_not_reach_up() {
        let repo = repo(&[("durable", &[], &["store-x"]), ("store-x", &["durable"], &[])]);
        let expect = ["durable: may not depend on store-x, not even in tests"];
        assert_finds(find_forbidden_edges, &repo, &expect);
    }
}
