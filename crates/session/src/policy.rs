//! Which texts reach the model: fixed when a session is made (agent-chat-output §8).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use singletree_llm::{ChatMessage, ContentBlock, MessageContent, Role};

use crate::Error;
use crate::agent::AgentVersion;
use crate::codec::stored::store_corrupt_error;

/// The name of the state field that holds the command that a turn carries out, in sessions of
/// [`TurnPromptPolicy::Command`]. An agent takes commands when its graph has such a field.
pub const COMMAND: &str = "current_command";

/// Which texts reach the model. Fixed when a session is made; kept with it. Nodes get it from
/// their `TurnContext`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnPromptPolicy {
    /// The transcript (harness-chat §6).
    #[default]
    Conversation,
    /// Rules, a snapshot of the state, the current command and approved artifacts, and nothing else (agent-chat-output
    /// §8.2). The transcript is still written, and is not read for prompts.
    Command,
}

impl TurnPromptPolicy {
    /// Returns its word, as it is stored.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Conversation => "conversation",
            Self::Command => "command",
        }
    }

    /// Tells whether it is the policy of sessions that say nothing else.
    pub fn is_conversation(&self) -> bool {
        *self == Self::Conversation
    }

    /// Checks that an agent can answer under the policy: for commands, that it takes them.
    ///
    /// # Errors
    /// `chat_policy_unsupported`.
    pub fn check_agent(self, agent: &AgentVersion<'_>) -> Result<(), Error> {
        match self {
            Self::Command if !agent.takes_commands => {
                let why = format!("its graph has no field '{COMMAND}'");
                Err(Error::Policy { agent: agent.name.to_owned(), why })
            }
            Self::Conversation | Self::Command => Ok(()),
        }
    }

    /// Checks that a message may be accepted under the policy: a command is a text of the user, and its agent takes
    /// commands.
    ///
    /// # Errors
    /// `chat_policy_unsupported`, `chat_message_shape_invalid`.
    pub fn check_message(self, agent: &AgentVersion<'_>, message: &ChatMessage) -> Result<(), Error> {
        self.check_agent(agent)?;
        match self {
            Self::Conversation => Ok(()),
            Self::Command if message.role != Role::User || !is_text_only(&message.content) => {
                Err(Error::MessageShape { why: "a command is a text of the user, and nothing else".into() })
            }
            Self::Command => Ok(()),
        }
    }

    /// Reads the stored policy of a session (INV-13).
    ///
    /// # Errors
    /// `store_corrupt` for an unknown word: the policy decides which texts a model is shown, and is never guessed.
    pub fn from_stored_text(text: &str) -> Result<Self, Error> {
        text.parse().map_err(|_| store_corrupt_error(format!("the prompt policy '{text}'"), None))
    }
}

/// A word that names no policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownPromptPolicy;

impl FromStr for TurnPromptPolicy {
    type Err = UnknownPromptPolicy;

    fn from_str(text: &str) -> Result<Self, UnknownPromptPolicy> {
        [Self::Conversation, Self::Command]
            .into_iter()
            .find(|item| item.as_str() == text)
            .ok_or(UnknownPromptPolicy)
    }
}

impl fmt::Display for TurnPromptPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for UnknownPromptPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a prompt policy is `conversation` or `command`")
    }
}

impl std::error::Error for UnknownPromptPolicy {}

/// Tells whether a content is text alone.
fn is_text_only(content: &MessageContent) -> bool {
    content.blocks().iter().all(|block| matches!(block, ContentBlock::Text { .. }))
}

#[cfg(test)]
mod tests {
    use super::*;

    // INV-13
    #[test]
    fn a_policy_is_read_as_it_is_written_and_never_guessed() {
        for policy in [TurnPromptPolicy::Conversation, TurnPromptPolicy::Command] {
            assert_eq!(TurnPromptPolicy::from_stored_text(policy.as_str()).unwrap(), policy);
            assert_eq!(serde_json::to_value(policy).unwrap(), policy.to_string());
        }
        for text in ["", "Command", "both"] {
            assert_eq!(TurnPromptPolicy::from_stored_text(text).unwrap_err().category(), "store_corrupt");
        }
    }

    #[test]
    fn text_in_blocks_is_text_and_an_image_beside_it_is_more() {
        let text = ContentBlock::Text { text: "a".into(), signature: None };
        let thinking = ContentBlock::Thinking { text: "b".into(), signature: None };
        assert!(is_text_only(&MessageContent::Text("a".into())));
        assert!(is_text_only(&MessageContent::Blocks(vec![text.clone(), text.clone()])));
        assert!(!is_text_only(&MessageContent::Blocks(vec![text, thinking])));
    }
}
