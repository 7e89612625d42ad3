//! What clients say: messages, and answers to what waits for a person.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::message::ImageDetail;
use super::session::PromptPolicy;
use super::whole::{read_optional_whole_number, read_whole_number};

/// A message that is sent. `{"content": "hello"}` is enough.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SendMessage {
    /// Who speaks: clients speak as the user, and as nobody else.
    #[serde(default)]
    pub role: SenderRole,
    /// What is said.
    pub content: SendContent,
    /// The agent that answers, if this message begins the session; a session keeps its agent. The first of the list
    /// otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Which texts reach the model, if this message begins the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_policy: Option<PromptPolicy>,
}

/// The one role that clients speak in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SenderRole {
    /// The human.
    #[default]
    User,
}

/// What is said: text, or blocks in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum SendContent {
    /// Text only; not empty.
    Text(#[schemars(length(min = 1))] String),
    /// Blocks, in order; at least one.
    Blocks(#[schemars(length(min = 1))] Vec<SendBlock>),
}

/// One block of what is said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum SendBlock {
    /// Text.
    Text {
        /// The text; not empty.
        #[schemars(length(min = 1))]
        text: String,
    },
    /// A picture.
    Image {
        /// Where it is.
        source: SendImageSource,
        /// Its media type.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        media_type: Option<String>,
        /// How closely the model should look.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        detail: Option<ImageDetail>,
    },
}

/// The addresses of pictures. The bytes of an inline picture begin as its kind does: PNG, JPEG, GIF or WebP.
const PICTURE: &str = concat!(
    r"^(https://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?([/?#][^\x00-\x20\x7f-\x9f]*)?",
    r"|blob:[0-9a-f]{64}|data:image/[a-z0-9.+-]+;base64,",
    r"(iVBORw0KGg[o-r][A-Za-z0-9+/]|/9j/|R0lGODdh|R0lGODlh",
    r"|UklGR[g-v][A-Za-z0-9+/]{4}[BFJNRVZdhlptx159]XRUJQ)",
    r"([A-Za-z0-9+/]{4})*([A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?)$",
);

/// Where a picture is that is sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum SendImageSource {
    /// Behind an address.
    Url {
        /// an `https:` address, which is passed on to the model's provider and never fetched; `blob:` and the digest of an
        /// image that was uploaded to this session; or the image itself, as `data:image/TYPE;base64,BYTES`, which is kept with the
        /// session.
        #[schemars(regex(pattern = PICTURE))]
        url: String,
    },
}

/// An answer to what waits in a session.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("anyOf" = number_with_action()))]
pub struct SignalAnswer {
    /// The answer, as the wait's `payload_schema` asks for it; for an approval `{"approved": true}`.
    #[serde(default)]
    pub payload: Map<String, Value>,
    /// The number of the wait. An approval is taken with number and action only.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "read_optional_whole_number"
    )]
    #[schemars(range(max = u64::MAX))]
    pub wait: Option<u64>,
    /// The digest of the exact action that is approved or rejected, as the wait names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
}

/// Says that the number of a wait and the digest of its action go together.
fn number_with_action() -> Value {
    json!([
        { "required": ["wait", "action"], "properties": { "wait": { "type": "integer" }, "action": { "type": "string" } } },
        { "properties": { "wait": { "type": "null" }, "action": { "type": "null" } } },
    ])
}

/// A user's message that is said otherwise, in a fork before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EditMessage {
    /// The message: its place in the history, or its id.
    pub message: MessageAt,
    /// What is said in its place.
    pub content: SendContent,
    /// The id of the new session; drawn otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = super::ID_PATTERN))]
    pub id: Option<String>,
}

/// Another reply that is asked for, in a fork before the user's message.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RegenerateReply {
    /// Any message of the answer: its place in the history, or its id; the last one otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<MessageAt>,
    /// The id of the new session; drawn otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = super::ID_PATTERN))]
    pub id: Option<String>,
}

/// Names a message of a history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum MessageAt {
    /// By its place, from 0.
    Seq(
        #[serde(deserialize_with = "read_whole_number")]
        #[schemars(range(max = u64::MAX))]
        u64,
    ),
    /// By its id: `TURN/K`.
    Id(String),
}
