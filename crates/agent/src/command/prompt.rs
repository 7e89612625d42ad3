//! Everything that a model is shown of a command, and how it is written.

use std::sync::Arc;

use serde_json::Value;
use singletree_llm::{ChatMessage, canonical_json};

use super::artifact::ApprovedArtifact;

/// The line before the snapshot of the state.
pub(super) const STATE_HEADING: &str = "# State";
/// The line before approved artifacts.
pub(super) const ARTIFACTS_HEADING: &str = "# Approved artifacts";
/// The line before the command.
pub(super) const COMMAND_HEADING: &str = "# Command";

/// Everything that a model is shown of a command: rules, a snapshot of the state, the command, approved artifacts
/// (agent-chat-output §8.2). There is no way to put a message of a conversation into it:
///
/// ```
/// use serde_json::json;
/// use singletree_agent::CommandPrompt;
///
/// let prompt = CommandPrompt::new("Send the letter.", json!({ "letters": 1 })).rules("Be careful.");
/// let texts: Vec<_> = prompt.messages().iter().map(|it| it.text().into_owned()).collect();
/// assert_eq!(texts, ["Be careful.", "# State\n{\"letters\":1}\n\n# Command\nSend the letter."]);
/// ```
///
/// ```compile_fail,E0277
/// use serde_json::json;
/// use singletree_agent::CommandPrompt;
/// use singletree_llm::ChatMessage;
///
/// CommandPrompt::new(ChatMessage::user("Send the letter."), json!({ "letters": 1 }));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct CommandPrompt {
    rules: Option<String>,
    snapshot: Value,
    command: String,
    artifacts: Vec<ApprovedArtifact>,
}

impl CommandPrompt {
    /// Begins with a command and a snapshot of the state.
    #[must_use]
    pub fn new(command: impl Into<String>, snapshot: Value) -> Self {
        Self { rules: None, snapshot, command: command.into(), artifacts: Vec::new() }
    }

    /// Sets the rules: the first message of the prompt.
    #[must_use]
    pub fn rules(mut self, rules: impl Into<String>) -> Self {
        self.rules = Some(rules.into());
        self
    }

    /// Adds artifacts, which are shown in this order.
    #[must_use]
    pub fn artifacts(mut self, artifacts: impl IntoIterator<Item = ApprovedArtifact>) -> Self {
        self.artifacts.extend(artifacts);
        self
    }

    /// Writes the messages of a request: the rules as the system's, everything else as one of the user. Snapshot and
    /// artifacts are canonical JSON, one line each, so that nothing in them looks like a heading; the person's command
    /// comes last.
    #[must_use]
    pub fn messages(&self) -> Vec<Arc<ChatMessage>> {
        let mut text = format!("{STATE_HEADING}\n{}\n", canonical_json(&self.snapshot));
        if !self.artifacts.is_empty() {
            text.push_str(&format!("\n{ARTIFACTS_HEADING}\n"));
        }
        for artifact in &self.artifacts {
            text.push_str(&canonical_json(&artifact.to_prompt_json()));
            text.push('\n');
        }
        text.push_str(&format!("\n{COMMAND_HEADING}\n"));
        text.push_str(&self.command);
        let rules = self.rules.as_ref().map(ChatMessage::system);
        rules.into_iter().chain([ChatMessage::user(text)]).map(Arc::new).collect()
    }
}
