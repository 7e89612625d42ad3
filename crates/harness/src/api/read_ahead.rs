//! The part of the log that a listener has read before the live events of it have come.

use std::collections::VecDeque;

use singletree_llm::Role;
use singletree_session::{ChatEvent, ChatEventKind, MessageId, TurnId};

/// An event of the log behind which live events mean nothing any more.
#[derive(Debug, PartialEq, Eq)]
enum ReadEvent {
    /// The turn has ended.
    End(TurnId),
    /// The message is recorded.
    Message(MessageId),
    /// The result of this call is recorded.
    ToolResult(TurnId, String),
}

/// The newest events that were read in the log, while live events that were published before them may still come: the
/// course of a turn that has ended, the pieces of a message that is recorded, the start of a tool whose result is.
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

    /// Notes an event of the log.
    pub(crate) fn note_event(&mut self, event: &ChatEvent) {
        if event.what.outcome().is_some() {
            return self.note_end(&event.turn);
        }
        let ChatEventKind::MessageAppended { id, message, .. } = &event.what else { return };
        self.push_event(ReadEvent::Message(id.clone()));
        if let Some(call) = message.tool_call_id.as_ref().filter(|_| message.role == Role::Tool) {
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

    /// Tells whether a live event was overtaken by the log.
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

    /// Forgets everything: all live events that were published before have come.
    pub(crate) fn clear(&mut self) {
        self.events.clear();
    }
}
