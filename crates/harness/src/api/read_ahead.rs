//! The durable events that a listener has, while provisional ones that were published before them may still come.

use std::collections::VecDeque;

use singletree_llm::Role;
use singletree_session::{ChatEvent, ChatEventKind, MessageId, TurnId};

/// How long the id of a tool's call may be to be noted. A model's server chooses it.
const CALL_ID_BYTES_MAX: usize = 256;

/// A durable event behind which provisional ones mean nothing any more.
#[derive(Debug, PartialEq, Eq)]
enum ReadEvent {
    /// The turn has ended.
    End(TurnId),
    /// The message is recorded.
    Message(MessageId),
    /// The result of this call is recorded.
    ToolResult(TurnId, String),
}

/// The newest durable events that a listener was given, most of them out of the log, while provisional events that were
/// published before them may still come, or a state that was taken before: the course of a turn that has ended, the pieces of
/// a message that is recorded, the start of a tool whose result is.
#[derive(Debug)]
pub(crate) struct ReadAhead {
    /// As many as live events can wait.
    max: usize,
    events: VecDeque<ReadEvent>,
}

impl ReadAhead {
    pub(crate) fn new(max: usize) -> Self {
        Self { max: max.max(1), events: VecDeque::new() }
    }

    /// Notes a durable event.
    pub(crate) fn note_event(&mut self, event: &ChatEvent) {
        if event.what.outcome().is_some() {
            return self.note_end(&event.turn);
        }
        let ChatEventKind::MessageAppended { id, message, .. } = &event.what else { return };
        self.push_event(ReadEvent::Message(id.clone()));
        let call = message.tool_call_id.as_ref().filter(|call| call.len() <= CALL_ID_BYTES_MAX);
        if let Some(call) = call.filter(|_| message.role == Role::Tool) {
            self.push_event(ReadEvent::ToolResult(event.turn.clone(), call.clone()));
        }
    }

    /// Notes that the log has the end of a turn.
    pub(crate) fn note_end(&mut self, turn: &TurnId) {
        self.push_event(ReadEvent::End(turn.clone()));
    }

    fn push_event(&mut self, event: ReadEvent) {
        if self.events.len() >= self.max {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    /// Tells whether a durable event was noted behind which this provisional one means nothing.
    pub(crate) fn has_overtaken(&self, event: &ChatEvent) -> bool {
        self.events.iter().any(|read| match (read, &event.what) {
            (ReadEvent::End(turn), _) => *turn == event.turn,
            (
                ReadEvent::Message(message),
                ChatEventKind::Delta { id, .. }
                | ChatEventKind::ThinkingDelta { id, .. }
                | ChatEventKind::MessageTaken { id, .. },
            ) => message == id,
            (
                ReadEvent::ToolResult(turn, of),
                ChatEventKind::ToolStarted { call, .. } | ChatEventKind::ToolFinished { call, .. },
            ) => *turn == event.turn && of == call,
            _ => false,
        })
    }

    /// Forgets everything: all that was published before has come.
    pub(crate) fn clear(&mut self) {
        self.events.clear();
    }
}
