//! Whatever a file holds, reading it ends with a configuration or a report.

use proptest::prelude::*;
use singletree_config::SAMPLE;

use crate::table::read_in;

/// Pieces from which texts are made that are nearly right.
const PIECES: &[&str] = &[
    "[models.m]\n",
    "[agents.a]\n",
    "[mcp.s]\n",
    "[tools.http_get]\n",
    "[approval]\n",
    "[limits]\n",
    "[[agents]]\n",
    "wire = \"openai\"\n",
    "wire = \"script\"\n",
    "name = \"x\"\n",
    "key = { env = \"KEY\" }\n",
    "key = \"k\"\n",
    "key = {}\n",
    "instructions = \"x\"\n",
    "prompt = { name = \"p\" }\n",
    "tools = [\"notes\", \"s.x\", \"s\"]\n",
    "tools = [[]]\n",
    "ask = [\"destructive\", \"notes\"]\n",
    "trust = [\"s\"]\n",
    "budget = { steps = 9999999999999999999 }\n",
    "model = \"m\"\n",
    "window = 0x10\n",
    "sampling = { extras = { a = nan } }\n",
    "\"\" = 1\n",
    "\u{e9} = 2\n",
    "effects = { \"*\" = \"read\" }\n",
    "command = \"c\"\n",
    "a.b.c = 1\n",
    "= ",
    "\"\"\"",
    "{",
    "[",
    "\r\n",
    "\u{0}",
];

fn harmless(text: &str) {
    if let Err(report) = read_in(std::path::Path::new("nowhere"), text) {
        assert!(report.starts_with("f:"), "{report}");
        assert!(!report.contains("canary-4711"), "{report}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 512 } else { 4096 }))]

    #[test]
    fn any_text_is_read_to_an_end(text in "\\PC{0,200}") {
        harmless(&text);
    }

    #[test]
    fn any_bytes_are_read_to_an_end(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        harmless(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn what_is_nearly_right_is_read_to_an_end(pieces in prop::collection::vec(prop::sample::select(PIECES), 0..24)) {
        harmless(&pieces.concat());
    }

    #[test]
    fn a_sample_with_a_hole_is_read_to_an_end(from in 0..SAMPLE.len(), length in 0..200_usize, put in "\\PC{0,3}") {
        let mut text = SAMPLE.to_owned();
        let floor = |at: usize| (0..=at.min(SAMPLE.len())).rev().find(|it| SAMPLE.is_char_boundary(*it)).unwrap_or(0);
        text.replace_range(floor(from)..floor(from + length).max(floor(from)), &put);
        harmless(&text);
    }
}

#[test]
fn deep_nesting_and_size_are_bounded() {
    for (open, close) in [("[", "]"), ("{a=", "}")] {
        harmless(&format!("a = {}1{}", open.repeat(5_000), close.repeat(5_000)));
    }
    harmless(&"[a.".repeat(10_000));
    let told = read_in(std::path::Path::new("nowhere"), &"#".repeat((1 << 20) + 1)).unwrap_err();
    assert_eq!(told, "f:1:1: the file is larger than 1048576 bytes");
}
