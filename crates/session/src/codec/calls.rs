//! How far the tool calls of a message came, and closing those that stay open (D7, D8).
//!
//! The node that makes calls records facts that must survive a crash before its commit: the start of a call that
//! changes something, and its result. Code that ends the turn early reads these records: a recorded result becomes the
//! tool message of its call in the history, and only calls without one are closed.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use singletree_graph::{Item, PersistentList};
use singletree_llm::{ChatMessage, ToolCall};

use crate::Result;
use crate::codec::stored::store_corrupt_error;
use crate::history::{item_from_message, locate_open_calls};

/// The facts of a node execution, by name, as the engine keeps them (`Ctx::record`).
pub type Records = BTreeMap<String, Item>;

/// How far the calls of one assistant message came, as the node that makes them recorded it (D7).
///
/// The node records under the names and in the form that this type gives, with
/// `Ctx::record`, and reads its own records back after a crash.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolCallLog {
    begun: BTreeSet<u64>,
    results: BTreeMap<u64, String>,
}

/// One record: of a call that begins, or of one that gave a result.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum ToolCallRecord {
    Begun,
    Gave {
        text: String,
        /// The call that begins with this record's commit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        then: Option<u64>,
    },
}

fn record_name(message: u64, call: u64) -> String {
    format!("call-{message}-{call}")
}

impl ToolCallLog {
    /// Returns the record that a call begins which changes something: the intent, made durable before the call is made.
    /// A turn with such a record has had an effect, however it ends (D29); a call that only reads needs none. `message`
    /// is the position of the assistant message in the history, `call` the index of the call in it.
    #[must_use]
    pub fn intent_record(message: u64, call: u64) -> (String, Item) {
        (record_name(message, call), Item::from_typed(ToolCallRecord::Begun))
    }

    /// Returns the record of the result of such a call: the text of its tool message. `then` is the index of the call
    /// that begins right after it, if any: one record covers both.
    #[must_use]
    pub fn result_record(message: u64, call: u64, text: &str, then: Option<u64>) -> (String, Item) {
        (record_name(message, call), Item::from_typed(ToolCallRecord::Gave { text: text.to_owned(), then }))
    }

    /// Reads the records of the calls of a message.
    ///
    /// # Errors
    /// `store_corrupt`.
    pub fn from_records(records: &BTreeMap<String, Item>, message: u64) -> Result<Self> {
        let mut log = Self::default();
        let prefix = record_name(message, 0);
        let prefix = prefix.trim_end_matches('0');
        for (name, item) in records.iter().filter(|(name, _)| name.starts_with(prefix)) {
            let unreadable = || store_corrupt_error(format!("the record '{name}'"), None);
            let call: u64 = name[prefix.len()..].parse().map_err(|_| unreadable())?;
            let recorded = item.json().map(ToolCallRecord::deserialize).map_err(|_| unreadable())?;
            match recorded.map_err(|_| unreadable())? {
                ToolCallRecord::Begun => drop(log.begun.insert(call)),
                ToolCallRecord::Gave { text, then } => {
                    log.results.insert(call, text);
                    log.begun.extend(then);
                }
            }
        }
        Ok(log)
    }

    /// Returns the position of the message that a record is about, by the record's name.
    pub fn message_of_record(name: &str) -> Option<u64> {
        name.strip_prefix("call-")?.split_once('-')?.0.parse().ok()
    }

    /// Returns the result of a call, if it was recorded.
    #[must_use]
    pub fn find_result(&self, call: u64) -> Option<&str> {
        self.results.get(&call).map(String::as_str)
    }

    /// Tells whether a call had begun whose result was not recorded: whether it had its effect is not known.
    #[must_use]
    pub fn is_in_doubt(&self, call: u64) -> bool {
        self.begun.contains(&call) && !self.results.contains_key(&call)
    }
}

/// Whether an invocation recorded the intent of a call that changes something (D29).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EffectIntent {
    /// No intent was recorded.
    #[default]
    None,
    /// An intent was recorded: the call may have had its effect.
    Intended,
}

impl EffectIntent {
    /// Makes it of the fact that an intent was recorded.
    pub fn from_has_intent(has_intent: bool) -> Self {
        if has_intent { Self::Intended } else { Self::None }
    }

    /// Tells whether an intent was recorded.
    pub fn is_intended(self) -> bool {
        self == Self::Intended
    }
}

