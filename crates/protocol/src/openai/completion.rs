//! What comes back: an answer whole, or piece by piece.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::request::ToolCall;

/// An answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Completion {
    /// Its id.
    pub id: String,
    /// What it is.
    pub object: CompletionObject,
    /// When, in seconds since the Unix epoch.
    pub created: i64,
    /// Who answered.
    pub model: String,
    /// The answer; always one.
    pub choices: Vec<Choice>,
    /// What was used; absent where no provider said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// What is ours: the session, the turn, what waits.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub singletree: Map<String, Value>,
}

/// What an answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum CompletionObject {
    /// A completion.
    #[default]
    #[serde(rename = "chat.completion")]
    Completion,
}

/// One answer of several.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// Which.
    pub index: u32,
    /// The message.
    pub message: Reply,
    /// Always none.
    pub logprobs: Option<Value>,
    /// Why it ended.
    pub finish_reason: FinishReason,
}

/// The message of an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// Always the assistant's.
    pub role: ReplyRole,
    /// What is said; none beside calls where nothing is.
    pub content: Option<String>,
    /// The thinking of the model, where its agent shows it: an extension that other vendors have, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_content: Option<String>,
    /// Always none.
    pub refusal: Option<String>,
    /// The calls that the client is to run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
}

/// The role of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReplyRole {
    /// The assistant's.
    #[default]
    Assistant,
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// It is complete.
    Stop,
    /// It is as long as it may be.
    Length,
    /// The client is to run tools.
    ToolCalls,
    /// A filter stepped in.
    ContentFilter,
}

/// What was used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of prompts.
    pub prompt_tokens: u64,
    /// Tokens of answers.
    pub completion_tokens: u64,
    /// Both.
    pub total_tokens: u64,
    /// What of the prompts was known already.
    pub prompt_tokens_details: PromptTokensDetails,
}

/// What of prompts was known already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptTokensDetails {
    /// Tokens that came from a cache.
    pub cached_tokens: u64,
}

/// A piece of an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Chunk {
    /// The id of the answer.
    pub id: String,
    /// What it is.
    pub object: ChunkObject,
    /// When, in seconds since the Unix epoch.
    pub created: i64,
    /// Who answers.
    pub model: String,
    /// The piece; none in the piece that says what was used.
    pub choices: Vec<ChunkChoice>,
    /// What was used: in the last piece, where the client asked for it; null in those before it.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "nullable")]
    pub usage: Option<Option<Usage>>,
    /// What is ours.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub singletree: Map<String, Value>,
}

/// What a piece of an answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum ChunkObject {
    /// A piece.
    #[default]
    #[serde(rename = "chat.completion.chunk")]
    Chunk,
}

/// A piece of one answer of several.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChunkChoice {
    /// Which.
    pub index: u32,
    /// What is new.
    pub delta: Delta,
    /// Always none.
    pub logprobs: Option<Value>,
    /// Why it ended; none while it has not.
    pub finish_reason: Option<FinishReason>,
}

/// What is new of an answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Delta {
    /// Whose it is, in the first piece.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<DeltaRole>,
    /// More text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// More of the thinking of the model, where its agent shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_content: Option<String>,
    /// More calls, each whole and with its place among them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<DeltaCall>,
}

/// The role of an answer, in its first piece.
pub type DeltaRole = ReplyRole;

/// A call in a piece.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeltaCall {
    /// Its place among the calls.
    pub index: u32,
    /// The call.
    #[serde(flatten)]
    pub call: ToolCall,
}

/// A field that is absent, null or there.
mod nullable {
    use super::Usage;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[expect(
        clippy::ref_option,
        clippy::option_option,
        reason = "serde's own form for absent, null and there"
    )]
    pub(super) fn serialize<S: Serializer>(it: &Option<Option<Usage>>, to: S) -> Result<S::Ok, S::Error> {
        it.as_ref().and_then(Option::as_ref).serialize(to)
    }

    #[expect(clippy::option_option, reason = "serde's own form for absent, null and there")]
    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Option<Usage>>, D::Error> {
        Option::deserialize(from).map(Some)
    }
}
