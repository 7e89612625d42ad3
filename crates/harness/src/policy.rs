//! Which texts reach the model: fixed when a session is made (agent-chat-output §8).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::stored::corrupt;

/// The name of the state field that holds the command that a turn carries out, in sessions of [`PromptPolicy::Command`]. An
/// agent takes commands when its graph has such a field.
pub const COMMAND: &str = "current_command";

/// Which texts reach the model. Fixed when a session is made; kept with it. Nodes get it by
/// `cx.extension::<PromptPolicy>()`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptPolicy {
    /// The transcript (harness-chat §6).
    #[default]
    Conversation,
    /// Rules, a snapshot of the state, the current command and approved artifacts, and nothing else (agent-chat-output §8.2).
    /// The transcript is still written, and is not read for prompts.
    Command,
}

impl PromptPolicy {
    /// Returns its word, as it is stored.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Conversation => "conversation",
            Self::Command => "command",
        }
    }

    /// Reads what is stored of a session (INV-13).
    ///
    /// # Errors
    /// `store_corrupt`: what is shown to a model is not guessed.
    pub(crate) fn stored(text: &str) -> Result<Self, Error> {
        text.parse().map_err(|_| corrupt(format!("the prompt policy '{text}'"), None))
    }
}

/// A word that names no policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownPolicy;

impl FromStr for PromptPolicy {
    type Err = UnknownPolicy;

    fn from_str(text: &str) -> Result<Self, UnknownPolicy> {
        [Self::Conversation, Self::Command].into_iter().find(|it| it.as_str() == text).ok_or(UnknownPolicy)
    }
}

impl fmt::Display for PromptPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for UnknownPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a prompt policy is `conversation` or `command`")
    }
}

impl std::error::Error for UnknownPolicy {}