/// Tells whether a record is about a call that changes something, which is an effect (D29): that it begins, or its
/// result, which takes the place of that.
pub(crate) fn is_intent_record(name: &str) -> bool {
    ToolCallLog::message_of_record(name).is_some()
}

/// Tells whether any of these records is such a one.
pub fn has_intent_record(records: &Records) -> bool {
    records.keys().any(|name| is_intent_record(name))
}

/// The answer that closes calls without any record.
#[derive(Debug, Clone, Copy)]
pub struct ClosingAnswer<'a> {
    /// The status in the tool message.
    pub status: &'a str,
    /// The reason in the tool message.
    pub reason: &'a str,
}

impl ClosingAnswer<'static> {
    /// The answer to the calls of a cancelled turn.
    pub const CANCELLED: Self = Self { status: "cancelled", reason: "the turn was cancelled" };
}

/// Makes the tool messages that answer the open calls of a history: recorded results, and closing answers for the rest
/// (D8). Records that cannot be read leave their calls in doubt: ending a turn must not fail because of them.
pub fn make_closing_messages(
    list: &PersistentList,
    records: &Records,
    closing: ClosingAnswer<'_>,
) -> Vec<Item> {
    let Some((message, open)) = locate_open_calls(&list.clone().into()) else { return Vec::new() };
    let log = ToolCallLog::from_records(records, message).ok();
    let answer = |(at, call): (u64, ToolCall)| {
        let text = match &log {
            None => format_closing_answer("unknown", "what was recorded of it cannot be read"),
            Some(log) => match (log.find_result(at), log.is_in_doubt(at)) {
                (Some(text), _) => text.to_owned(),
                (None, true) => format_closing_answer(
                    "unknown",
                    "it ran when the turn ended; whether it took effect is not known",
                ),
                (None, false) => format_closing_answer(closing.status, closing.reason),
            },
        };
        item_from_message(ChatMessage::tool(call.id, text))
    };
    open.into_iter().map(answer).collect()
}

/// Makes the tool messages of those open calls of which a result was recorded.
pub(crate) fn make_result_messages(list: &PersistentList, records: &Records) -> Vec<Item> {
    let Some((message, open)) = locate_open_calls(&list.clone().into()) else { return Vec::new() };
    let log = ToolCallLog::from_records(records, message).unwrap_or_default();
    let given = open.into_iter().filter_map(|(at, call)| Some((log.find_result(at)?.to_owned(), call)));
    given.map(|(text, call)| item_from_message(ChatMessage::tool(call.id, text))).collect()
}

fn format_closing_answer(status: &str, reason: &str) -> String {
    serde_json::json!({ "status": status, "reason": reason }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    // D7
    #[test]
    fn what_is_recorded_is_read_back_of_its_own_message_only() {
        let records = [
            ToolCallLog::intent_record(1, 0),
            ToolCallLog::intent_record(10, 0),
            ToolCallLog::result_record(10, 1, "one", Some(2)),
            ToolCallLog::result_record(10, 10, "ten", None),
        ];
        // As the store has them: as text.
        let records: Records =
            records.into_iter().map(|(name, it)| (name, Item::from_text(it.json_text().unwrap()))).collect();
        let log = ToolCallLog::from_records(&records, 10).unwrap();
        let seen: Vec<_> =
            [0, 1, 2, 3, 10].into_iter().map(|item| (log.find_result(item), log.is_in_doubt(item))).collect();
        let none = (None, false);
        assert_eq!(seen, [(None, true), (Some("one"), false), (None, true), none, (Some("ten"), false)]);
        assert!(ToolCallLog::from_records(&records, 1).unwrap().is_in_doubt(0));
        let damaged = Records::from([("call-1-x".to_owned(), Item::from_text("1"))]);
        assert_eq!(ToolCallLog::from_records(&damaged, 1).unwrap_err().category(), "store_corrupt");
        let call = ToolCall::new("c", "send", serde_json::Map::new());
        let asked = [ChatMessage::user("m"), ChatMessage::assistant("").with_tool_calls([call])];
        let asked = PersistentList::new(asked.map(item_from_message));
        let closed = make_closing_messages(&asked, &damaged, ClosingAnswer::CANCELLED);
        let unread = r#"{"reason":"what was recorded of it cannot be read","status":"unknown"}"#;
        assert_eq!(closed[0].decode_shared::<ChatMessage>().unwrap().text(), unread);
    }
}
