//! The guide, followed word by word: the commands of its chapters are run, files that they show are written, programs
//! are compiled and run, configurations are read, and the output is compared.

use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::api_guide::curl_sends_json;
use crate::home::Home;
use crate::pages::{Block, Seen, Step, blocks, follow};

/// Chapters that make one program, in the order of reading.
const PROGRAM: &[&str] = &[
    "guide/first-agent",
    "guide/tools-and-approvals",
    "guide/graphs",
    "guide/several-agents",
    "guide/forks",
    "guide/from-langgraph",
];

/// Chapters that need no more than the binary, each in a home of its own.
const ALONE: &[&str] = &[
    "introduction",
    "guide/running",
    "guide/runbook",
    "guide/backup-and-upgrade",
    "guide/terminal",
    "guide/campaign",
    "guide/page",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Chapters that need Python beside the binary.
const WITH_PYTHON: &[&str] = &["guide/agent-in-a-file"];

/// Chapters that install packages of Debian, as root.
const ON_BARE_MACHINE: &[&str] = &["guide/several-servers"];

/// The steps and the programs of a chapter.
#[derive(Debug, Default)]
struct Chapter {
    steps: Vec<Step>,
    /// Parts of programs: bodies of async functions.
    parts: Vec<String>,
}

impl Chapter {
    fn read(name: &str) -> Self {
        let path = format!("docs/{name}.md");
        let page = fs::read_to_string(root().join(&path)).unwrap();
        let mut chapter = Self::default();
        let mut last = "";
        for block in &blocks(&page) {
            let place = format!("{path}:{}", block.line);
            chapter.take(block, last, &place).unwrap_or_else(|it| panic!("{place}: {it}"));
            last = block.language;
        }
        chapter
    }

    /// Takes one block: whatever it is, something checks it.
    fn take(&mut self, block: &Block<'_>, last: &str, place: &str) -> Result<(), String> {
        match (block.language, block.file()) {
            ("sh", None) => self.steps.push(Step::new(place.to_owned(), block.text.clone())),
            // The output of a command stands below it. Elsewhere a block of text is a picture.
            ("text", None) if last == "sh" => {
                self.steps.last_mut().ok_or("nothing printed this")?.prints = Some(block.text.clone());
            }
            ("text", None) => {}
            ("rust" | "json" | "python", Some(file)) => {
                self.steps.push(Step::write(place.to_owned(), file, &block.text))
            }
            ("rust", None) => self.parts.push(block.text.clone()),
            ("toml", file) => {
                let file = file.unwrap_or("unnamed.toml");
                self.steps.push(Step::write(place.to_owned(), file, &block.text));
                self.steps
                    .push(Step::new(place.to_owned(), format!("OPENAI_API_KEY=k singletree check '{file}'")));
            }
            ("python", None) if block.before.contains("LangGraph") => {}
            (other, file) => return Err(format!("nothing checks a block of '{other}' (file: {file:?})")),
        }
        Ok(())
    }
}

/// Makes one program of all parts.
fn program(parts: &[String]) -> String {
    let mut program = "#![allow(dead_code, unused)]\nfn main() {}\n".to_owned();
    for (no, part) in parts.iter().enumerate() {
        program += &format!(
            "async fn part_{no}() -> Result<(), Box<dyn std::error::Error>> {{\n{part}\nOk(())\n}}\n"
        );
    }
    program
}

/// The variables of our own environment that tell cargo how to reach its registries and files.
const KEPT: &[&str] =
    &["CARGO_HOME", "CARGO_HTTP_", "CARGO_NET_", "CARGO_BUILD_JOBS", "RUSTUP_", "SSL_CERT_", "CC"];

/// Says where cargo has its things, for a reader whose home is empty.
fn cargo_environment(target: PathBuf) -> Vec<(String, OsString)> {
    let home = std::env::home_dir().unwrap();
    let places = [
        ("CARGO_HOME", home.join(".cargo").into_os_string()),
        ("RUSTUP_HOME", home.join(".rustup").into_os_string()),
        ("CARGO_TARGET_DIR", target.into_os_string()),
        ("CARGO_PROFILE_DEV_DEBUG", "0".into()),
        ("CARGO_INCREMENTAL", "0".into()),
    ];
    let is_kept =
        |name: &str| KEPT.iter().any(|it| name.starts_with(it)) || name.to_lowercase().ends_with("_proxy");
    let ours = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
    places
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .chain(ours.filter(|it| is_kept(&it.0)))
        .collect()
}

#[test]
fn the_chapters_in_rust_make_a_program_that_does_what_they_say() {
    if !curl_sends_json("chapters of the guide in Rust") {
        return;
    }
    let root = root();
    let home = Home::new();
    // Always the same folder for one checkout, so that compiled code is reused; outside of the checkout, so that no
    // workspace is found.
    let name: String =
        root.to_string_lossy().chars().map(|it| if it.is_alphanumeric() { it } else { '-' }).collect();
    let desk = std::env::temp_dir().join(format!("singletree-guide{name}"));
    fs::remove_dir_all(&desk).unwrap_or_default();
    fs::create_dir_all(&desk).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink(&root, desk.join("singletree")).unwrap();
    let mut steps = vec![Step::new("the desk".to_owned(), format!("cd '{}'", desk.display()))];
    let mut parts = Vec::new();
    for name in PROGRAM {
        let chapter = Chapter::read(name);
        steps.extend(chapter.steps);
        parts.extend(chapter.parts);
    }
    assert!(parts.len() > 1, "the guide has lost its parts of programs");
    let all = "all parts of programs".to_owned();
    steps.push(Step::write(all.clone(), "examples/all_parts.rs", &program(&parts)));
    steps.push(Step::new(all, "cargo build --quiet --example all_parts".to_owned()));
    follow(&home, &steps, Seen::Both, &cargo_environment(root.join("target/guide-program")));
}

#[test]
fn the_chapters_that_need_the_binary_alone_go_as_they_stand() {
    if !curl_sends_json("chapters of the guide") {
        return;
    }
    ALONE.iter().for_each(|it| follow_alone(it));
}

fn follow_alone(name: &str) {
    let chapter = Chapter::read(name);
    assert_eq!(chapter.parts, Vec::<String>::new(), "{name} belongs to the program");
    follow(&Home::new(), &chapter.steps, Seen::Both, &[]);
}

#[test]
fn the_chapters_with_a_tool_in_python_go_as_they_stand() {
    // The tool of the chapter uses `match`, of Python 3.10.
    let asked =
        Command::new("python3").args(["-c", "import sys; sys.exit(sys.version_info < (3, 10))"]).status();
    if !asked.is_ok_and(|it| it.success()) {
        let told = writeln!(
            std::io::stderr(),
            "not run: chapters with a tool in Python: there is no python3 from 3.10 on"
        );
        return told.unwrap();
    }
    WITH_PYTHON.iter().for_each(|it| follow_alone(it));
}

// It installs packages, and makes a role and a database of the machine's own PostgreSQL: only where that is wanted.
#[test]
fn the_chapters_with_several_servers_go_as_they_stand() {
    if std::env::var_os("SINGLETREE_BARE_MACHINE").is_none() {
        let told =
            "not run: chapters with several servers: SINGLETREE_BARE_MACHINE is not set; .ci/servers sets it";
        return writeln!(std::io::stderr(), "{told}").unwrap();
    }
    for name in ON_BARE_MACHINE {
        let chapter = Chapter::read(name);
        follow(&Home::new(), &chapter.steps, Seen::Out, &[]);
    }
}

#[test]
fn the_picture_of_a_turn_in_the_book_is_the_one_that_is_drawn() {
    let read = |path: &str| fs::read_to_string(root().join(path)).unwrap();
    let (drawn, shown) = ("crates/draw/tests/golden/turn-waited.svg", "docs/turn-waited.svg");
    assert!(read(drawn) == read(shown), "{shown} is to be a copy of {drawn}");
}

#[test]
fn every_chapter_is_followed() {
    let files = fs::read_dir(root().join("docs/guide")).unwrap();
    let name = |it: fs::DirEntry| it.file_name().into_string().unwrap();
    let mut found: Vec<_> = files.map(|it| format!("guide/{}", name(it.unwrap()))).collect();
    found.retain(|it| it != "guide/pictures");
    found.push("introduction.md".to_owned());
    let mut followed: Vec<_> = PROGRAM
        .iter()
        .chain(ALONE)
        .chain(WITH_PYTHON)
        .chain(ON_BARE_MACHINE)
        .map(|it| format!("{it}.md"))
        .collect();
    found.sort();
    followed.sort();
    assert_eq!(found, followed);
}

#[test]
fn a_block_that_nothing_checks_is_found() {
    let checks = |page: &str| {
        blocks(page).iter().try_for_each(|it| Chapter::default().take(it, "", "x.md:1")).map_err(|_| ())
    };
    for (page, is_checked) in [
        ("```sh\nls\n```\n", true),
        ("```rust\nlet a = 1;\n```\n", true),
        ("```rust,ignore\nlet a = 1;\n```\n", false),
        ("```\nls\n```\n", false),
        ("```yaml\na: b\n```\n", false),
        ("```json\n{}\n```\n", false),
        ("`a.json`:\n\n```json\n{}\n```\n", true),
        ("```python\npass\n```\n", false),
        ("`a.py`:\n\n```python\npass\n```\n", true),
        ("With LangGraph:\n\n```python\npass\n```\n", true),
    ] {
        assert_eq!(checks(page).is_ok(), is_checked, "{page}");
    }
}
