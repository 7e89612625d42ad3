//! The texts of a turn's calls, taken from the conversation that keeps them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};
use singletree_llm::{ChatMessage, Role, ToolCall};

use super::entry::{Entry, LlmEntry, LlmOutputEntry, ToolEntry};

/// Messages of a conversation, by their places: those that the model calls of a turn were made with, and those that the
/// turn made.
#[derive(Debug, Clone, Default)]
pub struct ConversationTexts {
    messages: BTreeMap<u64, Arc<ChatMessage>>,
    /// The place of the first message that is known. Those before it were not read.
    read_from: u64,
    /// The place of the first message that the turn itself made.
    made_from: u64,
}

/// Which messages of a conversation the records of a turn refer to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReferredMessages {
    /// The place of the first one that a model call was made with; none where no call names any.
    pub first: Option<u64>,
    /// The place behind the last one that a model call was made with or answered with.
    pub end: u64,
    /// Whether a tool ran before the turn asked a model: the message with its call is before those of the turn.
    pub continues_calls: bool,
}

impl ReferredMessages {
    pub(crate) fn of_entries<'a>(entries: impl Iterator<Item = &'a Entry>) -> Self {
        let mut referred = Self { first: None, end: 0, continues_calls: false };
        for entry in entries {
            match entry {
                Entry::Llm(llm) => {
                    let Some(((_, first, _), answer)) = llm.history.zip(llm.answer_position()) else {
                        continue;
                    };
                    referred.first = Some(referred.first.map_or(first, |before: u64| before.min(first)));
                    referred.end = referred.end.max(answer.saturating_add(1));
                }
                Entry::Tool(tool) if tool.tool_call_id.is_some() && referred.first.is_none() => {
                    referred.continues_calls = true;
                }
                _ => {}
            }
        }
        referred
    }

    /// Tells whether the records refer to no message.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.first.is_none() && !self.continues_calls
    }
}

impl ConversationTexts {
    /// Makes texts of messages with their places. Those before `read_from` were not read; those from `made_from` on are the
    /// turn's own.
    #[must_use]
    pub fn new(
        messages: impl IntoIterator<Item = (u64, Arc<ChatMessage>)>,
        read_from: u64,
        made_from: u64,
    ) -> Self {
        Self { messages: messages.into_iter().collect(), read_from, made_from }
    }

    /// Returns the messages of a request: those of the conversation, and in place of each part that is not known a message
    /// that says so.
    pub(crate) fn request_messages(&self, entry: &LlmEntry) -> Vec<Arc<ChatMessage>> {
        let Some((skipped, first, count)) = entry.history else { return Vec::new() };
        let mut shown = Vec::new();
        let mut note = |text: String| shown.push(Arc::new(ChatMessage::system(text)));
        match skipped {
            0 => {}
            1 => note("[1 message is not recorded]".to_owned()),
            _ => note(format!("[{skipped} messages are not recorded]")),
        }
        let end = first.saturating_add(count);
        let from = first.max(self.read_from).min(end);
        if from > first {
            note(format!("[{} earlier messages are left out]", from - first));
        }
        let mut next = from;
        for (place, message) in self.messages.range(from..end) {
            if *place > next {
                shown.push(Arc::new(ChatMessage::system(DELETED)));
            }
            shown.push(message.clone());
            next = place + 1;
        }
        if next < end {
            shown.push(Arc::new(ChatMessage::system(DELETED)));
        }
        shown
    }

    /// Returns the message that a call of the turn was answered with.
    fn find_answer(&self, position: u64, output: &LlmOutputEntry) -> Option<&ChatMessage> {
        let message = self.messages.get(&position).filter(|_| position >= self.made_from)?;
        let calls = &message.tool_calls;
        let is_same = |((name, id), call): (&(String, String), &ToolCall)| {
            call.name.starts_with(name) && call.id.starts_with(id)
        };
        let same = output.tool_calls.len() <= calls.len()
            && output.tool_calls.is_empty() == calls.is_empty()
            && output.tool_calls.iter().zip(calls).all(is_same);
        (message.role == Role::Assistant && same).then_some(message.as_ref())
    }

