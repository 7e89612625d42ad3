//! Values, positions and the structure of graphs are pure: no runtime, no clock, no I/O.

use super::TidyFinding;
use crate::Repository;
use crate::std_paths::std_modules;

/// The folders of pure code.
const PURE: &[&str] = &["crates/graph/src/", "crates/engine/src/plan/", "crates/session/src/"];

/// Names that may not stand in pure code.
const NAMES: &[&str] = &["tokio", "async", "await", "SystemTime", "Instant"];

/// Modules of the standard library that it may not use, alone or in a group.
const MODULES: &[&str] = &["fs", "net", "io", "thread", "env", "process"];

pub(super) fn find_impure_names(repo: &Repository) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    for (file, source) in repo.rust_files() {
        if !PURE.iter().any(|folder| file.path.starts_with(folder)) {
            continue;
        }
        let names =
            NAMES.iter().flat_map(|name| source.word_offsets(name).map(|at| (at, (*name).to_owned())));
        let modules = std_modules(source)
            .into_iter()
            .filter(|(_, name)| MODULES.contains(name))
            .map(|(at, name)| (at, format!("std::{name}")));
        for (at, name) in names.chain(modules) {
            let what = format!("this code is pure, and it uses {name}");
            findings.push(TidyFinding::at_line("plan", file, source.line_at_offset(at), what));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_finds;

    fn finds(code: &str, names: &[&str]) {
        let expect: Vec<String> = names
            .iter()
            .map(|name| format!("crates/engine/src/plan/x.rs:1: this code is pure, and it uses {name}"))
            .collect();
        let expect: Vec<&str> = expect.iter().map(String::as_str).collect();
        assert_finds(
            find_impure_names,
            &Repository::from_texts(&[("crates/engine/src/plan/x.rs", code)]),
            &expect,
        );
    }

    #[test]
    fn every_impure_thing_is_found() {
        finds("use tokio::sync::mpsc;", &["tokio"]);
        finds("use std::thread::spawn;", &["std::thread"]);
        finds("fn f(t: SystemTime, i: Instant) {}", &["SystemTime", "Instant"]);
        finds("std::fs::read(p); std::net::x; std::io::y", &["std::fs", "std::net", "std::io"]);
        finds("async fn f() { g().await }", &["async", "await"]);
    }

    #[test]
    fn a_group_hides_nothing() {
        finds("use std::{collections::{BTreeMap, fs}, io::Read, net};", &["std::io", "std::net"]);
    }

    #[test]
    fn pure_code_and_words_about_impure_things_pass() {
        finds("// no tokio, no std::fs\nuse std::sync::Arc; fn instant() { \"Instant\" }", &[]);
        let elsewhere = [("crates/engine/src/run/x.rs", "use tokio::sync::mpsc;")];
        assert_finds(find_impure_names, &Repository::from_texts(&elsewhere), &[]);
    }
}
