//! Runs tidy over this repository, so that `cargo test` keeps the house rules.

use std::path::Path;

use xtask::Repository;

#[test]
fn the_house_is_tidy() {
    let repo = Repository::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).unwrap();
    let findings: Vec<String> = xtask::find_violations(&repo).iter().map(ToString::to_string).collect();
    assert!(findings.is_empty(), "{} findings:\n{}", findings.len(), findings.join("\n"));
}

#[test]
fn the_edges_go_one_way_down() {
    let repo = Repository::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).unwrap();
    let edges = xtask::describe_crate_edges(&repo);
    assert!(edges.starts_with("crate edges, one way down:\n"), "{edges}");
    assert!(edges.contains("env          -> nothing of ours\n"), "{edges}");
}
