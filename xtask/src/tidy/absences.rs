//! The workspace has no global state, and reads no environment below the binary.

use super::TidyFinding;
use crate::Repository;
use crate::rust_source::RustSource;
use crate::std_paths::std_modules;

/// Programs, which may ask the environment. Tests may too, and the crate that they ask for their store.
const PROGRAMS: &[&str] = &[
    "crates/cli/",
    "crates/conformance/",
    "crates/harness/examples/",
    "crates/test-store/",
    "examples/",
    "bench/",
    "xtask/",
];

/// Types through which a `static` becomes state. A `LazyLock` alone is a constant with late initialization; its inner
/// type is checked too.
const STATE: &[&str] = &["Mutex", "RwLock", "OnceLock", "OnceCell", "Cell", "RefCell", "UnsafeCell"];

const SHARED_BY_TESTS: &str =
    "the tests of a process share a server, and nothing is called before or after all of them";

/// Files that may have global state, and why.
const GLOBAL: &[(&str, &str)] = &[
    (
        "crates/conformance/src/telemetry/global_tracer.rs",
        "the tracer provider of OpenTelemetry is the process's own; cases that watch it take turns",
    ),
    (
        "crates/env/src/trace_headers.rs",
        "the value of one future, set while that is polled; tokio is not below `llm`",
    ),
    ("crates/test-store/src/bridge.rs", SHARED_BY_TESTS),
    ("crates/test-store/src/server.rs", SHARED_BY_TESTS),
    ("crates/test-store/src/store.rs", SHARED_BY_TESTS),
];

pub(super) fn find_global_state_and_environment(repo: &Repository) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    for (file, source) in repo.rust_files() {
        let tests_from = file.first_test_line().unwrap_or(usize::MAX);
        let mut found = match GLOBAL.iter().any(|(path, _)| *path == file.path) {
            true => Vec::new(),
            false => global_state_uses(source),
        };
        if !PROGRAMS.iter().any(|program| file.path.starts_with(program)) {
            found.extend(environment_uses(source));
        }
        for (at, what) in found {
            let line = source.line_at_offset(at);
            if line < tests_from {
                findings.push(TidyFinding::at_line("absences", file, line, what));
            }
        }
    }
    findings
}

fn global_state_uses(source: &RustSource) -> Vec<(usize, &'static str)> {
    let what = "global state: pass it in";
    let mut found: Vec<_> = source.word_offsets("thread_local").map(|at| (at, what)).collect();
    for at in source.word_offsets("static").filter(|&at| !source.code[..at].ends_with('\'')) {
        let item = &source.code[at + "static".len()..];
        let declared = item.split(['=', ';']).next().unwrap_or_default();
        let words = declared.split(|c: char| !c.is_alphanumeric() && c != '_');
        let state = |word: &str| word == "mut" || STATE.contains(&word) || word.starts_with("Atomic");
        if words.into_iter().any(state) {
            found.push((at, what));
        }
    }
    found
}

fn environment_uses(source: &RustSource) -> impl Iterator<Item = (usize, &'static str)> {
    std_modules(source)
        .into_iter()
        .filter(|(_, module)| *module == "env")
        .map(|(at, _)| (at, "only the binary asks the environment: take a value"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_finds;

    fn finds(path: &str, code: &str, what: Option<&str>) {
        let expect: Vec<String> = what.iter().map(|what| format!("{path}:1: {what}")).collect();
        let expect: Vec<&str> = expect.iter().map(String::as_str).collect();
        assert_finds(find_global_state_and_environment, &Repository::from_texts(&[(path, code)]), &expect);
    }

    #[test]
    fn global_state_is_found_wherever_it_is() {
        for code in [
            "static mut X: u8 = 1;",
            "static X: AtomicU64 = AtomicU64::new(1);",
            "pub static X: std::sync::OnceLock<u8> = OnceLock::new();",
            "static X: LazyLock<Mutex<u8>> = y();",
            "thread_local! { static X: u8 = 1; }",
        ] {
            finds("crates/cli/src/x.rs", code, Some("global state: pass it in"));
        }
    }

    #[test]
    fn constants_and_lifetimes_pass() {
        for code in [
            "static X: &[&str] = &[];",
            "static X: LazyLock<Schema> = LazyLock::new(y);",
            "fn f(x: &'static Mutex<u8>) {}",
            "// static mut X",
        ] {
            finds("crates/llm/src/x.rs", code, None);
        }
    }

    #[test]
    fn the_environment_is_for_programs_and_tests() {
        let what = Some("only the binary asks the environment: take a value");
        finds("crates/llm/src/x.rs", "std::env::var_os(x)", what);
        finds("crates/llm/src/x.rs", "use std::{env, fs};", what);
        finds("crates/llm/tests/it/x.rs", "std::env::var_os(x)", None);
        finds("crates/cli/src/x.rs", "std::env::args()", None);
    }
}
