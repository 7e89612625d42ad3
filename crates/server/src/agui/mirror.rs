//! What the client has: compared with the transcript, and made the same where it is not (D16).

use std::collections::BTreeSet;

use singletree_protocol::agui::{Content, Event, Held, KnownPart, Message, Part};

/// What the client has of the conversation, as far as can be known here: the ids of its messages, in its order.
///
/// A client takes a snapshot so: of what it has, it keeps what the snapshot names, where it stands; what it did not have, it
/// puts behind that. So one snapshot does not put things in order; one that names only what stands right, and then all, does.
#[derive(Debug, Default)]
pub(super) struct Mirror {
    ids: Vec<String>,
}

impl Mirror {
    /// Looks at what a client posted.
    pub(super) fn of(posted: &[Held]) -> Self {
        let ids = kept_by_us(posted).map(|kept_by_us| kept_by_us.id().unwrap_or_default().to_owned());
        Self { ids: ids.collect() }
    }

    /// Notes that the client has made a message of what it was told.
    pub(super) fn add(&mut self, id: &str) {
        if !self.ids.iter().any(|it| it == id) {
            self.ids.push(id.to_owned());
        }
    }

    /// Tells whether the client has exactly these messages; or, where they are only the last ones, whether it has them last.
    pub(super) fn has(&self, messages: &[Message], all: bool) -> bool {
        let Some(before) = self.ids.len().checked_sub(messages.len()) else { return false };
        (before == 0 || !all) && self.ids[before..].iter().zip(messages).all(|(has, it)| has == it.id())
    }

    /// Returns what makes the client have exactly these messages.
    pub(super) fn restate(&mut self, messages: Vec<Message>) -> Vec<Event> {
        let wanted: Vec<_> = messages.iter().map(|message| message.id().to_owned()).collect();
        let after = self.after(&wanted);
        let right = self.ids.iter().zip(&wanted).take_while(|(has, wanted)| has == wanted).count();
        let mut events = Vec::new();
        if after != wanted {
            // What stands twice is only got rid of with all there is.
            let right = if self.has_twice() { 0 } else { right };
            events.push(Event::MessagesSnapshot { messages: messages[..right].to_vec() });
        }
        self.ids = wanted;
        events.push(Event::MessagesSnapshot { messages });
        events
    }

    /// Returns what a client has after one snapshot.
    fn after(&self, wanted: &[String]) -> Vec<String> {
        let (has, wants): (BTreeSet<_>, BTreeSet<_>) = (self.ids.iter().collect(), wanted.iter().collect());
        let kept = self.ids.iter().filter(|id| wants.contains(id));
        kept.chain(wanted.iter().filter(|it| !has.contains(it))).cloned().collect()
    }

    fn has_twice(&self) -> bool {
        let mut seen = BTreeSet::new();
        !self.ids.iter().all(|id| seen.insert(id))
    }
}

/// Returns the messages of a client's that a server tells of: what it holds of others (its instructions, activities, reasoning)
/// is its own affair.
pub(super) fn kept_by_us(posted: &[Held]) -> impl Iterator<Item = &Held> {
    posted.iter().filter(|it| !matches!(it.role(), Some("system" | "developer" | "activity" | "reasoning")))
}

/// Tells whether a client has exactly these messages; or, where they are only the last ones, whether it has them last.
pub(super) fn has(posted: &[Held], messages: &[Message], all: bool) -> bool {
    let held: Vec<_> = kept_by_us(posted).collect();
    let Some(before) = held.len().checked_sub(messages.len()) else { return false };
    (before == 0 || !all) && held[before..].iter().zip(messages).all(|(held, message)| is(held, message))
}

/// Tells whether what a client holds is this message. Who speaks is not looked at: a client cannot be told of every message.
fn is(held: &Held, message: &Message) -> bool {
    let Some(held) = read(held) else { return false };
    match (held, message) {
        (Message::User { id, content }, Message::User { id: other, content: said }) => {
            id == *other && text(&content) == text(said)
        }
        (
            Message::Assistant { id, content, tool_calls, .. },
            Message::Assistant { id: other, content: said, tool_calls: calls, .. },
        ) => {
            let (content, said) = (content.unwrap_or_default(), said.as_deref().unwrap_or_default());
            id == *other && content == said && tool_calls == *calls
        }
        (held @ Message::Tool { .. }, message @ Message::Tool { .. }) => held == *message,
        (Message::User { .. } | Message::Assistant { .. } | Message::Tool { .. }, _) => false,
    }
}

/// Puts a client's own copies in the place of messages that say the same: its pictures are there, where ours are names.
pub(super) fn with_own_copies(posted: &[Held], messages: &mut [Message]) {
    for message in messages {
        let Message::User { id, content: Content::Parts(_) } = &*message else { continue };
        let own = posted.iter().find(|it| it.id() == Some(id.as_str())).filter(|it| is(it, message));
        if let Some(own) = own.and_then(read) {
            *message = own;
        }
    }
}

fn read(held: &Held) -> Option<Message> {
    serde_json::from_value(serde_json::Value::Object(held.0.clone())).ok()
}

/// Returns the text of a user's message.
fn text(content: &Content) -> String {
    match content {
        Content::Text(text) => text.clone(),
        Content::Parts(parts) => parts
            .iter()
            .filter_map(|part| match part {
                Part::Known(KnownPart::Text { text }) => Some(text.as_str()),
                Part::Known(KnownPart::Image { .. }) | Part::Unknown(_) => None,
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests;
