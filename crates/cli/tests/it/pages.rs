//! Pages of the documentation, followed as their readers follow them: commands, files and expected output.

use std::ffi::OsString;
use std::path::Path;

use crate::home::{BINARY, Home};

/// Where the pages have their server.
const PORT: &str = "8787";

/// The separator between the outputs of two steps.
const BETWEEN: &str = "<<< end of a step >>>";

/// A fenced block.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Block<'p> {
    /// The number of its first line, the fence.
    pub(crate) line: usize,
    /// The text behind the opening fence.
    pub(crate) language: &'p str,
    /// The last line of text before it.
    pub(crate) before: &'p str,
    pub(crate) text: String,
}

impl Block<'_> {
    /// Returns the file that the line before it says to write.
    pub(crate) fn file(&self) -> Option<&str> {
        self.before.strip_prefix('`')?.strip_suffix("`:")
    }
}

/// Finds the blocks of a page, from above.
pub(crate) fn blocks(page: &str) -> Vec<Block<'_>> {
    let (mut blocks, mut before) = (Vec::new(), "");
    let mut lines = (1..).zip(page.lines());
    while let Some((line, text)) = lines.next() {
        if let Some(language) = text.trim_start().strip_prefix("```") {
            let body = lines.by_ref().map(|it| it.1).take_while(|it| it.trim_start() != "```");
            let text = body.flat_map(|it| [it, "\n"]).collect();
            blocks.push(Block { line, language, before, text });
            before = "";
        } else if !text.is_empty() {
            before = text;
        }
    }
    blocks
}

/// One thing that a page tells its reader to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// Where it stands.
    pub(crate) place: String,
    pub(crate) shell: String,
    /// The expected output, if the page has one. A step without one has to succeed.
    pub(crate) prints: Option<String>,
}

impl Step {
    pub(crate) fn new(place: String, shell: String) -> Self {
        Self { place, shell, prints: None }
    }

    /// Writes a file.
    pub(crate) fn write(place: String, file: &str, text: &str) -> Self {
        let shell = format!(
            "mkdir -p \"$(dirname '{file}')\"\ncat >'{file}' <<'<<< end of a file >>>'\n{text}<<< end of a file >>>"
        );
        Self::new(place, shell)
    }
}

/// The part of a step's output that is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seen {
    /// The standard output.
    Out,
    /// That and the standard error, as in a terminal.
    Both,
}

/// Runs the steps in order, in one shell, and compares the output of each.
pub(crate) fn follow(home: &Home, steps: &[Step], seen: Seen, environment: &[(String, OsString)]) {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let mut script = "set -uo pipefail\ntrap 'kill -9 $(jobs -p) 2>/dev/null || true' EXIT\n".to_owned();
    if seen == Seen::Both {
        script += "exec 2>&1\n";
    }
    for step in steps {
        let breaks_off = if step.prints.is_some() { "set +e" } else { "set -e" };
        script +=
            &format!("{breaks_off}\n{}\nprintf '\\n%s\\n' '{BETWEEN}'\n", step.shell.replace(PORT, &port));
    }
    let mut path = OsString::from(Path::new(BINARY).parent().unwrap());
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let mut command = home.command("timeout");
    command.env("PATH", path).envs(environment.iter().map(|(name, value)| (name, value)));
    let ran = command.current_dir(home.path()).args(["1200", "bash", "-c", &script]).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    let printed: Vec<&str> = out.split(BETWEEN).collect();
    for (step, printed) in steps.iter().zip(&printed[..printed.len() - 1]) {
        let (Step { place, shell, .. }, printed) = (step, seen_by_people(printed).replace(&port, PORT));
        let expected = step.prints.as_deref().unwrap_or("...").trim();
        assert!(
            fits(expected, &printed),
            "{place}: {shell}\n\nprinted\n{printed}\nand not\n{expected}\n{err}"
        );
    }
    let log = std::fs::read_to_string(home.path().join("serve.log")).unwrap_or_default();
    let stopped = steps.get(printed.len() - 1);
    let told = format!("{}\n{}\n{err}\n{log}", ran.status, printed.last().unwrap_or(&""));
    if let Some(Step { place, shell, .. }) = stopped {
        panic!("{place} breaks off: {shell}\n{told}");
    }
}

/// Removes invisible differences: space at the ends of lines.
fn seen_by_people(printed: &str) -> String {
    printed.lines().map(str::trim_end).collect::<Vec<_>>().join("\n").trim().to_owned()
}

/// Tells whether a text is as expected, where `...` stands for anything.
pub(crate) fn fits(expected: &str, text: &str) -> bool {
    let mut parts = expected.split("...");
    let Some(mut rest) = parts.next().and_then(|it| text.strip_prefix(it)) else { return false };
    let mut parts = parts.peekable();
    while let Some(part) = parts.next() {
        let found =
            if parts.peek().is_none() { rest.strip_suffix(part).map(|it| it.len()) } else { rest.find(part) };
        match found {
            Some(at) => rest = rest.get(at + part.len()..).unwrap_or_default(),
            None => return false,
        }
    }
    rest.is_empty()
}

#[test]
fn three_dots_stand_for_anything() {
    assert!(fits("a ... c", "a b c") && fits("a...", "abc") && fits("...c", "abc") && fits("abc", "abc"));
    assert!(fits("{...}[...]", "{1}[2]") && fits("x....1", "xyz.1") && fits("...", "") && fits("", ""));
    assert!(!fits("a ... d", "a b c") && !fits("ab", "abc") && !fits("...d...", "abc") && !fits("abc", "ab"));
}

#[test]
fn blocks_are_found_with_their_language_and_the_file_that_they_are() {
    let page =
        "# A\n\n`a/b.rs`:\n\n```rust\nfn a() {}\n\n```\n\nThen:\n\n```sh\nls\n```\n\n```text\nb.rs\n```\n";
    let found = blocks(page);
    let told: Vec<_> = found.iter().map(|it| (it.line, it.language, it.file(), it.text.as_str())).collect();
    let expected = [
        (5, "rust", Some("a/b.rs"), "fn a() {}\n\n"),
        (12, "sh", None, "ls\n"),
        (16, "text", None, "b.rs\n"),
    ];
    assert_eq!(told, expected);
}

#[test]
fn a_step_that_prints_something_else_or_breaks_off_is_found() {
    let step = |shell: &str, prints: Option<&str>| Step {
        prints: prints.map(str::to_owned),
        ..Step::new("x.md:1".to_owned(), shell.to_owned())
    };
    let fails = |steps: Vec<Step>| {
        let told = std::panic::catch_unwind(|| follow(&Home::new(), &steps, Seen::Both, &[])).unwrap_err();
        told.downcast_ref::<String>().cloned().unwrap_or_default()
    };
    follow(&Home::new(), &[step("a=b", None), step("echo $a; false", Some("b"))], Seen::Both, &[]);
    assert!(fails(vec![step("echo c", Some("b"))]).contains("x.md:1: echo c\n\nprinted\nc\nand not\nb"));
    assert!(fails(vec![step("true", None), step("false", None)]).starts_with("x.md:1 breaks off: false"));
    assert!(fails(vec![step("exit 0", None)]).starts_with("x.md:1 breaks off: exit 0"));
}