    /// Returns the place of the message whose calls the turn goes on with.
    fn find_continued_calls(&self) -> Option<u64> {
        let before = self.messages.range(..self.made_from).rev();
        before
            .take_while(|(_, it)| it.role != Role::User)
            .find(|(_, it)| !it.tool_calls.is_empty())
            .map(|it| *it.0)
    }

    /// Returns the arguments of a call in the message at this place, and the text that it was answered with.
    fn find_tool_call(&self, asking: u64, id: &str) -> Option<ToolTexts> {
        let call = self.messages.get(&asking)?.tool_calls.iter().find(|call| call.id.starts_with(id))?;
        let results = self.messages.range(asking + 1..).map(|(_, message)| message);
        let result = results
            .take_while(|message| message.role == Role::Tool)
            .find(|message| message.tool_call_id.as_deref().is_some_and(|it| it.starts_with(id)))
            .map(|message| read_result(&message.text()));
        Some((call.arguments.clone(), result))
    }
}

/// The arguments and the result of a tool's execution, as far as they are known.
pub(crate) type ToolTexts = (Option<Map<String, Value>>, Option<Value>);

/// Stands for messages that are not there any more.
const DELETED: &str = "[deleted]";

/// Returns the value that a tool's text is: the value that it was written from, where that has several parts.
fn read_result(text: &str) -> Value {
    let value = serde_json::from_str(text).ok().filter(|it: &Value| it.is_object() || it.is_array());
    value.unwrap_or_else(|| text.into())
}

/// Finds the texts of calls in the order of their records.
///
/// A tool's call is found by the message that the model was last heard to answer with: ids of calls are unique within
/// their message only.
#[derive(Debug)]
pub(crate) struct TextFinder<'a> {
    texts: &'a ConversationTexts,
    /// The index of the last answered call of each place.
    last_answers: BTreeMap<u64, usize>,
    asking: Option<u64>,
}

