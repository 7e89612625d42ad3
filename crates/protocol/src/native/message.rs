//! Messages: what was said, and what a client may say.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::turn::Errored;
use super::whole::read_query_number;

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
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

/// One message of a conversation. What a model thought, and the tokens that providers want back, are no part of it, unless
/// the agent's configuration says that its thinking may be seen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said; empty beside tool calls where nothing is.
    pub content: Content,
    /// What the model asks for, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// Which call a tool's message answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
}

/// What a message says: text, or blocks in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Content {
    /// Text only.
    Text(String),
    /// Blocks, in order.
    Blocks(Vec<Block>),
}

impl Content {
    /// Returns the text: the string, or the text blocks joined.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Blocks(blocks) => blocks.iter().filter_map(Block::text).collect(),
        }
    }
}

/// One block of content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// A picture of a user.
    Image {
        /// Where it is.
        source: ImageSource,
        /// Its media type.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        media_type: Option<String>,
        /// How closely the model should look.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        detail: Option<ImageDetail>,
    },
    /// What the model thought; only of agents whose configuration shows it.
    Thinking {
        /// The thought.
        text: String,
    },
}

impl Block {
    fn text(&self) -> Option<&str> {
        match self {
            Self::Text { text } => Some(text),
            Self::Image { .. } | Self::Thinking { .. } => None,
        }
    }
}

/// Where a picture is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ImageSource {
    /// Behind an address: `https:`, or `blob:` with the digest of what was uploaded to the session.
    Url {
        /// The address.
        url: String,
    },
    /// In the message itself. Clients cannot send it; an application on the server may have.
    Inline {
        /// The bytes, in base64.
        base64_data: String,
    },
}

/// How closely a model should look at a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ImageDetail {
    /// The provider decides.
    Auto,
    /// A small version is enough.
    Low,
    /// Every detail counts.
    High,
}

/// A request of the model to run a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolCall {
    /// Its id, unique within its message.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments; null when what the model wrote is no JSON object.
    pub arguments: Option<Map<String, Value>>,
}

/// One message of a session's history, with what is known beside it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryMessage {
    /// Its place in the history, from 0: the order of messages.
    pub seq: u64,
    /// Its id: the turn that made it and its place in that turn, as its event names it. None when the record of its turn is
    /// not kept any more, and for messages that no turn made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// When: a user's message when it was accepted, another when its turn ended. None where there is no id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<super::Time>,
    /// The message.
    #[serde(flatten)]
    pub message: Message,
    /// What is known beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side: Option<Side>,
}

/// What is known about a message and is no part of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Side {
    /// The agent whose it is, in a team.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Whether its turn was cancelled while it was being said: it is what was shown by then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupted: Option<bool>,
    /// Whether the tool succeeded; said where it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success: Option<bool>,
    /// Why the model stopped, where that is not as usual, such as `length`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<String>,
    /// The turn that took it, when it was a message that steers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_by: Option<String>,
    /// The turn as which it was accepted, when it was a message that steers and that a turn took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted_as: Option<String>,
    /// Everything else.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// A page of a history, in its order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MessageList {
    /// The messages.
    pub items: Vec<HistoryMessage>,
    /// The place of the next page's first message, when there is one: what `from` takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
    /// The last event before this was read: a stream from after it misses nothing that is not here, and may tell again what
    /// is. None when the session has had no event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_event: Option<String>,
    /// The turns that failed and stand at this part of the history, in the order of acceptance; of more than a page holds, the
    /// newest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<FailedTurn>,
}

/// A turn that failed, as people are shown it beside a history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FailedTurn {
    /// Its id.
    pub turn: String,
    /// Before which message of the history it stands, counted from 0; behind the last one where that is the history's length.
    pub place: u64,
    /// When its message was accepted.
    pub accepted_at: super::Time,
    /// Whether it had effects: then its messages are part of the history, and models are shown them.
    pub effects: bool,
    /// The message that it answers, where that is no part of the history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Message>,
    /// What it had made or shown of an answer that is no part of the history, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub made: Vec<UnkeptMessage>,
    /// Why it failed.
    pub error: Errored,
    /// The failed turn that it retries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<String>,
    /// The turn that retries it, when one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retried_by: Option<String>,
}

/// A message of a failed turn that is no part of the history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UnkeptMessage {
    /// The message.
    #[serde(flatten)]
    pub message: Message,
    /// Additional data about the message, such as whether a tool succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side: Option<Side>,
}

/// Which messages of a history to read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MessageQuery {
    /// The place of the first one; 0 otherwise.
    #[serde(default, deserialize_with = "read_query_number")]
    #[schemars(range(max = u64::MAX))]
    pub from: Option<u64>,
    /// How many at most: 1 to 1000; 100 otherwise.
    #[serde(default, deserialize_with = "read_query_number")]
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<u64>,
}
