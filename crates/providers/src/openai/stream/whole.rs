//! The body that the server would have sent at once.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use singletree_llm::Map;

use crate::answer::merge_latest_fields;

/// Collects chunks into the body of an atomic answer; the last usage is kept verbatim (spec: llm-provider §6, streaming
/// assembly).
#[derive(Debug, Default)]
pub(super) struct ChatCompletionAccumulator {
    /// The fields beside the choices.
    frame: Map,
    /// The fields beside the message.
    choice: Map,
    /// The texts of the message by name.
    texts: BTreeMap<&'static str, String>,
    calls: Vec<AccumulatedToolCall>,
    /// Where the call is that an index means now.
    positions: BTreeMap<u32, usize>,
}

#[derive(Debug, Default)]
struct AccumulatedToolCall {
    index: u32,
    id: String,
    name: String,
    arguments: String,
}

impl ChatCompletionAccumulator {
    /// Takes the fields beside the choices. A field that a later chunk leaves out or sets to null keeps its value.
    pub(super) fn merge_frame(&mut self, fields: Map) {
        merge_latest_fields(&mut self.frame, fields);
    }

    /// Takes the fields beside the delta.
    pub(super) fn merge_choice(&mut self, fields: Map) {
        merge_latest_fields(&mut self.choice, fields);
    }

    /// Takes more of a text of the message.
    pub(super) fn append_text(&mut self, name: &'static str, more: &str) {
        self.texts.entry(name).or_default().push_str(more);
    }

    /// Takes a fragment of a call, by the rule of the assembler: another id under a known index is another call.
    pub(super) fn append_call_fragment(
        &mut self,
        index: u32,
        id: Option<&str>,
        name: Option<&str>,
        arguments: &str,
    ) {
        let known = self.positions.get(&index).copied().filter(|&position| {
            let known = self.calls[position].id.as_str();
            id.is_none_or(|id| known.is_empty() || known == id)
        });
        let position = known.unwrap_or_else(|| {
            self.calls.push(AccumulatedToolCall { index, ..AccumulatedToolCall::default() });
            self.calls.len() - 1
        });
        self.positions.insert(index, position);
        let call = &mut self.calls[position];
        if call.id.is_empty() {
            id.unwrap_or_default().clone_into(&mut call.id);
        }
        if call.name.is_empty() {
            name.unwrap_or_default().clone_into(&mut call.name);
        }
        call.arguments.push_str(arguments);
    }

    /// Returns why the model stopped, as the server said it.
    pub(super) fn finish_reason(&self) -> Option<&Value> {
        self.choice.get("finish_reason").filter(|it| !it.is_null())
    }

    /// Returns the counters as the server sent them.
    pub(super) fn usage(&self) -> Option<&Value> {
        self.frame.get("usage")
    }

    /// Returns the refusal, where it is all that was said.
    pub(super) fn refusal(&self) -> Option<&str> {
        let text = self.texts.get("refusal").filter(|text| !text.is_empty())?;
        (!self.texts.contains_key("content")).then_some(text)
    }

    /// Returns the calls without an id: which place, and which index means each.
    pub(super) fn calls_without_id(&self) -> impl Iterator<Item = (usize, u32)> {
        self.calls.iter().enumerate().filter(|(_, it)| it.id.is_empty()).map(|(at, it)| (at, it.index))
    }

    /// Returns the body.
    pub(super) fn into_body(self) -> Value {
        let mut message =
            Map::from_iter([("role".to_owned(), json!("assistant")), ("content".to_owned(), Value::Null)]);
        message.extend(self.texts.into_iter().map(|(name, text)| (name.to_owned(), text.into())));
        if !self.calls.is_empty() {
            message.insert(
                "tool_calls".to_owned(),
                self.calls.into_iter().map(AccumulatedToolCall::into_value).collect(),
            );
        }
        let mut choice = self.choice;
        choice.insert("index".to_owned(), 0.into());
        choice.insert("message".to_owned(), message.into());
        let mut body = self.frame;
        body.insert("object".to_owned(), "chat.completion".into());
        body.insert("choices".to_owned(), json!([choice]));
        body.into()
    }
}

impl AccumulatedToolCall {
    fn into_value(self) -> Value {
        json!({ "id": self.id, "type": "function", "function": { "name": self.name, "arguments": self.arguments } })
    }
}
