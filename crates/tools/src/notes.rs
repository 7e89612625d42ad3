//! Notes of a conversation, kept by a store.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use singletree_llm::BoxFuture;

use crate::effect::Effect;
use crate::error::{Error, Result};
use crate::origin::CallOrigin;
use crate::output::Output;
use crate::tool::Tool;
use crate::typed::{ToolContext, TypedTool};

/// How long one note may be, in bytes.
const NOTE_BYTES_MAX: usize = 4 * 1024;
/// How many notes one answer tells at most.
const TOLD_MAX: usize = 100;

/// Keeps the notes of sessions.
///
/// # Contract
///
/// - Notes belong to the tenant *and* the session of the origin: no call with another origin sees them (INV-14), and
///   they are deleted with the session (D25).
/// - A note that was added without an error is durable.
/// - The store bounds the bytes that a session and a tenant may keep.
pub trait NoteStore: fmt::Debug + Send + Sync {
    /// Adds a note of one line behind those of the session. The same note twice is two notes.
    ///
    /// # Errors
    ///
    /// `tool_failed` when the notes of the session or of the tenant are full, or the store fails; `tool_unavailable`.
    ///
    /// # Cancellation
    ///
    /// A dropped call has added the note or has not.
    fn add_note<'a>(&'a self, origin: &'a CallOrigin, text: &'a str) -> BoxFuture<'a, Result<()>>;

    /// Returns all notes of the session, oldest first.
    ///
    /// # Errors
    ///
    /// `tool_failed` when the store fails; `tool_unavailable`.
    fn list_notes<'a>(&'a self, origin: &'a CallOrigin) -> BoxFuture<'a, Result<Vec<String>>>;
}

/// Notes of a conversation: one line each, oldest first.
///
/// Three tools: `notes_add` ([`Effect::Local`]), `notes_list` and `notes_search` ([`Effect::Read`]). Adding is not
/// idempotent: the same note twice is two lines. A call outside of a session is refused.
#[derive(Debug, Clone)]
pub struct Notes {
    store: Arc<dyn NoteStore>,
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
    /// Keeps notes in this store.
    #[must_use]
    pub fn new(store: Arc<dyn NoteStore>) -> Self {
        Self { store }
    }

    /// Makes the tools.
    ///
    /// # Errors
    ///
    /// `tool_definition_invalid` when the library refuses a schema.
    pub fn build_tools(&self) -> Result<Vec<Arc<dyn Tool>>> {
        let (one, two, three) = (self.clone(), self.clone(), self.clone());
        let add = TypedTool::new(
            "notes_add",
            "Adds a note to the user's notes.",
            Effect::Local,
            move |add: Add, context| one.clone().add_note(add.text, context),
        )?;
        let list = TypedTool::new(
            "notes_list",
            "Lists the user's notes, oldest first.",
            Effect::Read,
            move |_: List, context| two.clone().find_notes(String::new(), context),
        )?;
        let search = TypedTool::new(
            "notes_search",
            "Finds the user's notes that contain a text.",
            Effect::Read,
            move |search: Search, context| three.clone().find_notes(search.text.to_lowercase(), context),
        )?;
        Ok(vec![Arc::new(add), Arc::new(list), Arc::new(search)])
    }

    async fn add_note(self, text: String, context: ToolContext) -> Result<Output> {
        // One note is one line, whatever it was before.
        let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if line.is_empty() {
            return Err(Error::Arguments { problem: "a note must not be empty".to_owned() });
        }
        if line.len() > NOTE_BYTES_MAX {
            let problem = format!("a note must not be longer than {NOTE_BYTES_MAX} bytes");
            return Err(Error::Arguments { problem });
        }
        self.store.add_note(context.session_origin()?, &line).await?;
        Ok(Output::text(format!("Noted: {line}")))
    }

    /// Tells the notes that contain a text in lower case.
    async fn find_notes(self, wanted: String, context: ToolContext) -> Result<Output> {
        let notes = self.store.list_notes(context.session_origin()?).await?;
        let found: Vec<&str> =
            notes.iter().map(String::as_str).filter(|note| note.to_lowercase().contains(&wanted)).collect();
        if found.is_empty() {
            return Ok(Output::text("There are no such notes."));
        }
        // The newest notes are told: a limit hides the oldest.
        let hidden = found.len().saturating_sub(TOLD_MAX);
        let mut told = found[hidden..].join("\n");
        if hidden > 0 {
            told.push_str(&format!("\n[{hidden} older notes are not shown]"));
        }
        Ok(Output::text(told))
    }
}
