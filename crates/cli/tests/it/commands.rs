//! docs/commands.md is generated from the help of the commands, and no page names a command or a flag that does not
//! exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::home::{BINARY, Home};
use crate::pages::blocks;

const BEGINNING: &str = "# Commands

What `singletree COMMAND --help` says, for every command. A test compares this page with the binary.
";

/// A command that people see, and those under it.
#[derive(Debug)]
struct Command {
    /// Its words, as in `keys create`.
    name: String,
    help: String,
    below: Vec<Self>,
}

impl Command {
    fn read(home: &Home, words: &[&str]) -> Self {
        let ran = home.command(BINARY).args(words).arg("--help").env("COLUMNS", "100").output().unwrap();
        let help = String::from_utf8(ran.stdout).unwrap();
        assert!(ran.status.success(), "{words:?}");
        let below = listed(&help).into_iter().map(|it| Self::read(home, &[words, &[it]].concat())).collect();
        let help = help.lines().flat_map(|it| [it.trim_end(), "\n"]).collect();
        Self { name: words.join(" "), help, below }
    }

    /// Returns itself and all below it.
    fn all(&self) -> Vec<&Self> {
        std::iter::once(self).chain(self.below.iter().flat_map(Self::all)).collect()
    }

    /// Returns the flags that it takes.
    fn flags(&self) -> BTreeSet<&str> {
        let options = self.help.split_once("\nOptions:\n").map_or("", |it| it.1);
        let lines = options.lines().map(str::trim_start).filter(|it| it.starts_with('-'));
        lines.flat_map(|it| it.split("  ").next().unwrap_or_default().split([' ', ','])).collect()
    }
}

/// Returns the commands that a help lists, the help of the help left out.
fn listed(help: &str) -> Vec<&str> {
    let list = help.split_once("\nCommands:\n").map_or("", |it| it.1);
    let list = list.lines().take_while(|it| !it.is_empty());
    let names = list.filter_map(|it| it.strip_prefix("  ")?.split(' ').next().filter(|it| !it.is_empty()));
    names.filter(|it| *it != "help").collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

#[test]
fn the_page_of_commands_is_what_they_say_of_themselves() {
    let home = Home::new();
    let mut page = BEGINNING.to_owned();
    for command in Command::read(&home, &[]).all() {
        let title = format!("singletree {}", command.name);
        page += &format!("\n## {}\n\n```text\n{}```\n", title.trim_end(), command.help);
    }
    let written = fs::read_to_string(root().join("docs/commands.md")).unwrap_or_default();
    if page != written {
        let right = Path::new(env!("CARGO_TARGET_TMPDIR")).join("commands.md");
        fs::write(&right, page).unwrap();
        panic!("docs/commands.md is not what the commands say: {} is", right.display());
    }
}

/// Returns the mistakes in the command lines of a piece of code.
fn wrong(root: &Command, code: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let ends = |it: &str| it.starts_with(['|', '&', ';', '#', '>', '<']);
    for line in code.lines() {
        let line = line.replace(';', " ; ").replace("$(", " $( ");
        let mut before = "";
        let mut words = line.split_whitespace().map(|it| it.trim_matches(['"', ')', '(', '$'])).peekable();
        while let Some(word) = words.next() {
            // The library has the same name: `cargo run -p singletree --example hello`.
            if word != "singletree" || before == "-p" {
                before = word;
                continue;
            }
            let mut command = root;
            while let Some(word) =
                words.peek().filter(|it| it.chars().all(|it| it.is_ascii_lowercase() || it == '-'))
            {
                if word.starts_with('-') || *word == "help" || command.below.is_empty() {
                    break;
                }
                match command.below.iter().find(|it| it.name.rsplit(' ').next() == Some(word)) {
                    Some(below) => command = below,
                    None => {
                        wrong.push(format!("there is no `singletree {} {word}`", command.name));
                        break;
                    }
                }
                words.next();
            }
            let flags = command.flags();
            while let Some(word) = words.next_if(|it| *it != "singletree" && !ends(it)) {
                let flag = word.trim_start_matches('[').split(['=', ']']).next().unwrap_or_default();
                if flag.starts_with('-') && flag.len() > 1 && !flags.contains(flag) {
                    wrong.push(format!("`singletree {}` has no {flag}", command.name));
                }
            }
        }
    }
    wrong
}

/// Returns the code of a page: its blocks for a shell, and the text between backticks.
fn code(page: &str) -> Vec<String> {
    let found = blocks(page);
    let shell =
        found.iter().filter(|it| matches!(it.language, "sh" | "bash" | "console")).map(|it| it.text.clone());
    let mut inside = false;
    let text: Vec<&str> = page
        .lines()
        .filter(|it| {
            let fence = it.trim_start().starts_with("```");
            inside ^= fence;
            !inside && !fence
        })
        .collect();
    let spans = text.iter().flat_map(|it| it.split('`').skip(1).step_by(2)).map(str::to_owned);
    shell.chain(spans).collect()
}

/// Returns the pages in a folder and below it.
fn pages(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(pages(&path));
        } else if path.extension().is_some_and(|it| it == "md") {
            found.push(path);
        }
    }
    found.sort();
    found
}

#[test]
fn no_page_names_a_command_or_a_flag_that_is_not_there() {
    let tree = Command::read(&Home::new(), &[]);
    let mut all = pages(&root().join("docs"));
    all.extend(["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "SECURITY.md"].map(|it| root().join(it)));
    let mut found = Vec::new();
    for path in all {
        for code in code(&fs::read_to_string(&path).unwrap()) {
            found.extend(wrong(&tree, &code).into_iter().map(|it| format!("{}: {it}", path.display())));
        }
    }
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn a_command_or_flag_that_is_not_there_is_found() {
    let tree = Command::read(&Home::new(), &[]);
    assert_eq!(
        wrong(&tree, "singletree keys create --tenant shop | singletree send \"x --y\" --json # --no"),
        ["`singletree send` has no --y"]
    );
    assert_eq!(wrong(&tree, "X=1 singletree bakcup copy.db"), ["there is no `singletree  bakcup`"]);
    assert_eq!(
        wrong(&tree, "singletree keys make; singletree fork a --att 4"),
        ["there is no `singletree keys make`", "`singletree fork` has no --att"]
    );
    assert_eq!(
        wrong(&tree, "key=$(singletree keys create --scopes read)"),
        ["`singletree keys create` has no --scopes"]
    );
    assert_eq!(wrong(&tree, "singletree turn show --format svg > a.svg"), Vec::<String>::new());
    assert_eq!(code("`a b`\n\n```sh\nc\n```\n\n```rust\nd\n```\n"), ["c\n", "a b"]);
}
