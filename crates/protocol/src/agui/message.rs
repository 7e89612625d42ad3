//! Messages, as clients hold them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A message of a conversation, of the kinds that a server tells of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "lowercase", rename_all_fields = "camelCase")]
pub enum Message {
    /// What the human says.
    User {
        /// Its id, which the client drew.
        id: String,
        /// What is said.
        content: Content,
    },
    /// What the agent says, and the tools that it calls.
    Assistant {
        /// Its id.
        id: String,
        /// Who of several speaks.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// What is said; absent beside calls where nothing is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        content: Option<String>,
        /// The calls, in order.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCall>,
    },
    /// What a call gave.
    Tool {
        /// Its id.
        id: String,
        /// The call.
        tool_call_id: String,
        /// What it gave.
        content: String,
    },
}

impl Message {
    /// Returns the message's id.
    #[must_use]
    pub fn id(&self) -> &str {
        match self {
            Self::User { id, .. } | Self::Assistant { id, .. } | Self::Tool { id, .. } => id,
        }
    }
}

/// What a user's message says: text, or parts in order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Content {
    /// Text only.
    Text(String),
    /// Parts, in order.
    Parts(Vec<Part>),
}

/// One part of content. Of what a client sends, only text and pictures are understood.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Part {
    /// A part of a known kind.
    Known(KnownPart),
    /// Another one.
    Unknown(UnknownPart),
}

impl Part {
    /// Makes a part of text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Known(KnownPart::Text { text: text.into() })
    }

    /// Makes a part that is a picture.
    #[must_use]
    pub fn image(source: PartSource) -> Self {
        Self::Known(KnownPart::Image { source })
    }
}

/// A part of a kind that is understood.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum KnownPart {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// A picture.
    Image {
        /// Where it is.
        source: PartSource,
    },
}

/// A part of another kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UnknownPart {
    /// Its kind.
    #[serde(rename = "type")]
    pub kind: String,
    /// Everything else.
    #[serde(flatten)]
    pub other: serde_json::Map<String, Value>,
}

/// Where a part is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", rename_all_fields = "camelCase")]
pub enum PartSource {
    /// In the message itself.
    Data {
        /// The bytes, in base64.
        value: String,
        /// What they are.
        mime_type: String,
    },
    /// Behind an address.
    Url {
        /// The address.
        value: String,
        /// What is there.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mime_type: Option<String>,
    },
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Its id.
    pub id: String,
    /// What it is.
    #[serde(rename = "type")]
    pub kind: FunctionType,
    /// The function.
    pub function: FunctionCall,
}

/// The one kind of call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FunctionType {
    /// A function.
    #[default]
    Function,
}

/// Which function is called, and with what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionCall {
    /// Its name.
    pub name: String,
    /// The arguments, as JSON text.
    pub arguments: String,
}
