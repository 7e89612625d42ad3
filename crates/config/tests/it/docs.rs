//! The page of the format: its examples have no mistakes.

use std::fs;

use crate::table::read_in;

/// Returns the blocks of a language, with the number of the line on which each begins.
fn blocks(page: &str, language: &str) -> Vec<(usize, String)> {
    let mut blocks: Vec<(usize, String)> = Vec::new();
    let mut inside = None;
    for (line, text) in page.lines().enumerate() {
        match (inside, text.strip_prefix("```")) {
            (None, Some(of)) => {
                inside = Some(of == language);
                if of == language {
                    blocks.push((line + 1, String::new()));
                }
            }
            (Some(_), Some(_)) => inside = None,
            (Some(true), None) => blocks.last_mut().unwrap().1.push_str(&format!("{text}\n")),
            (Some(false) | None, None) => {}
        }
    }
    blocks
}

#[test]
fn every_block_of_the_page_is_sound() {
    let page =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("prompts")).unwrap();
    for (name, text) in [
        ("openai.key", "canary-4711"),
        ("jwks.json", "{ \"keys\": [] }"),
        ("script.json", r#"{ "model": "s", "rules": [] }"#),
        ("prompts/support.md", "You are at {{ shop }}."),
        ("prompts/simple.md", "Be brief."),
    ] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let front = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md")).unwrap();
    let blocks = [blocks(&page, "toml"), blocks(&front, "toml")];
    assert!(blocks[0].len() >= 9 && blocks[1].len() == 1, "{blocks:?}");
    for (line, block) in blocks.into_iter().flatten() {
        // The parts that a block leaves out are added around it.
        let model = if block.contains("[models.") { "" } else { crate::table::MODEL };
        let agent = if block.contains("[agents.") { "" } else { "[agents.any]\ninstructions = \"x\"\n" };
        let text = format!("{model}{block}{agent}");
        let report = read_in(folder.path(), &text).err();
        assert_eq!(report, None, "the block at line {line}:\n{text}");
    }
}

// Whoever adds a kind of mistake, or a key, tells it.
#[test]
fn every_kind_of_mistake_stands_on_the_page() {
    let page =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md")).unwrap();
    let source = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/src/report.rs")).unwrap();
    let kinds = source.split_once("pub enum MistakeKind {").unwrap().1.split_once('}').unwrap().0;
    let kinds: Vec<&str> = kinds
        .lines()
        .filter_map(|it| it.trim().strip_suffix(','))
        .filter(|it| !it.starts_with('/'))
        .collect();
    assert_eq!(kinds.len(), 11);
    for kind in kinds {
        let snake: String = kind
            .char_indices()
            .flat_map(|(at, it)| {
                [(at > 0 && it.is_uppercase()).then_some('_'), Some(it.to_ascii_lowercase())]
            })
            .flatten()
            .collect();
        assert!(page.contains(&format!("| `{snake}` |")), "{snake}");
    }
}
