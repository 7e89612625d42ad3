//! Everything that one call to a model sends.

use std::sync::Arc;

use crate::active_prompt::ActivePrompt;
use crate::config::RuntimeConfig;
use crate::conversation::validate_messages;
use crate::error::Result;
use crate::fault::InvalidField;
use crate::message::ChatMessage;
use crate::pictures::RequestPictures;
use crate::schema::Schema;
use crate::tool::{self, ToolChoicePolicy, ToolDefinition};

/// Which messages of a request are those of a stored conversation. Reports of the call carry it, so that whoever keeps them
/// can name the messages and need not copy them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConversationRange {
    /// How many messages of the request come before those of the conversation, such as a system message.
    pub skipped: u64,
    /// The place of the first one in the conversation, from 0.
    pub first: u64,
    /// How many they are. The answer is the message that follows them.
    pub count: u64,
}

impl ConversationRange {
    /// Returns the place of the message that the answer becomes, if it becomes one.
    #[must_use]
    pub fn answer_position(self) -> u64 {
        self.first.saturating_add(self.count)
    }
}

/// One call to a model (spec: llm-provider §5). Shares its parts; cheap to clone.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Request {
    /// The conversation so far.
    pub messages: Vec<Arc<ChatMessage>>,
    /// The tools that the model may call.
    pub tools: Arc<[ToolDefinition]>,
    /// How freely it may choose; `None` leaves that to the provider.
    pub tool_choice: Option<ToolChoicePolicy>,
    /// How to sample.
    pub config: RuntimeConfig,
    /// The shape that the answer must have.
    pub response_schema: Option<Arc<Schema>>,
    /// The prompt that the messages were rendered from. Providers ignore it; reports of the call carry it.
    pub prompt: Option<Arc<ActivePrompt>>,
    /// Which of the messages are those of a stored conversation. Providers ignore it; reports of the call carry it.
    pub conversation: Option<ConversationRange>,
    /// Where the pictures are that messages name by `blob:`.
    pub(crate) album: RequestPictures,
}

impl Request {
    /// Makes a request of messages only.
    #[must_use]
    pub fn new(messages: Vec<Arc<ChatMessage>>) -> Self {
        Self {
            messages,
            tools: Arc::new([]),
            tool_choice: None,
            config: RuntimeConfig::default(),
            response_schema: None,
            prompt: None,
            conversation: None,
            album: RequestPictures::default(),
        }
    }

    /// Offers tools.
    #[must_use]
    pub fn with_tools(mut self, tools: impl Into<Arc<[ToolDefinition]>>) -> Self {
        self.tools = tools.into();
        self
    }

    /// Constrains the choice of tools.
    #[must_use]
    pub fn with_tool_choice(mut self, choice: ToolChoicePolicy) -> Self {
        self.tool_choice = Some(choice);
        self
    }

    /// Sets the sampling parameters.
    #[must_use]
    pub fn with_config(mut self, config: RuntimeConfig) -> Self {
        self.config = config;
        self
    }

    /// Asks for an answer of this shape.
    #[must_use]
    pub fn with_response_schema(mut self, schema: Arc<Schema>) -> Self {
        self.response_schema = Some(schema);
        self
    }

    /// Names the prompt that the messages were rendered from.
    #[must_use]
    pub fn with_prompt(mut self, prompt: impl Into<Arc<ActivePrompt>>) -> Self {
        self.prompt = Some(prompt.into());
        self
    }

    /// Says which of the messages are those of a stored conversation.
    #[must_use]
    pub fn with_conversation(mut self, range: ConversationRange) -> Self {
        self.conversation = Some(range);
        self
    }

    /// Checks the request. Every provider calls this before anything is sent.
    ///
    /// # Errors
    ///
    /// `provider_invalid_request`: messages first, then tools, tool choice, response schema.
    pub fn check(&self) -> Result<()> {
        validate_messages(&self.messages)?;
        tool::check_tools(&self.tools, self.tool_choice.as_ref())
            .map_err(InvalidField::into_request_error)?;
        match &self.response_schema {
            Some(schema) if schema.as_value().get("type").is_none() => {
                Err(InvalidField::at_path("response_schema.type", "must be object").into_request_error())
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Returns the tool of this name, if it was offered.
    #[must_use]
    pub fn find_tool(&self, name: &str) -> Option<&ToolDefinition> {
        self.tools.iter().find(|tool| tool.name() == name)
    }
}

#[cfg(test)]
mod tests;
