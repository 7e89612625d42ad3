//! A window on a history: its last messages, from the beginning of a turn on (D22).

use std::collections::BTreeSet;
use std::num::NonZeroU64;

use singletree_graph::PersistentList;
use singletree_llm::Role;

use crate::Error;
use crate::codec::record;

/// How much of a history is held: at least this many messages, and before them the rest of the first one's turn.
///
/// A window begins with a message of the user behind which no earlier call is answered, so that it never holds half a
/// tool call, which no provider accepts (INV-6). In a history that the harness made, every message of the user is such
/// a one; in an imported history some may not be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryWindow(NonZeroU64);

impl HistoryWindow {
    /// A window of no message is one of a single message: without it there is nothing to answer.
    pub fn new(messages: u64) -> Self {
        Self(NonZeroU64::new(messages).unwrap_or(NonZeroU64::MIN))
    }

    /// Returns how many messages it holds at least.
    #[must_use]
    pub fn min_messages(self) -> u64 {
        self.0.get()
    }

    /// Finds where the window on a list begins; none when that is not held, or when none can begin there or before.
    pub fn find_start(self, list: &PersistentList) -> Result<Option<u64>, Error> {
        let latest = list.len().saturating_sub(self.0.get());
        // Answers whose calls were not seen yet.
        let mut answered = BTreeSet::new();
        for (behind, item) in (1..).zip(list.iter_from(list.first_held_position()).rev()) {
            let (position, message) = (list.len() - behind, record::decode_message(item)?);
            if position <= latest && message.role == Role::User && answered.is_empty() {
                return Ok(Some(position));
            }
            for call in &message.tool_calls {
                answered.remove(&call.id);
            }
            answered.extend(message.tool_call_id.clone());
        }
        Ok(None)
    }

    /// Tells whether a list holds the window.
    pub(crate) fn is_held_by(self, list: &PersistentList) -> Result<bool, Error> {
        Ok(list.first_held_position() == 0 || self.find_start(list)?.is_some())
    }

    /// Returns a list that holds no more than the window.
    pub fn cut_list(self, list: &PersistentList) -> Result<PersistentList, Error> {
        Ok(match self.find_start(list)?.filter(|start| *start > list.first_held_position()) {
            Some(start) => PersistentList::from_window(start, list.iter_from(start).cloned()),
            None => list.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use singletree_llm::{ChatMessage, ToolCall, validate_messages};

    use super::*;
    use crate::history::item_from_message;

    /// Messages of the user at 0, 3, 6, …, two answers after each; held from `first` on.
    fn list(first: u64, len: u64) -> PersistentList {
        let message = |at: u64| match at % 3 {
            0 => ChatMessage::user("ask"),
            _ => ChatMessage::assistant("answer"),
        };
        PersistentList::from_window(first, (first..len).map(message).map(item_from_message))
    }

    #[test]
    fn a_window_begins_with_the_last_message_of_the_user_that_leaves_it_wide_enough() {
        let start =
            |first, len, messages| HistoryWindow::new(messages).find_start(&list(first, len)).unwrap();
        assert_eq!(start(0, 9, 3), Some(6));
        assert_eq!(start(0, 9, 4), Some(3));
        assert_eq!(start(0, 9, 1), Some(6));
        assert_eq!(start(0, 9, 0), Some(6), "a window is never empty");
        assert_eq!(start(0, 9, 9), Some(0));
        assert_eq!(start(0, 9, 90), Some(0));
        assert_eq!(start(5, 9, 4), None, "position 3 is not held");
        assert_eq!(start(0, 0, 4), None, "there is nothing");
    }

    #[test]
    fn a_list_that_holds_less_than_the_window_must_be_read_again() {
        let held = |first, messages| HistoryWindow::new(messages).is_held_by(&list(first, 9)).unwrap();
        assert_eq!([held(0, 90), held(3, 4), held(4, 4), held(5, 3)], [true, true, false, true]);
    }

    proptest::proptest! {
        // INV-6, D22: whatever a history holds that a provider takes as a whole, it takes any window on it.
        #[test]
        fn any_window_on_any_history_that_is_legal_is_legal(steps in proptest::collection::vec(0_u8..7, 0..40), width in 0_u64..45) {
            let mut messages: Vec<ChatMessage> = vec![ChatMessage::user("first")];
            let mut open: Vec<String> = Vec::new();
            for (no, step) in steps.into_iter().enumerate() {
                // Ids come again, as with providers that count from 0; calls stay open past other messages.
                let id = format!("c{}", no % 3);
                match step {
                    0 => messages.push(ChatMessage::user("ask")),
                    1 => messages.push(ChatMessage::assistant("answer")),
                    2 | 3 => {
                        let calls = [ToolCall::new(&id, "t", serde_json::Map::new()), ToolCall::new("d", "t", serde_json::Map::new())];
                        messages.push(ChatMessage::assistant("").with_tool_calls(calls));
                        open = vec![id, "d".to_owned()];
                    }
                    _ => messages.extend(open.pop().map(|item| ChatMessage::tool(item, "done"))),
                }
            }
            messages.push(ChatMessage::user("last"));
            proptest::prop_assert!(validate_messages(&messages).is_ok());
            let list = PersistentList::new(messages.iter().cloned().map(item_from_message));
            let start = HistoryWindow::new(width).find_start(&list).unwrap().unwrap();
            let window = &messages[usize::try_from(start).unwrap()..];
            proptest::prop_assert_eq!(window[0].role, Role::User);
            proptest::prop_assert!(window.len() as u64 >= width.min(messages.len() as u64));
            proptest::prop_assert!(validate_messages(window).is_ok(), "{window:?}");
        }
    }

    #[test]
    fn cutting_keeps_positions_and_forgets_what_is_before_the_window() {
        let cut = HistoryWindow::new(4).cut_list(&list(0, 9)).unwrap();
        assert_eq!((cut.first_held_position(), cut.len(), cut.iter().len()), (3, 9, 6));
    }
}
