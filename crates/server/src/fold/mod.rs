//! Chat events as the pieces of messages that streaming wires show, in an order that they can show.
//!
//! A [`ChatEvent`] may come early, late, twice or not at all where it is provisional, and text that was shown may be taken
//! back. Most wires only append. [`Fold`] stands between: whatever comes in, what comes out begins a message before it says
//! something of it, tells each piece of text once, each call once and before what it gave, and ends what was recorded with
//! exactly the text that was recorded. It is pure: events in, pieces out.
//!
//! # Text that is taken back
//! A wire that appends cannot take text back, so nothing is taken back before it must be: a message that is tried again is
//! compared with what was shown of it, and as long as it says the same nothing is shown; where it goes on, it goes on. Only
//! where it says something else, what was shown is void ([`Piece::Retract`]), and all of the new text is shown under another
//! name ([`Showing`]): the same message, another attempt. Who keeps texts by name and drops those that are void has the
//! transcript; so has, without doing anything, who asks for it anew.

mod calls;
mod mark;
mod piece;
mod thoughts;
mod tool_answer;
mod way;

#[cfg(test)]
pub(crate) mod random;
#[cfg(test)]
mod tests;

use serde_json::Value;
use singletree_durable::Timestamp;
use singletree_harness::{ChatEvent, ChatEventKind, ChatTurnOutcome, MessageId, TurnId};
use singletree_llm::{ChatMessage, Role};

use calls::Calls;
pub(crate) use mark::Mark;
pub(crate) use piece::{Piece, Showing, ToolAnswer};
pub(crate) use thoughts::Thoughts;
pub(crate) use tool_answer::success;
use way::Way;

/// What is known of the stream so far. One for each stream of a session's events, or of one turn's.
#[derive(Debug, Default)]
pub(crate) struct Fold {
    /// The turn whose messages come.
    turn: Option<TurnId>,
    /// Before which of that turn's messages all are recorded.
    recorded: u64,
    /// The messages that are on their way, in the order of their names.
    ways: Vec<Way>,
    calls: Calls,
    /// When the last recorded event was.
    at: Option<Timestamp>,
    /// The turn that ended last.
    over: Option<TurnId>,
}

impl Fold {
    /// Makes a fold that goes on where another stream of the same events has come to, behind its last recorded event.
    pub(crate) fn resumed(marks: Vec<Mark>) -> Self {
        let mut ways: Vec<Way> = marks.into_iter().filter_map(Way::resumed).collect();
        ways.sort_by_key(|way| way.id().k);
        let turn = ways.first().map(|way| way.id().turn.clone());
        Self { turn, ways, ..Self::default() }
    }

    /// Tells how far it has come with the messages on their way.
    pub(crate) fn marks(&self) -> Vec<Mark> {
        self.ways.iter().filter_map(Way::mark).collect()
    }

    /// Returns what an event adds to what is shown.
    pub(crate) fn event(&mut self, event: &ChatEvent) -> Vec<Piece> {
        let mut out = Vec::new();
        if event.id.is_some() {
            self.at = self.at.max(Some(event.at));
        } else if self.is_late(event) {
            return out;
        }
        match &event.what {
            ChatEventKind::TurnAccepted { message } => {
                let (turn, message) = (event.turn.clone(), message.clone());
                out.push(Piece::TurnBegin { turn, message });
            }
            ChatEventKind::Delta { id, .. } => {
                self.enter(&id.turn, &mut out);
                self.delta(&event.what, &mut out);
            }
            ChatEventKind::MessageAppended { id, message, side } => {
                self.enter(&id.turn, &mut out);
                self.record((id, message, side.as_ref()), &mut out);
            }
            // Its call was told with the message that makes it; where that is not recorded yet, nobody can say which one it is.
            ChatEventKind::ToolStarted { .. } => {}
            // These events change no message; `Thoughts` shows thinking.
            ChatEventKind::TurnStarted
            | ChatEventKind::TurnRestarted
            | ChatEventKind::TurnRetrying { .. }
            | ChatEventKind::ThinkingDelta { .. } => {}
            ChatEventKind::ToolFinished { call, name: _, success, content } => {
                out.extend(self.calls.finished(call, *success, content));
            }
            ChatEventKind::SignalReceived { signal, how, wait, .. } => {
                let (turn, signal) = (event.turn.clone(), signal.clone());
                out.push(Piece::Signal { turn, signal, wait: *wait, how });
            }
            ChatEventKind::SessionForked { .. } => {}
            ChatEventKind::TurnSuspended { outcome }
            | ChatEventKind::TurnCompleted { outcome }
            | ChatEventKind::TurnErrored { outcome } => {
                // A turn whose message another one has taken ends beside that one.
                if self.turn.as_ref().is_none_or(|turn| *turn == event.turn) {
                    self.abandon(&mut out);
                    self.turn = None;
                    match outcome.as_ref() {
                        // What waits is answered in the turn that resumes.
                        ChatTurnOutcome::Suspended(_) => {}
                        ChatTurnOutcome::Completed(_) | ChatTurnOutcome::Errored(_) => {
                            self.calls = Calls::default()
                        }
                    }
                }
                self.over = Some(event.turn.clone());
                out.push(Piece::TurnEnd { turn: event.turn.clone(), outcome: outcome.clone() });
            }
        }
        out
    }

