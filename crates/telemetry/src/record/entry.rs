//! The entries of a piece, as they are stored. Their names are short because they are stored with every turn.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use singletree_llm::{ModelFinishReason, TokenUsage};

use super::place::StoredPlace;

/// One piece.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum StoredPiece {
    /// For each entry how many milliseconds it is after the one before it, and the entries. The first number says how
    /// many milliseconds the first entry was before the commit.
    Entries(Vec<i64>, Vec<Entry>),
    /// The run of a graph of one node, which made no calls and ended without an error: the name of the node, how many
    /// milliseconds before the commit it began, and how many it took. A turn of such a graph has no more than this.
    OneNode(String, i64, #[serde(skip_serializing_if = "is_zero_span")] i64),
}

impl StoredPiece {
    /// Reads a piece. Which of the two it is its first element says, so that nothing has to be read twice.
    pub(crate) fn from_json(text: &str) -> serde_json::Result<Self> {
        #[derive(Deserialize)]
        struct OneNode(String, i64, #[serde(default)] i64);

        if text.starts_with("[\"") {
            let OneNode(name, before, took) = serde_json::from_str(text)?;
            return Ok(Self::OneNode(name, before, took));
        }
        let (deltas, entries) = serde_json::from_str(text)?;
        Ok(Self::Entries(deltas, entries))
    }
}

/// One entry. An entry refers to a node or inner run by the number of the entry that opened it, counted from 0 in the run
/// of the graph; without a number it refers to the one that was opened last and is still open.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Entry {
    /// The graph begins to run, at this node; again, when a process goes on with the turn of one that died.
    #[serde(rename = "s")]
    Started(String),
    /// The first attempt of a node of the outermost graph: its step and name.
    #[serde(rename = "n")]
    Node(u64, String),
    /// The attempt of any node.
    #[serde(rename = "N")]
    NodeAt(Box<NodeEntry>),
    /// An inner run.
    #[serde(rename = "u")]
    Unit(Box<UnitEntry>),
    /// The node or inner run that was opened last and is still open ended without an error.
    #[serde(rename = "e")]
    Ended,
    /// A node or an inner run ended.
    #[serde(rename = "E")]
    EndedAt(Box<EndEntry>),
    /// An attempt of a model call ended.
    #[serde(rename = "m")]
    Llm(Box<LlmEntry>),
    /// A tool ended.
    #[serde(rename = "t")]
    Tool(Box<ToolEntry>),
    /// So many events were left out from here on, because the turn had as many records as it may have.
    #[serde(rename = "x")]
    LeftOut(u64),
}

/// An attempt of a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct NodeEntry {
    #[serde(rename = "p")]
    pub(crate) place: StoredPlace,
    #[serde(rename = "c", default, skip_serializing_if = "Option::is_none")]
    pub(crate) container: Option<ContainerEntry>,
}

/// The configuration of a node with several inner runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum ContainerEntry {
    /// A fan-out: instances, how many at once, error policy.
    #[serde(rename = "f")]
    FanOut(u64, Option<u64>, singletree_engine::ErrorPolicy),
    /// Branches: declared names, how many run, error policy.
    #[serde(rename = "b")]
    Branches(Vec<String>, u64, singletree_engine::ErrorPolicy),
}

/// An inner run begins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct UnitEntry {
    #[serde(rename = "p")]
    pub(crate) place: StoredPlace,
    #[serde(rename = "g", default, skip_serializing_if = "Option::is_none")]
    pub(crate) graph_name: Option<String>,
    #[serde(rename = "n", default, skip_serializing_if = "Option::is_none")]
    pub(crate) entry_node: Option<String>,
}

/// How a node or an inner run ended: without an error, where no field is set.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct EndEntry {
    #[serde(rename = "r", default, skip_serializing_if = "Option::is_none")]
    pub(crate) of: Option<u32>,
    #[serde(rename = "e", default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<ErrorEntry>,
    /// The signal that the node waits for.
    #[serde(rename = "w", default, skip_serializing_if = "Option::is_none")]
    pub(crate) signal: Option<String>,
}

/// The categories of an error: that of graph-engine §4, and the most precise one where that is another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ErrorEntry(
    pub(crate) String,
    #[serde(default, skip_serializing_if = "Option::is_none")] pub(crate) Option<String>,
);

/// Where a call was made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallPlace<'entry> {
    /// The name of the call without that of the invocation.
    pub(crate) id: &'entry str,
    pub(crate) of: Option<u32>,
    /// The place of a call that no open node or inner run made.
    pub(crate) place: Option<&'entry StoredPlace>,
}

