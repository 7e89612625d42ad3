//! Converts chat events to pieces of messages, in an order that streaming protocols can show.
//!
//! A provisional [`ChatEvent`] may come early, late, twice or not at all, and shown text may become void. Most
//! protocols can only append. [`ChatProjection`] bridges the gap: it begins a message before it shows any of its text, shows
//! each piece of text once, shows each call once and before its result, and ends each recorded message with exactly
//! the recorded text. It is pure: events in, pieces out.
//!
//! # Void text
//! A protocol that appends cannot take text back, so the fold retracts text only when it must. When a message is
//! tried again, the fold compares the new text with the shown text. While they are equal it shows nothing; when the
//! new text goes on, it shows the rest. Only if the new text differs, the shown text is void ([`ProjectionPiece::Retract`]),
//! and all of the new text is shown under another name ([`DisplayedMessageId`]): the same message, another attempt. A client
//! that keeps texts by name and drops the void ones has the transcript; so does a client that just fetches the
//! transcript again.

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

use calls::RecentToolCalls;
pub(crate) use mark::MessageStreamPosition;
pub(crate) use piece::{DisplayedMessageId, ProjectionPiece, ToolAnswer};
pub(crate) use thoughts::ThinkingProjection;
pub(crate) use tool_answer::has_call_succeeded;
use way::MessageProjection;

/// The state of one stream: of the events of a session, or of one turn.
#[derive(Debug, Default)]
pub(crate) struct ChatProjection {
    /// The turn whose messages are arriving.
    turn: Option<TurnId>,
    /// All messages of that turn before this position are recorded.
    recorded: u64,
    /// The messages in progress, by their position.
    ways: Vec<MessageProjection>,
    /// The messages that steer which were shown when they were taken, and are not recorded.
    taken: Vec<MessageId>,
    calls: RecentToolCalls,
    /// The time of the last recorded event.
    at: Option<Timestamp>,
    /// The turn that ended last.
    over: Option<TurnId>,
}

impl ChatProjection {
    /// Makes a fold that continues another stream of the same events, after its last recorded event.
    pub(crate) fn resume_from_positions(marks: Vec<MessageStreamPosition>) -> Self {
        let mut ways: Vec<MessageProjection> =
            marks.into_iter().filter_map(MessageProjection::resume_from_position).collect();
        ways.sort_by_key(|way| way.message_id().k);
        let turn = ways.first().map(|way| way.message_id().turn.clone());
        Self { turn, ways, ..Self::default() }
    }

    /// Returns the positions in the messages in progress.
    pub(crate) fn stream_positions(&self) -> Vec<MessageStreamPosition> {
        self.ways.iter().filter_map(MessageProjection::stream_position).collect()
    }

    /// Returns the pieces that an event adds.
    pub(crate) fn apply_event(&mut self, event: &ChatEvent) -> Vec<ProjectionPiece> {
        let mut out = Vec::new();
        if event.id.is_some() {
            self.at = self.at.max(Some(event.at));
        } else if self.is_outdated_event(event) {
            return out;
        }
        match &event.what {
            ChatEventKind::TurnAccepted { message } => {
                let (turn, message) = (event.turn.clone(), message.clone());
                out.push(ProjectionPiece::TurnBegin { turn, message });
            }
            ChatEventKind::Delta { id, .. } => {
                self.enter_turn(&id.turn, &mut out);
                self.apply_delta(&event.what, &mut out);
            }
            ChatEventKind::MessageAppended { id, message, side } => {
                self.enter_turn(&id.turn, &mut out);
                self.apply_recorded_message((id, message, side.as_ref()), &mut out);
            }
            ChatEventKind::MessageTaken { id, message, side } => {
                self.enter_turn(&id.turn, &mut out);
                if id.k >= self.recorded && !self.taken.contains(id) {
                    self.taken.push(id.clone());
                    let (id, message, side) = (id.clone(), message.clone(), Some(side.clone()));
                    out.push(ProjectionPiece::User { id, message, side });
                }
            }
            // The call was shown with the message that makes it. Before that message is recorded, the message of a
            // call is unknown.
            ChatEventKind::ToolStarted { .. } => {}
            // These events change no message; `ThinkingProjection` shows thinking.
            ChatEventKind::TurnStarted
            | ChatEventKind::TurnRestarted
            | ChatEventKind::TurnRetrying { .. }
            | ChatEventKind::ThinkingDelta { .. } => {}
            ChatEventKind::ToolFinished { call, name: _, success, content } => {
                out.extend(self.calls.finish_call(call, *success, content));
            }
            ChatEventKind::SignalReceived { signal, how, wait, .. } => {
                let (turn, signal) = (event.turn.clone(), signal.clone());
                out.push(ProjectionPiece::Signal { turn, signal, wait: *wait, how });
            }
            ChatEventKind::SessionForked { .. } => {}
            ChatEventKind::TurnSuspended { outcome }
            | ChatEventKind::TurnCompleted { outcome }
            | ChatEventKind::TurnErrored { outcome } => {
                // A turn whose message another turn has taken ends during that turn.
                if self.turn.as_ref().is_none_or(|turn| *turn == event.turn) {
                    self.retract_unrecorded(&mut out);
                    self.turn = None;
                    match outcome.as_ref() {
                        // The turn that resumes answers the open calls.
                        ChatTurnOutcome::Suspended(_) => {}
                        ChatTurnOutcome::Completed(_) | ChatTurnOutcome::Errored(_) => {
                            self.calls = RecentToolCalls::default()
                        }
                    }
                }
                self.over = Some(event.turn.clone());
                out.push(ProjectionPiece::TurnEnd { turn: event.turn.clone(), outcome: outcome.clone() });
            }
        }
        out
    }

