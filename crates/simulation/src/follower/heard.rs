//! The events of a session that a listener has heard, and the rules for the next one.

use std::collections::{BTreeMap, BTreeSet};

use singletree_harness::{ChatEvent, ChatEventId, ChatEventKind};
use singletree_llm::Role;
use singletree_protocol::native;

/// An event as the rules see it, however it was heard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HeardEvent {
    /// The name of a durable event.
    pub(super) id: Option<ChatEventId>,
    turn: String,
    kind: HeardKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum HeardKind {
    /// The turn was accepted.
    Accepted,
    /// The turn runs again: everything that it has shown is taken back.
    Restarted,
    /// A message was recorded.
    Message {
        id: String,
        text: String,
        /// Whether it is the agent's, as the pieces are.
        is_reply: bool,
        /// The call whose result it is.
        result_of: Option<String>,
    },
    /// A piece of a message that is on its way, or of the model's thinking before it.
    Piece {
        is_thinking: bool,
        id: String,
        place: (u32, u64),
        text: String,
        so_far: bool,
    },
    /// A call of a tool has begun or ended, and its result is not recorded yet.
    Tool {
        call: String,
    },
    /// The turn has taken a message that steers it, which is not recorded yet.
    Taken {
        id: String,
    },
    /// The turn has ended.
    Ended,
    Other,
}

impl From<&ChatEvent> for HeardEvent {
    fn from(event: &ChatEvent) -> Self {
        let kind = match &event.what {
            ChatEventKind::TurnAccepted { .. } => HeardKind::Accepted,
            ChatEventKind::TurnRestarted => HeardKind::Restarted,
            ChatEventKind::MessageAppended { id, message, .. } => {
                let is_reply = message.role == Role::Assistant;
                let (id, text) = (id.to_string(), message.text().into_owned());
                HeardKind::Message { id, text, is_reply, result_of: message.tool_call_id.clone() }
            }
            ChatEventKind::Delta { id, run, n, text, so_far, .. }
            | ChatEventKind::ThinkingDelta { id, run, n, text, so_far } => HeardKind::Piece {
                is_thinking: matches!(event.what, ChatEventKind::ThinkingDelta { .. }),
                id: id.to_string(),
                place: (*run, *n),
                text: text.clone(),
                so_far: *so_far,
            },
            ChatEventKind::ToolStarted { call, .. } | ChatEventKind::ToolFinished { call, .. } => {
                HeardKind::Tool { call: call.clone() }
            }
            ChatEventKind::MessageTaken { id, .. } => HeardKind::Taken { id: id.to_string() },
            what if what.outcome().is_some() => HeardKind::Ended,
            _ => HeardKind::Other,
        };
        Self { id: event.id.clone(), turn: event.turn.to_string(), kind }
    }
}

impl From<&native::Event> for HeardEvent {
    fn from(event: &native::Event) -> Self {
        let kind = match &event.what {
            native::EventKind::TurnAccepted { .. } => HeardKind::Accepted,
            native::EventKind::TurnRestarted {} => HeardKind::Restarted,
            native::EventKind::MessageAppended { message_id, message, .. } => {
                let is_reply = message.role == native::Role::Assistant;
                let (id, text) = (message_id.clone(), message.content.text());
                HeardKind::Message { id, text, is_reply, result_of: message.tool_call_id.clone() }
            }
            native::EventKind::Delta { message_id, run, n, text, so_far, .. }
            | native::EventKind::ThinkingDelta { message_id, run, n, text, so_far, .. } => HeardKind::Piece {
                is_thinking: matches!(event.what, native::EventKind::ThinkingDelta { .. }),
                id: message_id.clone(),
                place: (*run, *n),
                text: text.clone(),
                so_far: *so_far,
            },
            native::EventKind::ToolStarted { call, .. } | native::EventKind::ToolFinished { call, .. } => {
                HeardKind::Tool { call: call.clone() }
            }
            native::EventKind::MessageTaken { message_id, .. } => HeardKind::Taken { id: message_id.clone() },
            native::EventKind::TurnCompleted { .. }
            | native::EventKind::TurnSuspended { .. }
            | native::EventKind::TurnErrored { .. } => HeardKind::Ended,
            _ => HeardKind::Other,
        };
        let id = event.id.as_deref().and_then(|id| id.parse().ok());
        Self { id, turn: event.turn.clone(), kind }
    }
}

impl HeardEvent {
    /// Tells whether it is a text so far, as a listener gets it that comes while a message is on its way.
    pub(super) fn is_text_so_far(&self) -> bool {
        matches!(self.kind, HeardKind::Piece { so_far: true, is_thinking: false, .. })
    }