/// An attempt of a model call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct LlmEntry {
    /// How long before its entry the call began, in milliseconds.
    #[serde(rename = "b")]
    pub(crate) took: i64,
    /// The name of the call without that of the invocation.
    #[serde(rename = "i")]
    pub(crate) id: String,
    #[serde(rename = "r", default, skip_serializing_if = "Option::is_none")]
    pub(crate) of: Option<u32>,
    /// The place of a call that no open node or inner run made.
    #[serde(rename = "p", default, skip_serializing_if = "Option::is_none")]
    pub(crate) place: Option<StoredPlace>,
    #[serde(rename = "s")]
    pub(crate) system: String,
    #[serde(rename = "m")]
    pub(crate) model: String,
    /// The number of the attempt, where it is not the first.
    #[serde(rename = "x", default, skip_serializing_if = "is_zero")]
    pub(crate) attempt: u32,
    /// Whether the attempt was made because the output before did not fit.
    #[serde(rename = "k", default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_reask: bool,
    #[serde(rename = "e", default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<LlmErrorEntry>,
    #[serde(rename = "o", default, skip_serializing_if = "Option::is_none")]
    pub(crate) output: Option<LlmOutputEntry>,
    #[serde(rename = "q", default, skip_serializing_if = "Map::is_empty")]
    pub(crate) params: Map<String, Value>,
    #[serde(rename = "v", default, skip_serializing_if = "Option::is_none")]
    pub(crate) prompt: Option<Box<PromptEntry>>,
    /// The messages of the request that are those of the session's history: how many others come before them, the place of
    /// the first, and how many they are.
    #[serde(rename = "h", default, skip_serializing_if = "Option::is_none")]
    pub(crate) history: Option<(u64, u64, u64)>,
}

impl LlmEntry {
    pub(crate) fn call(&self) -> CallPlace<'_> {
        CallPlace { id: &self.id, of: self.of, place: self.place.as_ref() }
    }

    /// Returns the place in the history of the message that the answer became, if it became one.
    pub(crate) fn answer_position(&self) -> Option<u64> {
        self.history.map(|(_, first, count)| first.saturating_add(count))
    }
}

/// How an attempt failed: its category, and the HTTP status.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct LlmErrorEntry(
    pub(crate) String,
    #[serde(default, skip_serializing_if = "Option::is_none")] pub(crate) Option<String>,
);

/// The stored parts of an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct LlmOutputEntry {
    #[serde(rename = "f")]
    pub(crate) finish_reason: ModelFinishReason,
    /// Tokens: of the prompt, of the completion, in all, from a cache, to a cache.
    #[serde(rename = "u")]
    pub(crate) usage: [Option<u64>; 5],
    #[serde(rename = "i", default, skip_serializing_if = "Option::is_none")]
    pub(crate) response_id: Option<String>,
    #[serde(rename = "m", default, skip_serializing_if = "Option::is_none")]
    pub(crate) response_model: Option<String>,
    /// Names and ids of the tool calls.
    #[serde(rename = "t", default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) tool_calls: Vec<(String, String)>,
}

impl LlmOutputEntry {
    /// Returns an entry for an answer without stored parts.
    pub(crate) fn of_nothing() -> Self {
        Self {
            finish_reason: ModelFinishReason::Error,
            usage: [None; 5],
            response_id: None,
            response_model: None,
            tool_calls: Vec::new(),
        }
    }

    pub(crate) fn token_usage(&self) -> TokenUsage {
        let [prompt_tokens, completion_tokens, total_tokens, cached_tokens, cache_creation_tokens] =
            self.usage;
        TokenUsage { prompt_tokens, completion_tokens, total_tokens, cached_tokens, cache_creation_tokens }
    }
}

/// The identity of a prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PromptEntry {
    #[serde(rename = "n")]
    pub(crate) name: String,
    #[serde(rename = "v")]
    pub(crate) version: String,
    #[serde(rename = "l")]
    pub(crate) label: String,
    #[serde(rename = "t")]
    pub(crate) template_hash: String,
    #[serde(rename = "r")]
    pub(crate) rendered_hash: String,
    #[serde(rename = "g", default, skip_serializing_if = "Option::is_none")]
    pub(crate) group_name: Option<String>,
    /// The most tokens of the input, and in all.
    #[serde(rename = "b", default, skip_serializing_if = "Option::is_none")]
    pub(crate) budget: Option<(Option<u64>, Option<u64>)>,
}

/// An execution of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ToolEntry {
    /// How long before its entry the call began, in milliseconds.
    #[serde(rename = "b")]
    pub(crate) took: i64,
    /// The name of the call without that of the invocation.
    #[serde(rename = "i")]
    pub(crate) id: String,
    #[serde(rename = "r", default, skip_serializing_if = "Option::is_none")]
    pub(crate) of: Option<u32>,
    /// The place of a call that no open node or inner run made.
    #[serde(rename = "p", default, skip_serializing_if = "Option::is_none")]
    pub(crate) place: Option<StoredPlace>,
    #[serde(rename = "n")]
    pub(crate) name: String,
    #[serde(rename = "c", default, skip_serializing_if = "Option::is_none")]
    pub(crate) tool_call_id: Option<String>,
    #[serde(rename = "f", default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_failed: bool,
    /// The type of the error of one that failed.
    #[serde(rename = "e", default, skip_serializing_if = "Option::is_none")]
    pub(crate) error_type: Option<String>,
}

impl ToolEntry {
    pub(crate) fn call(&self) -> CallPlace<'_> {
        CallPlace { id: &self.id, of: self.of, place: self.place.as_ref() }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn is_zero_span(millis: &i64) -> bool {
    *millis == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}
