//! The messages that the client holds, compared with the transcript and corrected where they differ (D16).

use std::collections::BTreeSet;

use singletree_protocol::agui::{Content, Event, Held, KnownPart, Message, Part};

/// The ids of the messages that the client holds, in the client's order, as far as the server can know them.
///
/// When a client applies a snapshot, it keeps the messages that the snapshot names, in their old order, and appends
/// those that it did not have. A single snapshot therefore cannot reorder messages. Two can: the first names only the
/// prefix that is in the right place, the second names all messages.
#[derive(Debug, Default)]
pub(super) struct ClientMessageList {
    ids: Vec<String>,
}

impl ClientMessageList {
    /// Reads the ids from the messages that the client posted.
    pub(super) fn from_posted(posted: &[Held]) -> Self {
        let ids = managed_messages(posted).map(|kept_by_us| kept_by_us.id().unwrap_or_default().to_owned());
        Self { ids: ids.collect() }
    }

    /// Returns the ids.
    pub(super) fn message_ids(&self) -> impl Iterator<Item = &String> {
        self.ids.iter()
    }

    /// Adds a message that the client has made from an event.
    pub(super) fn add_message(&mut self, id: &str) {
        if !self.ids.iter().any(|it| it == id) {
            self.ids.push(id.to_owned());
        }
    }

    /// Checks whether the client has exactly these messages. With `all` false it is enough that they are its last
    /// ones.
    pub(super) fn has_messages(&self, messages: &[Message], all: bool) -> bool {
        let Some(before) = self.ids.len().checked_sub(messages.len()) else { return false };
        (before == 0 || !all) && self.ids[before..].iter().zip(messages).all(|(has, it)| has == it.id())
    }

    /// Returns the snapshots after which the client has exactly these messages.
    pub(super) fn build_snapshots(&mut self, messages: Vec<Message>) -> Vec<Event> {
        let wanted: Vec<_> = messages.iter().map(|message| message.id().to_owned()).collect();
        let after = self.ids_after_snapshot(&wanted);
        let right = self.ids.iter().zip(&wanted).take_while(|(has, wanted)| has == wanted).count();
        let mut events = Vec::new();
        if after != wanted {
            // Only an empty snapshot removes duplicates.
            let right = if self.has_duplicates() { 0 } else { right };
            events.push(Event::MessagesSnapshot { messages: messages[..right].to_vec() });
        }
        self.ids = wanted;
        events.push(Event::MessagesSnapshot { messages });
        events
    }

    /// Returns the ids that the client has after one snapshot.
    fn ids_after_snapshot(&self, wanted: &[String]) -> Vec<String> {
        let (has, wants): (BTreeSet<_>, BTreeSet<_>) = (self.ids.iter().collect(), wanted.iter().collect());
        let kept = self.ids.iter().filter(|id| wants.contains(id));
        kept.chain(wanted.iter().filter(|it| !has.contains(it))).cloned().collect()
    }

    fn has_duplicates(&self) -> bool {
        let mut seen = BTreeSet::new();
        !self.ids.iter().all(|id| seen.insert(id))
    }
}

/// Returns the messages of the client that the server manages. Its other messages (instructions, activities,
/// reasoning) belong to the client alone.
pub(super) fn managed_messages(posted: &[Held]) -> impl Iterator<Item = &Held> {
    posted.iter().filter(|it| !matches!(it.role(), Some("system" | "developer" | "activity" | "reasoning")))
}

/// Checks whether a client has exactly these messages. With `all` false it is enough that they are its last ones.
pub(super) fn has_equal_messages(posted: &[Held], messages: &[Message], all: bool) -> bool {
    let held: Vec<_> = managed_messages(posted).collect();
    let Some(before) = held.len().checked_sub(messages.len()) else { return false };
    (before == 0 || !all)
        && held[before..].iter().zip(messages).all(|(held, message)| is_same_message(held, message))
}

/// Checks whether a message of the client is this message. The names of speakers are ignored, since not every message
/// can carry one.
fn is_same_message(held: &Held, message: &Message) -> bool {
    let Some(held) = parse_held_message(held) else { return false };
    match (held, message) {
        (Message::User { id, content }, Message::User { id: other, content: said }) => {
            id == *other && content_text(&content) == content_text(said)
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

/// Replaces messages by the client's own copies where both say the same: the copies contain the pictures, ours only
/// their names.
pub(super) fn replace_by_client_copies(posted: &[Held], messages: &mut [Message]) {
    for message in messages {
        let Message::User { id, content: Content::Parts(_) } = &*message else { continue };
        let own =
            posted.iter().find(|it| it.id() == Some(id.as_str())).filter(|it| is_same_message(it, message));
        if let Some(own) = own.and_then(parse_held_message) {
            *message = own;
        }
    }
}

fn parse_held_message(held: &Held) -> Option<Message> {
    serde_json::from_value(serde_json::Value::Object(held.0.clone())).ok()
}

/// Returns the text of a user's message.
fn content_text(content: &Content) -> String {
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
