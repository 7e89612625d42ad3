//! What clients send.

use serde::Deserialize;
use serde_json::{Map, Value};

/// What clients send to a chat: the text under `content`, as the framework's hook has it, or `message`, as its first steps have
/// it. Fields that are not known are ignored.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct SendBody {
    /// The text.
    #[serde(default)]
    pub content: Option<String>,
    /// The message.
    #[serde(default)]
    pub message: Option<SentMessage>,
    /// What is said beside it. It never reaches a model.
    #[serde(default)]
    pub metadata: Option<Map<String, Value>>,
}

/// A message that is sent: a text, or a message as chats have them.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum SentMessage {
    /// Its text.
    Text(String),
    /// The message.
    Message {
        /// The client's own id for it.
        #[serde(default)]
        id: Option<String>,
        /// Who speaks: clients speak as `user`.
        #[serde(default)]
        role: Option<String>,
        /// Its text.
        #[serde(default)]
        content: Option<String>,
        /// Its blocks, instead of the text.
        #[serde(default)]
        parts: Vec<SentPart>,
    },
}

/// One block of a message that is sent.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SentPart {
    /// What it is: `text` or `image`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The text.
    #[serde(default)]
    pub text: Option<String>,
    /// Where the picture is.
    #[serde(default)]
    pub url: Option<String>,
    /// The media type of the picture.
    #[serde(default)]
    pub media_type: Option<String>,
}