    /// Checks whether a provisional event is out of date because a later event is recorded.
    fn is_outdated_event(&self, event: &ChatEvent) -> bool {
        if let ChatEventKind::Delta { id, so_far, .. } = &event.what {
            let recorded = self.turn.as_ref() == Some(&id.turn) && id.k < self.recorded;
            return recorded
                || self.over.as_ref() == Some(&id.turn)
                || (!so_far && self.is_before_recorded(event));
        }
        self.over.as_ref() == Some(&event.turn) || self.is_before_recorded(event)
    }

    fn is_before_recorded(&self, event: &ChatEvent) -> bool {
        self.at.is_some_and(|it| event.at < it)
    }

    /// Switches to the turn whose messages are arriving.
    fn enter_turn(&mut self, turn: &TurnId, out: &mut Vec<ProjectionPiece>) {
        if self.turn.as_ref() != Some(turn) {
            self.retract_unrecorded(out);
            self.turn = Some(turn.clone());
            self.recorded = 0;
        }
    }

    /// Retracts the shown text, and the shown messages that steer, that are not recorded and will not be.
    fn retract_unrecorded(&mut self, out: &mut Vec<ProjectionPiece>) {
        out.extend(self.taken.drain(..).map(|id| ProjectionPiece::RetractUser { id }));
        out.extend(self.ways.drain(..).filter_map(MessageProjection::into_retraction));
    }

    fn apply_delta(&mut self, what: &ChatEventKind, out: &mut Vec<ProjectionPiece>) {
        let ChatEventKind::Delta { id, run, n, text, so_far, side, unrecorded } = what else { return };
        let follows = id.k <= self.next_position(id);
        let way = self.find_or_begin_message(id);
        way.set_message_agent(agent_from_side(side.as_ref()));
        if *so_far {
            way.apply_text_so_far((*run, *n), text, follows, out);
        } else {
            way.apply_delta((*run, *n), text, follows || *unrecorded == 0, out);
        }
    }

    /// Returns the position of the turn's next message, as far as it is known: after the recorded messages and the
    /// shown messages in progress. Position 0 of a turn that answers a message is the user's own message, which is
    /// not shown again.
    fn next_position(&self, id: &MessageId) -> u64 {
        let own = u64::from(id.turn.ordinal == 0);
        let shown = self.ways.iter().filter(|way| way.is_shown() && way.message_id() != id);
        shown.fold(self.recorded.max(own), |next, it| if it.message_id().k == next { next + 1 } else { next })
    }

    /// Returns the state of a message on its way.
    fn find_or_begin_message(&mut self, id: &MessageId) -> &mut MessageProjection {
        let at = match self.ways.binary_search_by(|ways| ways.message_id().k.cmp(&id.k)) {
            Ok(at) => at,
            Err(at) => {
                self.ways.insert(at, MessageProjection::new(id.clone()));
                at
            }
        };
        &mut self.ways[at]
    }

    fn apply_recorded_message(
        &mut self,
        (id, message, side): (&MessageId, &std::sync::Arc<ChatMessage>, Option<&Value>),
        out: &mut Vec<ProjectionPiece>,
    ) {
        self.recorded = self.recorded.max(id.k + 1);
        match message.role {
            // It was shown when it was taken.
            Role::User if self.taken.contains(id) => self.taken.retain(|taken| taken != id),
            Role::User => {
                let (id, message, side) = (id.clone(), message.clone(), side.cloned());
                out.push(ProjectionPiece::User { id, message, side });
            }
            Role::Tool => {
                let call = message.tool_call_id.as_deref().unwrap_or_default();
                let (ok, text) = (has_call_succeeded(message, side), message.text());
                out.push(self.calls.record_result(id, (call, ok, &text), agent_from_side(side)));
            }
            // System messages are for models only.
            Role::System => {}
            Role::Assistant => {
                let way = self.find_or_begin_message(id);
                way.apply_recorded_text(&message.text(), agent_from_side(side), out);
                let showing = way.displayed_message_id();
                self.ways.retain(|way| way.message_id() != id);
                out.extend(self.calls.add_recorded_calls(id, &message.tool_calls));
                out.push(ProjectionPiece::End { showing, message: message.clone(), side: side.cloned() });
            }
        }
        // Shows the message that was held back until this record came.
        let (turn, k) = (&id.turn, self.recorded);
        if let Some(next) =
            self.ways.iter_mut().find(|way| way.message_id().turn == *turn && way.message_id().k == k)
        {
            next.release_held_text(out);
        }
    }
}

/// Returns the agent of a message, from its side record (D17).
pub(crate) fn agent_from_side(side: Option<&Value>) -> Option<&str> {
    side?.get("agent")?.as_str()
}
