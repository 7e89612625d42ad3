//! The folders of the harness are floors: a module imports from its own floor and from lower ones.

use super::TidyFinding;
use crate::Repository;
use crate::repo::SourceFile;
use crate::rust_source::RustSource;

/// The crate whose folders are floors.
const CRATE: &str = "crates/harness/src/";

/// The floors, the lowest first. `error` is the one module below all floors.
const FLOORS: &[&str] = &["error", "agents", "runtime", "turn", "dispatch", "upkeep", "base", "api"];

/// The names that modules take from the root of the crate: all others are imported from the module that has them.
const ROOT_NAMES: &[&str] = &["Error", "Result"];

/// The imports from a higher floor that are permitted: the importing module, the imported one, and the reason.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    (
        "error",
        "agents::admission",
        "a refused quota is an error of the harness, with the numbers that it names",
    ),
    (
        "runtime/loaded_session",
        "turn::stream",
        "the handle of a running turn gives its callers the live stream",
    ),
];

pub(super) fn find_imports_from_above(repo: &Repository) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    for (file, source) in repo.rust_files() {
        let Some(inside) = file.path.strip_prefix(CRATE).filter(|inside| *inside != "lib.rs") else {
            continue;
        };
        let Some(floor) = floor_of_path(inside) else {
            findings.push(TidyFinding::at_line("floors", file, 1, "stands on no floor"));
            continue;
        };
        let tests_from = file.first_test_line().unwrap_or(usize::MAX);
        for (line, path) in crate_paths(source).into_iter().filter(|(line, _)| *line < tests_from) {
            if let Some(what) = check_import(file, floor, &path) {
                findings.push(TidyFinding::at_line("floors", file, line, what));
            }
        }
    }
    findings
}

/// Returns the height of the floor on which a file stands.
fn floor_of_path(inside: &str) -> Option<usize> {
    let folder = inside.split('/').next()?.trim_end_matches(".rs");
    FLOORS.iter().position(|floor| *floor == folder)
}

fn check_import(file: &SourceFile, floor: usize, path: &[String]) -> Option<String> {
    let first = path.first()?;
    let Some(target) = FLOORS.iter().position(|name| name == first) else {
        let is_root_name = ROOT_NAMES.contains(&first.as_str());
        return (!is_root_name).then(|| format!("imports {first} from the root of the crate"));
    };
    let imported = path[..path.len().min(2)].join("::");
    let is_excepted =
        EXCEPTIONS.iter().any(|(from, to, _)| file.path == format!("{CRATE}{from}.rs") && *to == imported);
    let is_permitted = target <= floor || is_excepted;
    (!is_permitted).then(|| format!("imports {imported}, which stands on a higher floor"))
}

/// Returns the paths that begin with `crate::`, each with its line: up to two segments, one path for each name of a
/// group.
fn crate_paths(source: &RustSource) -> Vec<(usize, Vec<String>)> {
    let mut paths = Vec::new();
    for at in source.word_offsets("crate") {
        let Some(rest) = source.code[at + "crate".len()..].strip_prefix("::") else { continue };
        let line = source.line_at_offset(at);
        match rest.strip_prefix('{') {
            Some(group) => {
                let group = group.split(';').next().unwrap_or_default();
                paths.extend(split_group(group).map(|path| (line, path_segments(path))));
            }
            None => paths.push((line, path_segments(rest))),
        }
    }
    paths
}

/// Splits a group into its paths. Only the beginnings of nested groups count: they name the module.
fn split_group(group: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_u32;
    group
        .split(move |letter: char| {
            depth = match letter {
                '{' => depth + 1,
                '}' => depth.saturating_sub(1),
                _ => depth,
            };
            letter == ',' && depth == 0
        })
        .map(str::trim)
        .filter(|path| path.starts_with(|letter: char| letter.is_alphabetic()))
}

fn path_segments(path: &str) -> Vec<String> {
    let end = path.find(|letter: char| !(letter.is_alphanumeric() || letter == '_' || letter == ':'));
    path[..end.unwrap_or(path.len())]
        .split("::")
        .filter(|segment| !segment.is_empty())
        .take(2)
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_finds;

    fn finds(path: &str, code: &str, expect: &[&str]) {
        assert_finds(find_imports_from_above, &Repository::from_texts(&[(path, code)]), expect);
    }

    const FILE: &str = "crates/harness/src/turn/x.rs";

    #[test]
    fn an_import_from_a_higher_floor_is_found() {
        let above = "crates/harness/src/turn/x.rs:1: imports api::chat, which stands on a higher floor";
        finds(FILE, "use crate::api::chat::Chat;", &[above]);
        finds(FILE, "fn f(chat: &crate::api::chat::Chat) {}", &[above]);
        finds(FILE, "use crate::{Error, runtime::commit, api::chat::{Chat, ChatBuilder}};", &[above]);
    }

    #[test]
    fn imports_from_the_own_floor_and_from_lower_ones_pass() {
        finds(FILE, "use crate::turn::y::Y;\nuse crate::{Error, Result};\nuse crate::error::z;", &[]);
        finds(FILE, "use crate::runtime::commit::PendingCommit;", &[]);
        finds("crates/other/src/turn/x.rs", "use crate::api::chat::Chat;", &[]);
        finds(FILE, "fn f() {}\n#[cfg(test)]\nmod tests { use crate::api::chat::Chat; }", &[]);
    }

    #[test]
    fn a_name_of_the_root_hides_no_floor_and_every_file_stands_on_one() {
        let root = "crates/harness/src/turn/x.rs:1: imports Chat from the root of the crate";
        finds(FILE, "use crate::{Chat, Error};", &[root]);
        finds("crates/harness/src/x.rs", "", &["crates/harness/src/x.rs:1: stands on no floor"]);
    }
}
