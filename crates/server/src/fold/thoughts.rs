//! The thinking of a model as pieces for append-only streams: it is no part of the text of messages (D19).

use singletree_harness::{ChatEvent, ChatEventKind, MessageId};
use singletree_llm::{ChatMessage, ContentBlock, Role};

/// A piece of the model's thinking about a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ThinkingPiece {
    /// The message.
    pub(crate) message: MessageId,
    /// The number of the attempt, from 1: a new attempt at a message makes its earlier thinking void.
    pub(crate) attempt: u32,
    /// The new text; never empty.
    pub(crate) delta: String,
}

impl ThinkingPiece {
    /// Returns the id of the thinking: it differs from the ids of the message and of other attempts.
    pub(crate) fn thinking_id(&self) -> String {
        match self.attempt {
            1 => format!("{}#thinking", self.message),
            attempt => format!("{}~{attempt}#thinking", self.message),
        }
    }
}

/// The state of a model's thinking. One for each stream, beside its [`ChatProjection`](super::ChatProjection); it gets each event before
/// the fold.
#[derive(Debug, Default)]
pub(crate) struct ThinkingProjection {
    /// The messages without a record: the next one may begin before the record of an earlier one comes.
    open: Vec<MessageThinking>,
    /// The last recorded message: pieces of it, or of an earlier one, come too late.
    recorded: Option<MessageId>,
}

#[derive(Debug)]
struct MessageThinking {
    message: MessageId,
    attempt: u32,
    run: u32,
    /// The number of the next piece.
    next: u64,
    /// Whether a piece is missing: then only the whole text so far, or the recorded message, can go on.
    holed: bool,
    shown: String,
}

impl ThinkingProjection {
    /// Returns the new thinking of an event.
    pub(crate) fn apply_event(&mut self, event: &ChatEvent) -> Option<ThinkingPiece> {
        match &event.what {
            ChatEventKind::ThinkingDelta { id, run, n, text, so_far } => {
                if self.is_recorded(id) {
                    return None;
                }
                self.apply_piece(id, (*run, *n, *so_far), text)
            }
            ChatEventKind::MessageAppended { id, message, .. } if message.role == Role::Assistant => {
                let thought = self.find_or_begin_message(id).show_whole_text(&thinking_text(message));
                self.open.retain(|open| open.message.turn != id.turn || open.message.k > id.k);
                self.recorded = Some(id.clone());
                thought
            }
            _ => None,
        }
    }

    fn is_recorded(&self, id: &MessageId) -> bool {
        self.recorded.as_ref().is_some_and(|recorded| recorded.turn == id.turn && id.k <= recorded.k)
    }

    fn find_or_begin_message(&mut self, id: &MessageId) -> &mut MessageThinking {
        let at = match self.open.iter().position(|open| open.message == *id) {
            Some(at) => at,
            None => {
                self.open.push(MessageThinking {
                    message: id.clone(),
                    attempt: 1,
                    run: 0,
                    next: 0,
                    holed: false,
                    shown: String::new(),
                });
                self.open.len() - 1
            }
        };
        &mut self.open[at]
    }

    fn apply_piece(
        &mut self,
        id: &MessageId,
        (run, n, so_far): (u32, u64, bool),
        text: &str,
    ) -> Option<ThinkingPiece> {
        let thinking = self.find_or_begin_message(id);
        if run < thinking.run || (run == thinking.run && n < thinking.next && !thinking.holed) {
            return None;
        }
        if run > thinking.run {
            if !thinking.shown.is_empty() {
                thinking.attempt = thinking.attempt.saturating_add(1);
                thinking.shown.clear();
            }
            (thinking.run, thinking.next, thinking.holed) = (run, 0, false);
        }
        if so_far {
            (thinking.next, thinking.holed) = (n + 1, false);
            return thinking.show_whole_text(text);
        }
        thinking.holed |= n != thinking.next;
        if thinking.holed {
            return None;
        }
        thinking.next = n + 1;
        thinking.show_text(text)
    }
}

impl MessageThinking {
    fn show_text(&mut self, text: &str) -> Option<ThinkingPiece> {
        self.shown.push_str(text);
        let (message, attempt) = (self.message.clone(), self.attempt);
        (!text.is_empty()).then(|| ThinkingPiece { message, attempt, delta: text.to_owned() })
    }

