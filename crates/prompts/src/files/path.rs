//! From the names of prompts to files, and back.

use std::path::{Path, PathBuf};

/// The ending of a prompt's file name.
const ENDING: &str = ".md";

/// The separator of name and version in a file's name.
const VERSION: char = '@';

/// A prompt's name, as folders and a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PromptPath {
    /// The folder, below the root.
    pub(super) folder: PathBuf,
    /// The rest.
    pub(super) leaf: String,
}

impl PromptPath {
    /// Takes a name apart. Nothing for a name that no file can have: nothing leads out of the root.
    pub(super) fn from_prompt_name(name: &str) -> Option<Self> {
        let mut parts: Vec<&str> = name.split('/').collect();
        if !parts.iter().all(|part| is_path_part(part)) {
            return None;
        }
        let leaf = parts.pop()?.to_owned();
        Some(Self { folder: parts.iter().collect(), leaf })
    }

    /// Tells which version a file of the prompt's folder is; nothing when it is none of this prompt.
    pub(super) fn version_of_file(&self, file: &str) -> Option<Option<String>> {
        let (leaf, version) = split_file_name(file)?;
        (leaf == self.leaf).then_some(version)
    }
}

/// Returns the name of the prompt that a file below the root holds.
pub(super) fn prompt_name_of_file(below: &Path) -> Option<String> {
    let (leaf, _) = split_file_name(below.file_name()?.to_str()?)?;
    let mut parts = Vec::new();
    for part in below.parent()?.components() {
        parts.push(part.as_os_str().to_str()?);
    }
    parts.push(leaf);
    parts.iter().all(|part| is_path_part(part)).then(|| parts.join("/"))
}

fn split_file_name(file: &str) -> Option<(&str, Option<String>)> {
    let stem = file.strip_suffix(ENDING)?;
    match stem.split_once(VERSION) {
        None => Some((stem, None)),
        Some((leaf, version)) => Some((leaf, Some(version.to_owned()))),
    }
}

fn is_path_part(part: &str) -> bool {
    let odd = |it: char| it.is_control() || matches!(it, '\\' | ':' | VERSION);
    !part.is_empty() && !part.starts_with('.') && !part.contains(odd)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_below_the_root_or_nowhere() {
        let path = PromptPath::from_prompt_name("support/greeting").unwrap();
        assert_eq!(path, PromptPath { folder: "support".into(), leaf: "greeting".into() });
        for name in
            ["", "/etc/passwd", "../x", "a/../b", "a//b", "a/", ".hidden", "a\\b", "c:x", "a@1", "a\0"]
        {
            assert_eq!(PromptPath::from_prompt_name(name), None, "{name:?}");
        }
    }

    #[test]
    fn a_file_is_a_version_of_one_prompt() {
        let path = PromptPath::from_prompt_name("greeting").unwrap();
        for (file, version) in [
            ("greeting.md", Some(None)),
            ("greeting@2.md", Some(Some("2".to_owned()))),
            ("greeting@1.0@rc.md", Some(Some("1.0@rc".to_owned()))),
            ("greeting2.md", None),
            ("greeting.txt", None),
        ] {
            assert_eq!(path.version_of_file(file), version, "{file}");
        }
        assert_eq!(
            prompt_name_of_file(Path::new("support/greeting@2.md")).as_deref(),
            Some("support/greeting")
        );
        assert_eq!(prompt_name_of_file(Path::new(".git/x.md")), None);
    }
}
