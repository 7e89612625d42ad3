//! What a listener has heard of a session, and the rules for what it may hear next.

use std::collections::{BTreeMap, BTreeSet};

use singletree_harness::{ChatEvent, ChatEventId, ChatEventKind, MessageId, TurnId};

/// The text of a message that is on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
struct TextSoFar {
    run: u32,
    /// The number of the last piece.
    n: u64,
    text: String,
}

/// What a listener has heard.
#[derive(Debug, Default)]
pub(super) struct HeardEvents {
    last: Option<ChatEventId>,
    /// The turns whose ends were heard.
    ended: BTreeSet<TurnId>,
    /// The messages that were appended by turns whose ends were not heard.
    appended: BTreeSet<MessageId>,
    /// The turns of which something provisional was heard over this connection.
    shown: BTreeSet<TurnId>,
    /// The texts that are on their way over this connection.
    texts: BTreeMap<MessageId, TextSoFar>,
}

impl HeardEvents {
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
    pub(super) fn check_event(&mut self, event: &ChatEvent) -> Option<String> {
        match &event.id {
            Some(id) => self.check_durable_event(id, event),
            None => self.check_provisional_event(event),
        }
    }

    fn check_durable_event(&mut self, id: &ChatEventId, event: &ChatEvent) -> Option<String> {
        let (kind, turn) = (event.what.as_str(), &event.turn);
        let former = self.last.replace(id.clone());
        if let Some(former) = former.filter(|former| former.seq >= id.seq) {
            return Some(format!("heard event {} after event {}", id.seq, former.seq));
        }
        if event.what.begins_turn() && self.shown.contains(turn) {
            return Some(format!("heard how far turn {turn} is before {kind} {}", id.seq));
        }
        if event.what.outcome().is_some() {
            self.ended.insert(turn.clone());
            self.texts.retain(|id, _| id.turn != *turn);
            self.appended.retain(|id| id.turn != *turn);
        }
        if let ChatEventKind::MessageAppended { id: message, message: content, .. } = &event.what {
            self.appended.insert(message.clone());
            let text = self.texts.remove(message)?;
            // The last pieces may be missed by who reads slowly.
            if !content.text().starts_with(&text.text) {
                return Some(format!(
                    "heard {text:?} of message {message}, which was appended as {content:?}"
                ));
            }
        }
        None
    }

    fn check_provisional_event(&mut self, event: &ChatEvent) -> Option<String> {
        let (kind, turn) = (event.what.as_str(), &event.turn);
        if self.ended.contains(turn) {
            return Some(format!("heard {kind} of turn {turn} after its end"));
        }
        self.shown.insert(turn.clone());
        match &event.what {
            ChatEventKind::TurnRestarted => self.texts.retain(|id, _| id.turn != *turn),
            ChatEventKind::Delta { id, run, n, text, so_far, .. } => {
                return self.check_piece(id, (*run, *n), text, *so_far);
            }
            _ => {}
        }
        None
    }

    /// Takes a piece of a text.
    fn check_piece(
        &mut self,
        id: &MessageId,
        (run, n): (u32, u64),
        text: &str,
        so_far: bool,
    ) -> Option<String> {
        if self.appended.contains(id) {
            return Some(format!("heard piece {run}.{n} of message {id} after the message"));
        }
        let former = self.texts.remove(id);
        let place = former.as_ref().map(|former| (former.run, former.n));
        let begins = so_far || (n == 0 && place.is_none_or(|(of, _)| of < run));
        let continues = !so_far && place.is_some_and(|place| (run, n) == (place.0, place.1 + 1));
        let begun = former.filter(|_| continues).map(|former| former.text).unwrap_or_default();
        self.texts.insert(id.clone(), TextSoFar { run, n, text: begun + text });
        let refusal = || format!("heard piece {run}.{n} of message {id} after {place:?}");
        (!begins && !continues).then(refusal)
    }
}
