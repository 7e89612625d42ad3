//! The text of the system messages, for wires that keep it apart from the other messages.

use std::sync::Arc;

use serde_json::Value;
use singletree_llm::{ChatMessage, Role, Schema, canonical_json};

/// Returns the system messages, an empty line between two, then the directive of a schema. `None` where there is
/// neither.
pub(crate) fn system_text(messages: &[Arc<ChatMessage>], schema: Option<&Schema>) -> Option<String> {
    let told = messages
        .iter()
        .filter(|message| message.role == Role::System)
        .map(|message| message.text().into_owned());
    let all: Vec<String> = told.chain(schema.map(|schema| schema_directive(schema.as_value()))).collect();
    (!all.is_empty()).then(|| all.join("\n\n"))
}

/// Tells a model in words which shape its answer must have (spec: llm-provider §8.1.5.1).
pub(crate) fn schema_directive(schema: &Value) -> String {
    format!(
        "Answer with one JSON value and nothing else: no other words, no code fence. The value must be valid under this JSON \
         Schema:\n{}",
        canonical_json(schema)
    )
}
