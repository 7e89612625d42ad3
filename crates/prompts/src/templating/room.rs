//! Room for recursion: the engine parses, prints and drops by recursion, and a template can make it deep.

use std::thread;

/// How many levels a template may make the engine's parser recurse: bytes and words of a template that may be
/// operators. Prose counts a little, so this is some 1.5 MiB of it.
const LEVELS: usize = 50_000;

/// The stack for a template that may recurse. The system commits only the pages in use. It holds chains of every kind
/// up to [`LEVELS`], and values nested as deep as the steps allow, without optimization (`tests/it/deep.rs`).
const STACK: usize = 256 * 1024 * 1024;

/// How long a simple tag may be.
const SIMPLE_TAG: usize = 256;

/// Words that are operators, or make a chain of branches.
const WORDS: &[&str] = &["and", "elif", "else", "if", "in", "is", "not", "or"];

/// Tells whether a template is text and tags `{{ name }}` or `{{ name.part }}` only: nothing that recurses.
pub(super) fn is_simple_template(template: &str) -> bool {
    let mut rest = template;
    while let Some(at) = rest.find('{') {
        rest = &rest[at + 1..];
        if rest.starts_with(['%', '#']) {
            return false;
        }
        let Some(tag) = rest.strip_prefix('{') else { continue };
        let Some(end) = tag.find("}}").filter(|it| *it <= SIMPLE_TAG) else { return false };
        if !tag[..end].trim_matches(' ').split('.').all(crate::render::is_identifier) {
            return false;
        }
        rest = &tag[end + 2..];
    }
    true
}

/// Refuses a template that might make the parser recurse deeper than there is room.
pub(super) fn require_shallow(template: &str) -> Result<(), String> {
    let marks = template.bytes().filter(|byte| b"-+*/~|.%([{<>=!:".contains(byte)).count();
    let words = template.split(|it: char| !it.is_alphanumeric()).filter(|part| WORDS.contains(part)).count();
    if marks + words > LEVELS {
        return Err(format!("the template may have more than {LEVELS} operators"));
    }
    Ok(())
}

/// Does something where there is room, and waits for it.
pub(super) fn run_with_large_stack<T: Send>(
    work: impl FnOnce() -> Result<T, String> + Send,
) -> Result<T, String> {
    thread::scope(|scope| {
        let started =
            thread::Builder::new().name("prompt".into()).stack_size(STACK).spawn_scoped(scope, work);
        let started = started.map_err(|error| format!("there is no room to render it: {error}"))?;
        started.join().unwrap_or_else(|_| Err("the template engine panicked".into()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_are_simple() {
        for (template, simple) in [
            ("", true),
            ("text } {", true),
            ("{{ a }}{{a.b_1}} {{  c  }}", true),
            ("{{ a", false),
            ("{{ a | upper }}", false),
            ("{{ a[0] }}", false),
            ("{{ a. }}", false),
            ("{{- a }}", false),
            ("{{ }}", false),
            ("{{ 1 }}", false),
            ("{{ 'a}}' }}", false),
            ("{{ a\n}}", false),
            ("{{{ a }}}", false),
            ("{# c #}", false),
            ("{% if a %}", false),
        ] {
            assert_eq!(is_simple_template(template), simple, "{template}");
        }
        assert!(!is_simple_template(&format!("{{{{ a{} }}}}", ".a".repeat(SIMPLE_TAG))));
    }
}
