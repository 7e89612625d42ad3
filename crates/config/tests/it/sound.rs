//! Files that are right.

use std::path::Path;

use singletree_config::SAMPLE;

use crate::table::read_in;

#[test]
fn the_file_to_begin_with_is_sound() {
    let config = read_in(Path::new("nowhere"), SAMPLE).unwrap();
    assert_eq!(config.agent_names(), ["assistant"]);
}

// The settings in comments are valid, too, once the comment signs are removed.
#[test]
fn the_file_to_begin_with_is_sound_without_its_comment_signs() {
    let bare = |line: &str| match line.strip_prefix("# ") {
        Some(rest) if rest.starts_with('[') || rest.contains(" = ") => rest.to_owned(),
        _ => line.to_owned(),
    };
    let text: Vec<String> = SAMPLE.lines().map(bare).collect();
    let config = read_in(Path::new("nowhere"), &text.join("\n")).unwrap();
    assert_eq!(config.agent_names(), ["assistant", "researcher"]);
}

#[test]
fn the_default_agent_comes_first() {
    let text = "default_agent = \"b\"\n[models.m]\nwire = \"openai\"\nname = \"x\"\nbase_url = \"http://h\"\n\
                [agents.c]\ninstructions = \"x\"\n[agents.b]\ninstructions = \"x\"\n[agents.a]\ninstructions = \"x\"\n";
    let config = read_in(Path::new("nowhere"), text).unwrap();
    assert_eq!(config.agent_names(), ["b", "c", "a"]);
    let config = read_in(Path::new("nowhere"), text.split_once('\n').unwrap().1).unwrap();
    assert_eq!(config.agent_names(), ["c", "b", "a"]);
}
