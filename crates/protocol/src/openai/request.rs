//! What a client asks.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A request for a completion.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CompletionRequest {
    /// Who answers.
    #[serde(default)]
    pub model: Option<String>,
    /// The conversation.
    pub messages: Vec<RequestMessage>,
    /// Whether the answer comes piece by piece.
    #[serde(default)]
    pub stream: Option<bool>,
    /// How.
    #[serde(default)]
    pub stream_options: Option<StreamOptions>,
    /// What the client says beside it.
    #[serde(default)]
    pub metadata: Option<Map<String, Value>>,
    /// Tools that the client runs.
    #[serde(default)]
    pub tools: Option<Vec<Tool>>,
    /// How freely the model chooses one.
    #[serde(default)]
    pub tool_choice: Option<ToolChoice>,
    /// The form of tools before there were tools.
    #[serde(default)]
    pub functions: Option<Value>,
    /// How many answers.
    #[serde(default)]
    pub n: Option<u64>,
    /// In which form.
    #[serde(default)]
    pub response_format: Option<Value>,
    /// Where to stop.
    #[serde(default)]
    pub stop: Option<Stop>,
    /// How many tokens the answer may have.
    #[serde(default)]
    pub max_completion_tokens: Option<u64>,
    /// The same, by its older name.
    #[serde(default)]
    pub max_tokens: Option<u64>,
    /// Whether with probabilities.
    #[serde(default)]
    pub logprobs: Option<bool>,
    /// In which media.
    #[serde(default)]
    pub modalities: Option<Vec<String>>,
}

/// How an answer comes piece by piece.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamOptions {
    /// Whether the last piece says what was used.
    #[serde(default)]
    pub include_usage: Option<bool>,
}

/// Where to stop: one text or several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Stop {
    /// One.
    One(String),
    /// Several.
    Several(Vec<String>),
}

impl Stop {
    /// Returns the texts at which an answer ends.
    #[must_use]
    pub fn into_texts(self) -> Vec<String> {
        let texts = match self {
            Self::One(text) => vec![text],
            Self::Several(texts) => texts,
        };
        texts.into_iter().filter(|text| !text.is_empty()).collect()
    }

    /// Tells whether it stops nowhere.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match self {
            Self::One(text) => text.is_empty(),
            Self::Several(texts) => texts.is_empty(),
        }
    }
}

/// A message of the conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "lowercase")]
pub enum RequestMessage {
    /// What sets the stage.
    System {
        /// What is said.
        content: Content,
    },
    /// The same, by another name.
    Developer {
        /// What is said.
        content: Content,
    },
    /// What the human says.
    User {
        /// What is said.
        content: Content,
    },
    /// What the model said.
    Assistant {
        /// What was said.
        #[serde(default)]
        content: Option<Content>,
        /// Why it was not.
        #[serde(default)]
        refusal: Option<String>,
        /// The calls that it made.
        #[serde(default)]
        tool_calls: Option<Vec<ToolCall>>,
    },
    /// What a call gave.
    Tool {
        /// The call.
        tool_call_id: String,
        /// What it gave.
        content: Content,
    },
}

/// What a message says: text, or parts in order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Content {
    /// Text only.
    Text(String),
    /// Parts, in order.
    Parts(Vec<Part>),
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// A picture.
    ImageUrl {
        /// Where it is.
        image_url: ImageUrl,
    },
    /// What the model refused to say.
    Refusal {
        /// Why.
        refusal: String,
    },
    /// Sound, a file, or something newer.
    #[serde(other)]
    Other,
}

/// Where a picture is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageUrl {
    /// The address, or the picture itself as a `data:` address.
    pub url: String,
    /// How closely to look: `auto`, `low` or `high`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Its id.
    pub id: String,
    /// What it is.
    #[serde(rename = "type", default)]
    pub kind: ToolKind,
    /// The function.
    pub function: FunctionCall,
}

/// The one kind of tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolKind {
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

/// A tool that the client runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    /// What it is: `function`, or something newer.
    #[serde(rename = "type")]
    pub kind: String,
    /// The function.
    #[serde(default)]
    pub function: Option<FunctionDefinition>,
}

/// What the model is told of a function.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FunctionDefinition {
    /// Its name.
    pub name: String,
    /// What it does.
    #[serde(default)]
    pub description: Option<String>,
    /// The JSON Schema of its arguments.
    #[serde(default)]
    pub parameters: Option<Value>,
}

/// How freely the model chooses a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ToolChoice {
    /// In a word.
    Mode(ToolChoiceMode),
    /// This one.
    Named {
        /// The function.
        function: NamedFunction,
    },
}

/// How freely the model chooses a tool, in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolChoiceMode {
    /// The model decides.
    Auto,
    /// No call.
    None,
    /// At least one call.
    Required,
}

/// The name of a function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedFunction {
    /// The name.
    pub name: String,
}
