//! The guide's first chapter, followed word by word: its commands are typed, its file is written, what it says is compared.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// One thing that the chapter tells the reader to do, or says will happen.
#[derive(Debug)]
enum Step {
    /// Type these lines.
    Type(String),
    /// Write this file.
    Write { file: String, text: String },
    /// See this.
    See(String),
}

/// Reads the chapter as its reader does, from above.
fn steps(chapter: &str) -> Vec<Step> {
    let (mut steps, mut file) = (Vec::new(), None);
    let mut lines = chapter.lines();
    while let Some(line) = lines.next() {
        if let Some(named) = line.strip_prefix('`').and_then(|it| it.strip_suffix("`:")) {
            file = Some(named.to_owned());
        }
        let Some(language) = line.strip_prefix("```") else { continue };
        let mut text = String::new();
        for line in lines.by_ref().take_while(|it| *it != "```") {
            text += line;
            text.push('\n');
        }
        match language {
            "sh" => steps.push(Step::Type(text)),
            "text" => steps.push(Step::See(text)),
            // What needs a key, or is part of something else.
            "rust,ignore" => {}
            _ => steps.push(Step::Write { file: file.take().expect("a file has a name"), text }),
        }
    }
    steps
}

/// A shell that keeps where it is between blocks, as the reader's does.
struct Reader {
    at: PathBuf,
    target: PathBuf,
}

impl Reader {
    /// Types lines and returns what is printed.
    fn types(&mut self, lines: &str) -> Result<String, String> {
        let script = format!("set -e\n{lines}\npwd >&2");
        let typed = Command::new("sh")
            .args(["-c", &script])
            .current_dir(&self.at)
            .env("CARGO_TARGET_DIR", &self.target)
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .env("CARGO_INCREMENTAL", "0")
            .stdin(Stdio::null())
            .output()
            .map_err(|it| it.to_string())?;
        let told = String::from_utf8_lossy(&typed.stderr).into_owned();
        if !typed.status.success() {
            return Err(format!("{lines}{told}"));
        }
        if let Some(at) = told.lines().last() {
            self.at = at.into();
        }
        Ok(String::from_utf8_lossy(&typed.stdout).into_owned())
    }
}

#[test]
fn the_first_chapter_works_as_it_stands() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let chapter = fs::read_to_string(root.join("docs/guide/first-agent.md")).unwrap();
    // Always the same place for one checkout: what was compiled there is found again. Outside of it, where no workspace is.
    let name: String =
        root.to_string_lossy().chars().map(|it| if it.is_alphanumeric() { it } else { '-' }).collect();
    let desk = std::env::temp_dir().join(format!("singletree-guide{name}"));
    fs::remove_dir_all(&desk).unwrap_or_default();
    fs::create_dir_all(&desk).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink(&root, desk.join("singletree")).unwrap();
    let mut reader = Reader { at: desk, target: root.join("target/guide-program") };
    let mut seen = String::new();
    for step in steps(&chapter) {
        match step {
            Step::Type(lines) => seen = reader.types(&lines).unwrap_or_else(|it| panic!("{it}")),
            Step::Write { file, text } => fs::write(reader.at.join(file), text).unwrap(),
            Step::See(text) => assert_eq!(seen, text),
        }
    }
}
