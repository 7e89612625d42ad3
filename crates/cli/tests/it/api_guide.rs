//! The shell blocks of docs/api.md, run in order as a new user would: each prints what stands below it.

use std::ffi::OsString;
use std::io::Write as _;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use crate::home::{BINARY, Home};

const PAGE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/api.md"));

/// Where the page has its server.
const PORT: &str = "8787";

/// What stands between the outputs of two blocks.
const BETWEEN: &str = "<<< end of a block >>>";

/// A block of the page, and what it prints.
struct Block {
    shell: String,
    prints: String,
}

/// Finds the shell blocks, each with the block of text behind it, if there is one.
fn blocks(page: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let kind = line.strip_prefix("```").unwrap_or_default();
        if kind.is_empty() {
            continue;
        }
        let body: Vec<&str> = lines.by_ref().take_while(|it| *it != "```").collect();
        let body = body.join("\n");
        match (kind, blocks.last_mut()) {
            ("sh", _) => blocks.push(Block { shell: body, prints: String::new() }),
            ("text", Some(last)) => last.prints = body,
            _ => {}
        }
    }
    blocks
}

/// Tells whether a text is as expected, where `...` stands for anything.
fn fits(expected: &str, text: &str) -> bool {
    let mut parts = expected.split("...");
    let Some(mut rest) = parts.next().and_then(|it| text.strip_prefix(it)) else { return false };
    let mut parts = parts.peekable();
    while let Some(part) = parts.next() {
        let found = if parts.peek().is_none() {
            rest.strip_suffix(part).map(|_| rest.len())
        } else {
            rest.find(part)
        };
        match found {
            Some(at) => rest = rest.get(at + part.len()..).unwrap_or_default(),
            None => return false,
        }
    }
    rest.is_empty() || expected.ends_with("...")
}

#[test]
fn three_dots_stand_for_anything() {
    assert!(fits("a ... c", "a b c") && fits("a...", "abc") && fits("...c", "abc") && fits("abc", "abc"));
    assert!(fits("{...}[...]", "{1}[2]") && fits("x....1", "xyz.1"));
    assert!(!fits("a ... d", "a b c") && !fits("ab", "abc") && !fits("...d...", "abc") && !fits("abc", "ab"));
}

/// Tells whether curl is there, and new enough to send JSON by one word.
fn curl_sends_json() -> bool {
    let help = Command::new("curl").args(["--help", "all"]).output();
    help.is_ok_and(|it| String::from_utf8_lossy(&it.stdout).contains("--json"))
}

// INV-2, INV-7
#[test]
fn the_story_of_the_guide_goes_as_it_stands_there() {
    if !curl_sends_json() {
        let told = writeln!(
            std::io::stderr(),
            "not run: the story of docs/api.md: there is no curl that knows --json"
        );
        return told.unwrap();
    }
    let home = Home::new();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let blocks = blocks(PAGE);
    assert!(blocks.len() > 8, "the page has lost its story");
    let mut script = "set -euo pipefail\ntrap 'kill -9 $(jobs -p) 2>/dev/null || true' EXIT\n".to_owned();
    for block in &blocks {
        script += &format!("{}\nprintf '\\n%s\\n' '{BETWEEN}'\n", block.shell.replace(PORT, &port));
    }
    let folder = Path::new(BINARY).parent().unwrap();
    let mut path = OsString::from(folder);
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let mut command = home.command("timeout");
    command.env("PATH", path).current_dir(home.path()).args(["120", "bash", "-c", &script]);
    let ran = command.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    let log = std::fs::read_to_string(home.path().join("serve.log")).unwrap_or_default();
    let told = format!("{}\n{out}\n{err}\n{log}", ran.status);
    assert!(ran.status.success(), "{told}");
    let printed: Vec<&str> = out.split(BETWEEN).collect();
    assert_eq!(printed.len(), blocks.len() + 1, "{told}");
    for (block, printed) in blocks.iter().zip(printed) {
        let printed = printed.trim();
        assert!(
            fits(&block.prints, printed),
            "{}\n\nprinted\n{printed}\nand not\n{}",
            block.shell,
            block.prints
        );
    }
}
