//! Messages that leave the house: one file each.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use singletree_llm::{BoxFuture, ToolDefinition};

use crate::effect::{Effect, Recovery};
use crate::error::{Error, Result};
use crate::output::Output;
use crate::tool::{Invocation, Tool};
use crate::typed::{CallContext, TypedTool};

/// Puts a message into a folder, as one JSON file, for whoever delivers.
///
/// [`Effect::Destructive`], because what is sent cannot be taken back. The file is named by the
/// idempotency key and put in place whole: a call that is run again finds its file and leaves it
/// alone, so that it has one effect.
#[derive(Debug)]
pub struct Outbox(TypedTool);

/// A message. The file holds it as it is here.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Message {
    /// Who receives it.
    to: String,
    /// What it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    subject: Option<String>,
    /// What it says.
    body: String,
}

impl Outbox {
    /// Makes the tool `send_message` over a folder, which is made with the first message.
    ///
    /// # Errors
    ///
    /// `tool_definition_invalid` when the library refuses the schema.
    pub fn new(folder: impl Into<PathBuf>) -> Result<Self> {
        let folder: Arc<Path> = folder.into().into();
        let send = move |message: Message, context: CallContext| {
            let folder = Arc::clone(&folder);
            async move {
                tokio::task::spawn_blocking(move || send(&folder, &message, context.key.as_str()))
                    .await
                    .map_err(|it| Error::failed_by("the message could not be sent", it))?
            }
        };
        let description = "Sends a message to someone. It cannot be taken back.";
        let tool = TypedTool::new("send_message", description, Effect::Destructive, send)?;
        Ok(Self(tool.with_recovery(Recovery::Rerun)))
    }
}

impl Tool for Outbox {
    fn definition(&self) -> &ToolDefinition {
        self.0.definition()
    }

    fn effect(&self) -> Effect {
        self.0.effect()
    }

    fn on_unknown_outcome(&self) -> Recovery {
        self.0.on_unknown_outcome()
    }

    fn call<'a>(&'a self, invocation: Invocation<'a>) -> BoxFuture<'a, Result<Output>> {
        self.0.call(invocation)
    }
}

fn send(folder: &Path, message: &Message, key: &str) -> Result<Output> {
    if message.to.trim().is_empty() || message.to.contains(char::is_control) {
        let problem = "`to` must be one line of text".to_owned();
        return Err(Error::Arguments { problem });
    }
    let text = serde_json::to_string_pretty(message)
        .map_err(|it| Error::failed_by("the message cannot be written as JSON", it))?;
    put(folder, key, &text)
        .map_err(|it| Error::failed_by("the message could not be put into the outbox", it))?;
    Ok(Output::text(format!("Sent to {}.", message.to)))
}

/// Puts a file in place whole and durably, unless it is there already.
fn put(folder: &Path, key: &str, text: &str) -> io::Result<()> {
    let place = folder.join(format!("{key}.json"));
    if place.try_exists()? {
        return Ok(());
    }
    fs::create_dir_all(folder)?;
    // A leftover of a crash under this name is of the same key: it is written over.
    let draft = folder.join(format!(".{key}.tmp"));
    let mut file = File::create(&draft)?;
    file.write_all(text.as_bytes())?;
    file.write_all(b"\n")?;
    file.sync_all()?;
    fs::rename(&draft, &place)?;
    sync_folder(folder)
}

/// Makes a rename durable, where a folder can be opened as a file.
#[cfg(unix)]
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(not(unix))]
fn sync_folder(_folder: &Path) -> io::Result<()> {
    Ok(())
}
