//! One message of a conversation (spec: llm-provider §3).

mod parse;
mod validate;

use std::borrow::Cow;
use std::fmt;

use serde::de::Error as _;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::Map;
use crate::content::MessageContent;
use crate::error::{Error, Result};
use crate::fault::InvalidField;

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The application, setting the stage.
    System,
    /// The human.
    User,
    /// The model.
    Assistant,
    /// A tool, answering one call.
    Tool,
}

impl Role {
    /// Returns the role as it is written on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One message, in exactly the JSON shape of llm-provider §3.
///
/// Absent fields are omitted, unknown fields refused. Reading with serde checks the shape;
/// [`validate`](Self::validate) checks the rules of the role, and
/// [`from_json`](Self::from_json) does both.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatMessage {
    /// Who speaks.
    pub role: Role,
    /// The content. Empty only beside tool calls, or as a tool's empty result.
    pub content: MessageContent,
    /// The tool calls of an assistant message, in order.
    pub tool_calls: Vec<ToolCall>,
    /// Which call a tool message answers.
    pub tool_call_id: Option<String>,
}

/// A request of the model to run a tool.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ToolCall {
    /// The provider's id, verbatim; unique within its message only.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments; `None` when the text that the model wrote is no JSON object.
    pub arguments: Option<Map>,
    /// The provider's opaque continuity token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
}

impl ToolCall {
    /// Makes a call without a signature.
    #[must_use]
    pub fn new(id: impl Into<String>, name: impl Into<String>, arguments: Map) -> Self {
        let (id, name) = (id.into(), name.into());
        Self { id, name, arguments: Some(arguments), signature: None }
    }
}

/// A user's message.
impl From<&str> for ChatMessage {
    fn from(text: &str) -> Self {
        Self::user(text)
    }
}

/// A user's message.
impl From<String> for ChatMessage {
    fn from(text: String) -> Self {
        Self::user(text)
    }
}

impl ChatMessage {
    /// Makes a system message.
    #[must_use]
    pub fn system(text: impl Into<String>) -> Self {
        Self::from_role_and_content(Role::System, MessageContent::Text(text.into()))
    }

    /// Makes a user message from text or blocks.
    #[must_use]
    pub fn user(content: impl Into<MessageContent>) -> Self {
        Self::from_role_and_content(Role::User, content.into())
    }

    /// Makes an assistant message from text or blocks.
    #[must_use]
    pub fn assistant(content: impl Into<MessageContent>) -> Self {
        Self::from_role_and_content(Role::Assistant, content.into())
    }

    /// Makes a tool message that answers the call of this id.
    #[must_use]
    pub fn tool(tool_call_id: impl Into<String>, result: impl Into<String>) -> Self {
        let mut message = Self::from_role_and_content(Role::Tool, MessageContent::Text(result.into()));
        message.tool_call_id = Some(tool_call_id.into());
        message
    }

    /// Puts tool calls on the message, in this order.
    #[must_use]
    pub fn with_tool_calls(mut self, calls: impl IntoIterator<Item = ToolCall>) -> Self {
        self.tool_calls = calls.into_iter().collect();
        self
    }

    /// Returns the text of the message: its string, or its text blocks joined.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        self.content.text()
    }

    /// Checks every rule that concerns this message alone (spec: llm-provider §3).
    ///
    /// # Errors
    ///
    /// `provider_invalid_request`, naming the field and the change to make.
    pub fn validate(&self) -> Result<()> {
        self.find_invalid_field().map_or(Ok(()), |fault| Err(fault.into_request_error()))
    }

    /// Reads a message strictly and validates it.
    ///
    /// # Errors
    ///
    /// `provider_invalid_request`, naming the field by its path, as in `content[1].text`.
    pub fn from_json(value: Value) -> Result<Self> {
        let message = parse::parse_message(value).map_err(InvalidField::into_request_error)?;
        message.validate()?;
        Ok(message)
    }

    /// Returns the first mistake in this message.
    pub(crate) fn find_invalid_field(&self) -> Option<InvalidField> {
        validate::validate_message(self).err()
    }

    fn from_role_and_content(role: Role, content: MessageContent) -> Self {
        Self { role, content, tool_calls: Vec::new(), tool_call_id: None }
    }
}

impl Serialize for ChatMessage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let has_content = self.role != Role::Assistant || !self.content.is_empty();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("role", &self.role)?;
        if has_content {
            map.serialize_entry("content", &self.content)?;
        }
        if !self.tool_calls.is_empty() {
            map.serialize_entry("tool_calls", &self.tool_calls)?;
        }
        if let Some(id) = &self.tool_call_id {
            map.serialize_entry("tool_call_id", id)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for ChatMessage {
    // Through a JSON value, so that there is one strict reader with one kind of message.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        parse::parse_message(Value::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for ToolCall {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        parse::parse_tool_call(Value::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl TryFrom<Value> for ChatMessage {
    type Error = Error;

    fn try_from(value: Value) -> Result<Self> {
        Self::from_json(value)
    }
}

#[cfg(test)]
mod tests;