    /// Takes the whole text so far and shows its rest; if other text was shown, shows all of it as a new attempt.
    fn show_whole_text(&mut self, text: &str) -> Option<ThinkingPiece> {
        match text.strip_prefix(self.shown.as_str()) {
            Some(rest) => self.show_text(rest),
            // A recorded message without thinking takes none back.
            None if text.is_empty() => None,
            None => {
                self.attempt = self.attempt.saturating_add(1);
                self.shown.clear();
                self.show_text(text)
            }
        }
    }
}

/// Returns the thinking in a recorded message.
fn thinking_text(message: &ChatMessage) -> String {
    let thoughts = message.content.blocks().iter().filter_map(|block| match block {
        ContentBlock::Thinking { text, .. } => Some(text.as_str()),
        ContentBlock::Text { .. } | ContentBlock::Image { .. } | ContentBlock::RedactedThinking { .. } => {
            None
        }
    });
    thoughts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use singletree_durable::{InvocationId, SessionId, Timestamp};
    use singletree_harness::TurnId;
    use singletree_llm::MessageContent;

    fn id(k: u64) -> MessageId {
        MessageId { turn: TurnId::new(InvocationId::parse("i").unwrap(), 0), k }
    }

    fn event(what: ChatEventKind) -> ChatEvent {
        let (session, turn) = (SessionId::parse("s").unwrap(), id(0).turn);
        ChatEvent { id: None, session, turn, at: Timestamp::from_millis(0), what }
    }

    fn delta(run: u32, n: u64, text: &str, so_far: bool) -> ChatEvent {
        event(ChatEventKind::ThinkingDelta { id: id(1), run, n, text: text.into(), so_far })
    }

    fn recorded(text: &str) -> ChatEvent {
        recorded_of(1, text)
    }

    fn recorded_of(k: u64, text: &str) -> ChatEvent {
        let block = ContentBlock::Thinking { text: text.into(), signature: None };
        let message =
            ChatMessage { content: MessageContent::Blocks(vec![block]), ..ChatMessage::assistant("") };
        event(ChatEventKind::MessageAppended { id: id(k), message: Arc::new(message), side: None })
    }

    fn told(events: &[ChatEvent]) -> Vec<(u32, String)> {
        let mut thoughts = ThinkingProjection::default();
        let told = events.iter().filter_map(|event| thoughts.apply_event(event));
        told.map(|thought| (thought.attempt, thought.delta)).collect()
    }

    fn of(expected: &[(u32, &str)]) -> Vec<(u32, String)> {
        expected.iter().map(|(attempt, text)| (*attempt, (*text).to_owned())).collect()
    }

    // W10
    #[test]
    fn each_piece_is_told_once_and_the_record_tells_the_rest() {
        let pieces = [delta(1, 0, "so", false), delta(1, 1, " and", false), delta(1, 1, " and", false)];
        assert_eq!(told(&pieces), of(&[(1, "so"), (1, " and")]));
        let late = [delta(1, 4, "so and so", true), delta(1, 3, "so", false), delta(1, 5, "!", false)];
        assert_eq!(told(&late), of(&[(1, "so and so"), (1, "!")]));
        let holed = [delta(1, 0, "so", false), delta(1, 2, " so", false), recorded("so and so")];
        assert_eq!(told(&holed), of(&[(1, "so"), (1, " and so")]));
        assert_eq!(told(&[recorded("so")]), of(&[(1, "so")]));
    }

    #[test]
    fn a_record_that_comes_behind_the_next_message_repeats_nothing() {
        let first = |k: u64, text: &str| {
            let text = text.into();
            event(ChatEventKind::ThinkingDelta { id: id(k), run: 1, n: 0, text, so_far: false })
        };
        let overtaken = [first(1, "so"), first(2, "no"), recorded_of(1, "so"), recorded_of(2, "no")];
        assert_eq!(told(&overtaken), of(&[(1, "so"), (1, "no")]));
        let late = [recorded_of(1, "so"), delta(1, 0, "so", true), delta(1, 0, "so", false)];
        assert_eq!(told(&late), of(&[(1, "so")]));
    }

    #[test]
    fn what_is_thought_again_has_another_name() {
        let again = [delta(1, 0, "so", false), delta(2, 0, "no", false), recorded("no")];
        assert_eq!(told(&again), of(&[(1, "so"), (2, "no")]));
        let other = [delta(1, 0, "so", false), recorded("else")];
        assert_eq!(told(&other), of(&[(1, "so"), (2, "else")]));
    }
}
