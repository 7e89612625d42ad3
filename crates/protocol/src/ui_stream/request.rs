//! What clients post.

use serde::Deserialize;
use serde_json::{Map, Value};

/// What is asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trigger {
    /// An answer to a message.
    #[default]
    SubmitMessage,
    /// Another answer.
    RegenerateMessage,
}

/// What a chat's transport posts: by itself `id`, `messages`, `trigger` and `messageId`; where it is told to send what is needed
/// only, `sessionId` and `message`. Of a list the newest message of the user is taken and nothing else (D16). Fields that are not
/// known are ignored.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Posted {
    /// The chat.
    #[serde(default)]
    pub id: Option<String>,
    /// The chat, under our name.
    #[serde(default)]
    pub session_id: Option<String>,
    /// All messages that the client has.
    #[serde(default)]
    pub messages: Vec<GivenMessage>,
    /// The message.
    #[serde(default)]
    pub message: Option<GivenMessage>,
    /// What is asked for.
    #[serde(default)]
    pub trigger: Trigger,
    /// Which message is said otherwise, or answered again.
    #[serde(default)]
    pub message_id: Option<String>,
    /// The agent that answers, if the session is new.
    #[serde(default)]
    pub agent: Option<String>,
    /// The answer to what waits, instead of a message.
    #[serde(default)]
    pub answer: Option<GivenAnswer>,
}

/// A message that a client has.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct GivenMessage {
    /// The client's id for it.
    #[serde(default)]
    pub id: Option<String>,
    /// Who speaks.
    pub role: String,
    /// What it is made of.
    #[serde(default)]
    pub parts: Vec<GivenPart>,
}

/// One part of such a message: of a user's what it says, of an assistant's what a person has said about a call.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GivenPart {
    /// What it is: `text` or `file`; whatever else it may be.
    #[serde(rename = "type")]
    pub kind: String,
    /// The text.
    #[serde(default)]
    pub text: Option<String>,
    /// Where the file is.
    #[serde(default)]
    pub url: Option<String>,
    /// The file's media type.
    #[serde(default)]
    pub media_type: Option<String>,
    /// How far a call is, such as `approval-responded`.
    #[serde(default)]
    pub state: Option<String>,
    /// What a person has said about a call: `id`, `approved`, `reason`.
    #[serde(default)]
    pub approval: Option<Value>,
}

/// The answer to what waits, as a `data-suspended` part names it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GivenAnswer {
    /// The signal's id.
    pub signal: String,
    /// The answer; for an approval `{"approved": true}`.
    #[serde(default)]
    pub payload: Map<String, Value>,
    /// The number of the wait. An approval is taken with number and action only.
    #[serde(default)]
    pub wait: Option<u64>,
    /// The digest of the exact action that is approved or rejected.
    #[serde(default)]
    pub action: Option<String>,
}
