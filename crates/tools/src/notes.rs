//! Lines in a file, to be remembered.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::effect::Effect;
use crate::error::{Error, Result};
use crate::output::Output;
use crate::tool::Tool;
use crate::typed::TypedTool;

/// How long one note may be, in bytes.
const NOTE_BYTES_MAX: usize = 4 * 1024;
/// How large the file may be, in bytes.
const FILE_BYTES_MAX: u64 = 1024 * 1024;
/// How many notes one answer tells at most.
const TOLD_MAX: usize = 100;

/// Notes in one file: one line each, oldest first, for people to read too.
///
/// Three tools: `notes_add` ([`Effect::Local`]), `notes_list` and `notes_search`
/// ([`Effect::Read`]). Adding is not idempotent: the same note twice is two lines.
#[derive(Debug, Clone)]
pub struct Notes {
    path: Arc<Path>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Add {
    /// What to remember.
    text: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct List {}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Search {
    /// What to look for; upper and lower case do not matter.
    text: String,
}

impl Notes {
    /// Keeps notes in this file, which is made with the first note.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into().into() }
    }

    /// Makes the tools.
    ///
    /// # Errors
    ///
    /// `tool_definition_invalid` when the library refuses a schema.
    pub fn tools(&self) -> Result<Vec<Arc<dyn Tool>>> {
        let (one, two, three) = (self.clone(), self.clone(), self.clone());
        let add = TypedTool::new(
            "notes_add",
            "Adds a note to the user's notes.",
            Effect::Local,
            move |add: Add, _| one.clone().blocking(move |path| add_line(path, &add.text)),
        )?;
        let list = TypedTool::new(
            "notes_list",
            "Lists the user's notes, oldest first.",
            Effect::Read,
            move |_: List, _| two.clone().blocking(|path| tell(path, |_| true)),
        )?;
        let search = TypedTool::new(
            "notes_search",
            "Finds the user's notes that contain a text.",
            Effect::Read,
            move |search: Search, _| {
                let wanted = search.text.to_lowercase();
                three.clone().blocking(move |path| tell(path, |it| it.to_lowercase().contains(&wanted)))
            },
        )?;
        Ok(vec![Arc::new(add), Arc::new(list), Arc::new(search)])
    }

    async fn blocking(self, work: impl FnOnce(&Path) -> Result<Output> + Send + 'static) -> Result<Output> {
        tokio::task::spawn_blocking(move || work(&self.path))
            .await
            .map_err(|it| Error::failed_by("the notes could not be used", it))?
    }
}

fn add_line(path: &Path, text: &str) -> Result<Output> {
    // One note is one line, whatever it was before.
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.is_empty() {
        return Err(Error::Arguments { problem: "a note must not be empty".to_owned() });
    }
    if line.len() > NOTE_BYTES_MAX {
        let problem = format!("a note must not be longer than {NOTE_BYTES_MAX} bytes");
        return Err(Error::Arguments { problem });
    }
    append(path, &line).map_err(|it| Error::failed_by("the note could not be written", it)).and_then(|fits| {
        match fits {
            true => Ok(Output::text(format!("Noted: {line}"))),
            false => Err(Error::failed("the notes are full")),
        }
    })
}

/// Appends a line, durably. False when the file would grow too large.
fn append(path: &Path, line: &str) -> io::Result<bool> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut file = OpenOptions::new().create(true).append(true).read(true).open(path)?;
    let length = file.metadata()?.len();
    if length + line.len() as u64 + 2 > FILE_BYTES_MAX {
        return Ok(false);
    }
    // In one write, so that two notes at once do not mix; a line that was torn by a crash is
    // ended first.
    let start = if length == 0 || ends_with_newline(path, length)? { "" } else { "\n" };
    file.write_all(format!("{start}{line}\n").as_bytes())?;
    file.sync_data()?;
    Ok(true)
}

fn ends_with_newline(path: &Path, length: u64) -> io::Result<bool> {
    use std::io::{Seek, SeekFrom};
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(length.saturating_sub(1)))?;
    let mut last = Vec::new();
    file.take(1).read_to_end(&mut last)?;
    Ok(last == b"\n")
}

fn tell(path: &Path, wanted: impl Fn(&str) -> bool) -> Result<Output> {
    let text = read(path).map_err(|it| Error::failed_by("the notes could not be read", it))?;
    let found: Vec<&str> = text.lines().filter(|it| !it.is_empty() && wanted(it)).collect();
    if found.is_empty() {
        return Ok(Output::text("There are no such notes."));
    }
    // The newest are told: what a limit hides is what is oldest.
    let hidden = found.len().saturating_sub(TOLD_MAX);
    let mut told = found[hidden..].join("\n");
    if hidden > 0 {
        told.push_str(&format!("\n[{hidden} older notes are not shown]"));
    }
    Ok(Output::text(told))
}

fn read(path: &Path) -> io::Result<String> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(String::new()),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