    /// Tells whether it is a piece of the model's thinking.
    pub(super) fn is_thinking(&self) -> bool {
        matches!(self.kind, HeardKind::Piece { is_thinking: true, .. })
    }

    /// Tells whether it tells of a message that steers and is not recorded yet.
    pub(super) fn is_message_taken(&self) -> bool {
        matches!(self.kind, HeardKind::Taken { .. })
    }
}

/// The text of a message that is on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
struct TextSoFar {
    turn: String,
    /// The run and the number of the last piece.
    place: (u32, u64),
    text: String,
}

/// The name of a text in pieces: whether it is thinking, and the message.
type PieceName = (bool, String);

/// What a listener has heard.
#[derive(Debug, Default)]
pub(super) struct HeardEvents {
    /// Whether the model answers each attempt in its own words. Then the pieces of an attempt may have nothing of the recorded
    /// message: the attempt behind it had no text, or pieces that were missed.
    has_changing_texts: bool,
    last: Option<ChatEventId>,
    /// The turns whose ends were heard.
    ended: BTreeSet<String>,
    /// The messages that were recorded.
    recorded: BTreeSet<String>,
    /// The calls whose results were recorded, by turn.
    results: BTreeSet<(String, String)>,
    /// The turns of which something provisional was heard over this connection.
    shown: BTreeSet<String>,
    /// The texts that are on their way over this connection, and the thinking, by message.
    texts: BTreeMap<PieceName, TextSoFar>,
}

impl HeardEvents {
    pub(super) fn new(has_changing_texts: bool) -> Self {
        Self { has_changing_texts, ..Self::default() }
    }

    /// Returns the name of the last durable event.
    pub(super) fn last(&self) -> Option<&ChatEventId> {
        self.last.as_ref()
    }

    /// Begins to listen anew, after the last durable event: provisional events are told from the start, or not at all.
    pub(super) fn begin_connection(&mut self) {
        self.shown.clear();
        self.texts.clear();
    }

    /// Takes an event; says why it must not come now, if so.
    pub(super) fn check_event(&mut self, event: &HeardEvent) -> Option<String> {
        match &event.id {
            Some(id) => self.check_durable_event(id, event),
            None => self.check_provisional_event(event),
        }
    }

    fn check_durable_event(&mut self, id: &ChatEventId, event: &HeardEvent) -> Option<String> {
        let turn = &event.turn;
        let former = self.last.replace(id.clone());
        if let Some(former) = former.filter(|former| former.seq >= id.seq) {
            return Some(format!("heard event {} after event {}", id.seq, former.seq));
        }
        match &event.kind {
            HeardKind::Accepted if self.shown.contains(turn) => {
                return Some(format!(
                    "heard how far turn {turn} is before it was accepted, by event {}",
                    id.seq
                ));
            }
            HeardKind::Ended => {
                self.ended.insert(turn.clone());
                self.texts.retain(|_, text| text.turn != *turn);
            }
            HeardKind::Message { id: message, text, is_reply, result_of } => {
                self.recorded.insert(message.clone());
                self.results.extend(result_of.iter().map(|call| (turn.clone(), call.clone())));
                self.texts.remove(&(true, message.clone()));
                let heard = self.texts.remove(&(false, message.clone()))?.text;
                // The last pieces may be missed by who reads slowly. Where another process goes on with the turn, a message
                // that steers it may come first, in the place of the reply that the pieces are of.
                if !self.has_changing_texts && *is_reply && !text.starts_with(&heard) {
                    return Some(format!(
                        "heard {heard:?} of message {message}, which was recorded as {text:?}"
                    ));
                }
            }
            _ => {}
        }
        None
    }

    fn check_provisional_event(&mut self, event: &HeardEvent) -> Option<String> {
        let HeardEvent { turn, kind, .. } = event;
        if self.ended.contains(turn) {
            return Some(format!("heard {kind:?} of turn {turn} after its end"));
        }
        self.shown.insert(turn.clone());
        match kind {
            HeardKind::Restarted => self.texts.retain(|_, text| text.turn != *turn),
            HeardKind::Piece { is_thinking, id, place, text, so_far } => {
                let piece = TextSoFar { turn: turn.clone(), place: *place, text: text.clone() };
                return self.check_piece((*is_thinking, id.clone()), piece, *so_far);
            }
            // The names of calls are the model's: only those of the script are never used twice.
            HeardKind::Tool { call }
                if !self.has_changing_texts && self.results.contains(&(turn.clone(), call.clone())) =>
            {
                return Some(format!("heard of call {call} of turn {turn} after its result"));
            }
            HeardKind::Taken { id } if self.recorded.contains(id) => {
                return Some(format!("heard that message {id} was taken, after the message"));
            }
            _ => {}
        }
        None
    }