    /// Tells whether a provisional event tells of what is over: it was overtaken by what is recorded.
    fn is_late(&self, event: &ChatEvent) -> bool {
        if let ChatEventKind::Delta { id, so_far, .. } = &event.what {
            let recorded = self.turn.as_ref() == Some(&id.turn) && id.k < self.recorded;
            return recorded || self.over.as_ref() == Some(&id.turn) || (!so_far && self.is_before(event));
        }
        self.over.as_ref() == Some(&event.turn) || self.is_before(event)
    }

    fn is_before(&self, event: &ChatEvent) -> bool {
        self.at.is_some_and(|it| event.at < it)
    }

    /// Notes whose messages come now.
    fn enter(&mut self, turn: &TurnId, out: &mut Vec<Piece>) {
        if self.turn.as_ref() != Some(turn) {
            self.abandon(out);
            self.turn = Some(turn.clone());
            self.recorded = 0;
        }
    }

    /// Takes back what was shown of messages that are not recorded and will not be.
    fn abandon(&mut self, out: &mut Vec<Piece>) {
        out.extend(self.ways.drain(..).filter_map(Way::abandon));
    }

    fn delta(&mut self, what: &ChatEventKind, out: &mut Vec<Piece>) {
        let ChatEventKind::Delta { id, run, n, text, so_far, side, unrecorded } = what else { return };
        let follows = id.k <= self.next(id);
        let way = self.way(id);
        way.spoken_by(agent_of(side.as_ref()));
        if *so_far {
            way.so_far((*run, *n), text, follows, out);
        } else {
            way.delta((*run, *n), text, follows || *unrecorded == 0, out);
        }
    }

    /// Returns which message of the turn comes next, as far as that can be known: behind what is recorded, and what is shown on
    /// its way. The first place of a turn that answers a message is the user's own, which is not told again.
    fn next(&self, id: &MessageId) -> u64 {
        let own = u64::from(id.turn.ordinal == 0);
        let shown = self.ways.iter().filter(|way| way.is_shown() && way.id() != id);
        shown.fold(self.recorded.max(own), |next, it| if it.id().k == next { next + 1 } else { next })
    }

    /// Returns the state of a message on its way.
    fn way(&mut self, id: &MessageId) -> &mut Way {
        let at = match self.ways.binary_search_by(|ways| ways.id().k.cmp(&id.k)) {
            Ok(at) => at,
            Err(at) => {
                self.ways.insert(at, Way::new(id.clone()));
                at
            }
        };
        &mut self.ways[at]
    }

    fn record(
        &mut self,
        (id, message, side): (&MessageId, &std::sync::Arc<ChatMessage>, Option<&Value>),
        out: &mut Vec<Piece>,
    ) {
        self.recorded = self.recorded.max(id.k + 1);
        match message.role {
            Role::User => {
                let (id, message, side) = (id.clone(), message.clone(), side.cloned());
                out.push(Piece::User { id, message, side });
            }
            Role::Tool => {
                let call = message.tool_call_id.as_deref().unwrap_or_default();
                let (ok, text) = (success(message, side), message.text());
                out.push(self.calls.recorded(id, (call, ok, &text), agent_of(side)));
            }
            // What sets the stage is for models.
            Role::System => {}
            Role::Assistant => {
                let way = self.way(id);
                way.record(&message.text(), agent_of(side), out);
                let showing = way.showing();
                self.ways.retain(|way| way.id() != id);
                out.extend(self.calls.made(id, &message.tool_calls));
                out.push(Piece::End { showing, message: message.clone(), side: side.cloned() });
            }
        }
        // What had overtaken this message has its turn now.
        let (turn, k) = (&id.turn, self.recorded);
        if let Some(next) = self.ways.iter_mut().find(|way| way.id().turn == *turn && way.id().k == k) {
            next.release(out);
        }
    }
}

/// Returns whose a message is, by what is known beside it (D17).
pub(crate) fn agent_of(side: Option<&Value>) -> Option<&str> {
    side?.get("agent")?.as_str()
}
