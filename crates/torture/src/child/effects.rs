//! Tools whose effects can be counted: each appends one line to a log and syncs it before it returns.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::json;
use singletree_llm::{BoxFuture, ToolDefinition};
use singletree_tools::{Effect, Error, Invocation, Output, Recovery, Result, Tool};

/// One effect, as it stands in the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LoggedEffect {
    /// The call's idempotency key (D7).
    pub(crate) key: String,
    /// The text of the message that led to the effect, which is unique.
    pub(crate) text: String,
}

/// The kind of a tool of the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LoadToolKind {
    /// Reads, changes nothing.
    Look,
    /// Has an effect that can be undone.
    Effect,
    /// Has an effect that a person must approve.
    Risky,
    /// Ends the process, every time.
    Abort,
}

impl LoadToolKind {
    pub(super) const ALL: [Self; 4] = [Self::Look, Self::Effect, Self::Risky, Self::Abort];

    fn tool_name(self) -> &'static str {
        match self {
            Self::Look => "look",
            Self::Effect => "effect",
            Self::Risky => "risky",
            Self::Abort => "abort",
        }
    }
}

/// A tool of the load.
#[derive(Debug)]
pub(super) struct LoadTool {
    definition: ToolDefinition,
    deed: LoadToolKind,
    log: Arc<Path>,
}

impl LoadTool {
    pub(super) fn new(deed: LoadToolKind, log: PathBuf) -> Result<Self> {
        let name = deed.tool_name();
        let schema = json!({
            "type": "object",
            "properties": { "text": { "type": "string" } },
            "required": ["text"],
            "additionalProperties": false
        });
        let definition = ToolDefinition::new(name, "Does what the load asks for.", schema)
            .map_err(|source| Error::Definition { name: name.to_owned(), source })?;
        Ok(Self { definition, deed, log: log.into() })
    }
}

impl Tool for LoadTool {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn effect(&self) -> Effect {
        match self.deed {
            LoadToolKind::Look | LoadToolKind::Abort => Effect::Read,
            LoadToolKind::Effect => Effect::SafeWrite,
            LoadToolKind::Risky => Effect::Destructive,
        }
    }

    fn on_unknown_outcome(&self) -> Recovery {
        match self.deed {
            LoadToolKind::Look | LoadToolKind::Abort => Recovery::Rerun,
            LoadToolKind::Effect | LoadToolKind::Risky => Recovery::Report,
        }
    }

    fn call<'a>(&'a self, invocation: Invocation<'a>) -> BoxFuture<'a, Result<Output>> {
        let text = invocation
            .arguments
            .get("text")
            .and_then(|argument| argument.as_str())
            .unwrap_or_default()
            .to_owned();
        let happened = LoggedEffect { key: invocation.key.to_string(), text };
        let (deed, log) = (self.deed, Arc::clone(&self.log));
        Box::pin(async move {
            match deed {
                LoadToolKind::Look => Ok(Output::text(format!("saw {}", happened.text))),
                LoadToolKind::Abort => std::process::abort(),
                LoadToolKind::Effect | LoadToolKind::Risky => {
                    let text = format!("did {}", happened.key);
                    let written = tokio::task::spawn_blocking(move || append_effect(&log, &happened)).await;
                    written.map_err(std::io::Error::other).and_then(|written| written).map_err(|error| {
                        Error::failed_with_source("the effect could not be logged", error)
                    })?;
                    Ok(Output::text(text))
                }
            }
        })
    }
}

fn append_effect(log: &Path, happened: &LoggedEffect) -> std::io::Result<()> {
    let mut line = serde_json::to_string(happened)?;
    line.push('\n');
    let mut file = OpenOptions::new().create(true).append(true).open(log)?;
    // One write: a kill cuts no line in two.
    file.write_all(line.as_bytes())?;
    file.sync_data()
}