    /// Takes a piece of a text.
    fn check_piece(&mut self, name: PieceName, piece: TextSoFar, so_far: bool) -> Option<String> {
        let (run, n) = piece.place;
        let what = format!("{} {run}.{n} of message {}", if name.0 { "thought" } else { "piece" }, name.1);
        if self.recorded.contains(&name.1) {
            return Some(format!("heard {what} after the message"));
        }
        let former = self.texts.remove(&name);
        let place = former.as_ref().map(|former| former.place);
        let begins = so_far || (n == 0 && place.is_none_or(|(of, _)| of < run));
        let continues = !so_far && place.is_some_and(|(of, last)| (run, n) == (of, last + 1));
        let begun = former.filter(|_| continues).map(|former| former.text).unwrap_or_default();
        self.texts.insert(name, TextSoFar { text: begun + &piece.text, ..piece });
        (!begins && !continues).then(|| format!("heard {what} after {place:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn durable(seq: u64, kind: HeardKind) -> HeardEvent {
        let id = Some(ChatEventId { epoch: "e".to_owned(), seq });
        HeardEvent { id, turn: "t".to_owned(), kind }
    }

    fn provisional(kind: HeardKind) -> HeardEvent {
        HeardEvent { id: None, turn: "t".to_owned(), kind }
    }

    fn piece(place: (u32, u64), text: &str, so_far: bool) -> HeardEvent {
        let (id, text) = ("m".to_owned(), text.to_owned());
        provisional(HeardKind::Piece { is_thinking: false, id, place, text, so_far })
    }

    fn thought(place: (u32, u64)) -> HeardEvent {
        let (id, text) = ("m".to_owned(), "Hm.".to_owned());
        provisional(HeardKind::Piece { is_thinking: true, id, place, text, so_far: false })
    }

    fn tool() -> HeardEvent {
        provisional(HeardKind::Tool { call: "c".to_owned() })
    }

    fn message(seq: u64, text: &str) -> HeardEvent {
        let (id, text) = ("m".to_owned(), text.to_owned());
        durable(seq, HeardKind::Message { id, text, is_reply: true, result_of: None })
    }

    fn result(seq: u64) -> HeardEvent {
        let (id, result_of) = ("r".to_owned(), Some("c".to_owned()));
        durable(seq, HeardKind::Message { id, text: String::new(), is_reply: false, result_of })
    }

    /// Returns the refusal of the last of these events; none of the others may be refused.
    fn refusal_of_last(events: &[HeardEvent]) -> Option<String> {
        let mut heard = HeardEvents::default();
        let (last, before) = events.split_last()?;
        for event in before {
            assert_eq!(heard.check_event(event), None, "{event:?}");
        }
        heard.check_event(last)
    }

    #[test]
    fn what_a_listener_may_hear_is_not_refused() {
        let course = [
            durable(0, HeardKind::Accepted),
            tool(),
            result(1),
            thought((1, 0)),
            thought((1, 1)),
            piece((1, 0), "a", false),
            piece((1, 1), "b", false),
            piece((2, 0), "c", false),
            piece((2, 4), "cd", true),
            piece((2, 5), "e", false),
            message(3, "cdef"),
            durable(4, HeardKind::Ended),
        ];
        assert_eq!(refusal_of_last(&course), None);
        let restarted =
            [piece((1, 3), "ab", true), provisional(HeardKind::Restarted), piece((1, 0), "c", false)];
        assert_eq!(refusal_of_last(&restarted), None);
    }

    #[test]
    fn everything_else_is_refused() {
        let taken = || provisional(HeardKind::Taken { id: "m".to_owned() });
        let wrong: [&[HeardEvent]; 12] = [
            &[durable(1, HeardKind::Accepted), durable(1, HeardKind::Other)],
            &[durable(2, HeardKind::Accepted), durable(1, HeardKind::Other)],
            &[provisional(HeardKind::Other), durable(0, HeardKind::Accepted)],
            &[durable(0, HeardKind::Ended), provisional(HeardKind::Other)],
            &[message(0, "a"), piece((1, 0), "a", false)],
            &[piece((1, 0), "a", false), piece((1, 2), "c", false)],
            &[piece((2, 0), "a", false), piece((1, 1), "b", false)],
            &[piece((1, 0), "a", false), message(0, "b")],
            &[thought((1, 0)), thought((1, 2))],
            &[message(0, "a"), thought((1, 0))],
            &[tool(), result(0), tool()],
            &[taken(), message(0, "a"), taken()],
        ];
        for events in wrong {
            assert!(refusal_of_last(events).is_some(), "{events:?}");
        }
    }
}
