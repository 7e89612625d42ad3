//! The shell blocks of docs/api.md, run in order as a new user would: each prints the text below it.

use std::io::Write as _;
use std::process::Command;

use crate::home::Home;
use crate::pages::{Seen, Step, blocks, follow};

const PAGE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/api.md"));

/// Finds the shell blocks, each with the block of text behind it, if there is one.
fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for block in blocks(page) {
        match (block.language, steps.last_mut()) {
            ("sh", _) => steps.push(Step::new(format!("docs/api.md:{}", block.line), block.text)),
            ("text", Some(last)) => last.prints = Some(block.text),
            ("text" | "json", _) => {}
            (other, _) => panic!("docs/api.md:{}: nothing checks '{other}'", block.line),
        }
    }
    steps
}

/// Tells whether curl is there, and new enough to send JSON by one word; says so where it is not.
pub(crate) fn curl_sends_json(what: &str) -> bool {
    let help = Command::new("curl").args(["--help", "all"]).output();
    let is_there = help.is_ok_and(|it| String::from_utf8_lossy(&it.stdout).contains("--json"));
    if !is_there {
        let told = writeln!(std::io::stderr(), "not run: {what}: there is no curl that knows --json");
        told.unwrap();
    }
    is_there
}

// INV-2, INV-7
#[test]
fn the_story_of_the_guide_goes_as_it_stands_there() {
    if !curl_sends_json("the story of docs/api.md") {
        return;
    }
    let steps = steps(PAGE);
    assert!(steps.len() > 8, "the page has lost its story");
    follow(&Home::new(), &steps, Seen::Out, &[]);
}