impl<'a> TextFinder<'a> {
    pub(crate) fn new<'e>(texts: &'a ConversationTexts, entries: impl Iterator<Item = &'e Entry>) -> Self {
        let answers = entries.enumerate().filter_map(|(index, entry)| match entry {
            Entry::Llm(llm) if llm.error.is_none() => Some((llm.answer_position()?, index)),
            _ => None,
        });
        Self { texts, last_answers: answers.collect(), asking: texts.find_continued_calls() }
    }

    pub(crate) fn request_messages(&self, entry: &LlmEntry) -> Vec<Arc<ChatMessage>> {
        self.texts.request_messages(entry)
    }

    /// Returns the text and the tool calls of an answer, if it became a message of the turn.
    pub(crate) fn find_answer(&mut self, index: usize, entry: &LlmEntry) -> Option<(String, Vec<ToolCall>)> {
        let position = entry.answer_position()?;
        if self.last_answers.get(&position) != Some(&index) {
            return None;
        }
        let message = self.texts.find_answer(position, entry.output.as_ref()?)?;
        self.asking = Some(position);
        Some((message.text().into_owned(), message.tool_calls.clone()))
    }

    /// Returns the arguments and the result of a tool's execution.
    pub(crate) fn find_tool_call(&self, entry: &ToolEntry) -> ToolTexts {
        let found = self.asking.zip(entry.tool_call_id.as_deref());
        found.and_then(|(asking, id)| self.texts.find_tool_call(asking, id)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;

    fn model_call(history: (u64, u64, u64), tool_calls: &[&str]) -> LlmEntry {
        let tool_calls = tool_calls.iter().map(|id| ("look".to_owned(), (*id).to_owned())).collect();
        LlmEntry {
            took: 0,
            id: "0:0".into(),
            of: None,
            place: None,
            system: "test".into(),
            model: "test".into(),
            attempt: 0,
            is_reask: false,
            error: None,
            output: Some(LlmOutputEntry { tool_calls, ..LlmOutputEntry::of_nothing() }),
            params: Map::new(),
            prompt: None,
            history: Some(history),
        }
    }

    fn tool_call(id: &str) -> ToolEntry {
        let (name, tool_call_id) = ("look".to_owned(), Some(id.to_owned()));
        ToolEntry {
            took: 0,
            id: "0:0".into(),
            of: None,
            place: None,
            name,
            tool_call_id,
            is_failed: false,
            error_type: None,
        }
    }

    fn calling(id: &str, at: u64) -> ChatMessage {
        let arguments = json!({ "at": at }).as_object().cloned();
        let call = ToolCall { id: id.into(), name: "look".into(), arguments, signature: None };
        ChatMessage { tool_calls: vec![call], ..ChatMessage::assistant("") }
    }

    fn texts(messages: Vec<(u64, ChatMessage)>, read_from: u64, made_from: u64) -> ConversationTexts {
        let messages = messages.into_iter().map(|(place, message)| (place, Arc::new(message)));
        ConversationTexts::new(messages, read_from, made_from)
    }

    #[test]
    fn each_part_that_is_not_known_is_told_by_a_message() {
        let kept = [(12, ChatMessage::user("a")), (15, ChatMessage::user("b"))];
        let texts = texts(kept.to_vec(), 11, 15);
        let shown = texts.request_messages(&model_call((2, 10, 8), &[]));
        let shown: Vec<_> = shown.iter().map(|it| it.text().into_owned()).collect();
        let (unrecorded, left_out) = ("[2 messages are not recorded]", "[1 earlier messages are left out]");
        assert_eq!(shown, [unrecorded, left_out, DELETED, "a", DELETED, "b", DELETED]);
        assert!(texts.request_messages(&model_call((0, u64::MAX, u64::MAX), &[])).is_empty());
    }

    #[test]
    fn an_answer_that_was_made_anew_is_that_of_the_last_call() {
        let texts = texts(vec![(0, ChatMessage::user("a")), (1, ChatMessage::assistant("b"))], 0, 0);
        let call = model_call((0, 0, 1), &[]);
        let entries = [Entry::Llm(Box::new(call.clone())), Entry::Llm(Box::new(call.clone()))];
        let mut finder = TextFinder::new(&texts, entries.iter());
        assert_eq!(finder.find_answer(0, &call), None);
        assert_eq!(finder.find_answer(1, &call), Some(("b".to_owned(), Vec::new())));
        let other = model_call((0, 0, 1), &["c"]);
        assert_eq!(finder.find_answer(1, &other), None, "the message has no such call");
        let earlier = ConversationTexts { made_from: 2, ..texts.clone() };
        let mut finder = TextFinder::new(&earlier, entries.iter());
        assert_eq!(finder.find_answer(1, &call), None, "an earlier turn made it");
    }

    #[test]
    fn a_tools_call_is_found_in_the_message_that_asks_for_it_whatever_its_id() {
        let messages = vec![
            (0, calling("c", 0)),
            (1, ChatMessage::tool("c", "zero")),
            (2, calling("c", 2)),
            (3, ChatMessage::tool("c", r#"{"two":2}"#)),
            (4, ChatMessage::user("c")),
        ];
        let texts = texts(messages, 0, 1);
        let call = model_call((0, 0, 2), &["c"]);
        let entries = [Entry::Tool(Box::new(tool_call("c"))), Entry::Llm(Box::new(call.clone()))];
        let mut finder = TextFinder::new(&texts, entries.iter());
        let found = |finder: &TextFinder<'_>, id| {
            let (arguments, result) = finder.find_tool_call(&tool_call(id));
            (arguments.map(Value::Object), result)
        };
        assert_eq!(found(&finder, "c"), (Some(json!({ "at": 0 })), Some("zero".into())));
        assert!(finder.find_answer(1, &call).is_some());
        assert_eq!(found(&finder, "c"), (Some(json!({ "at": 2 })), Some(json!({ "two": 2 }))));
        assert_eq!(found(&finder, "d"), (None, None));
        assert!(ReferredMessages::of_entries(entries.iter()).continues_calls);
        let referred = ReferredMessages::of_entries(entries[1..].iter());
        assert_eq!(referred, ReferredMessages { first: Some(0), end: 3, continues_calls: false });
    }
}
