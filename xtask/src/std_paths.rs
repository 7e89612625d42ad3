//! Which modules of the standard library a source names.

use crate::rust_source::RustSource;

/// Returns the path after each `std::`: one name, or the first names of a group.
pub(crate) fn std_modules(source: &RustSource) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for at in source.word_offsets("std") {
        let rest = &source.code[at + 3..];
        let Some(path) = rest.trim_start().strip_prefix("::").map(str::trim_start) else {
            continue;
        };
        match path.strip_prefix('{') {
            Some(group) => found.extend(group_members(group).into_iter().map(|name| (at, name))),
            None => found.push((at, first_path_name(path))),
        }
    }
    found
}

/// Returns the first name of every member of a group whose opening brace was taken off.
fn group_members(group: &str) -> Vec<&str> {
    let mut names = vec![first_path_name(group.trim_start())];
    let mut depth = 1;
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 1 => names.push(first_path_name(group[at + 1..].trim_start())),
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    names
}

fn first_path_name(path: &str) -> &str {
    path.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alone_or_in_a_group_every_module_is_named() {
        let check = |code: &str, expect: &[&str]| {
            let source = RustSource::scan(code);
            let found: Vec<&str> = std_modules(&source).into_iter().map(|(_, name)| name).collect();
            assert_eq!(found, expect, "{code}");
        };
        check("use std::fs;", &["fs"]);
        check("let x = ::std :: env::var(y);", &["env"]);
        check("use std::{\n    collections::{BTreeMap, fs},\n    io::Read,\n};", &["collections", "io", ""]);
        check("// std::fs\nlet s = \"std::fs\"; stdx::fs; std;", &[]);
    }
}
