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
