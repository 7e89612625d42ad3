//! The transcript of a session, as far as clients are told of it.

use singletree_harness::{Chat, Error, EventId, Result, TurnId};
use singletree_protocol::agui::Message;

use super::view;

/// How many messages a client is told of at most: the last ones (INV-12).
const SHOWN: u64 = 1000;

/// The transcript.
#[derive(Debug, Default)]
pub(super) struct Truth {
    entries: Vec<Entry>,
    /// How many messages the session has.
    pub(super) len: u64,
    /// Whether the entries are all there are.
    pub(super) all: bool,
    /// Who listens from after this event misses nothing that is not here.
    pub(super) last_event: Option<EventId>,
}

#[derive(Debug)]
struct Entry {
    seq: u64,
    turn: Option<TurnId>,
    message: Message,
}

impl Truth {
    /// Reads it. A session that is not there has none.
    pub(super) async fn read(chat: &Chat, session: &str) -> Result<Self> {
        let len = match chat.session(session).await {
            Err(Error::SessionUnknown { .. }) => return Ok(Self { all: true, ..Self::default() }),
            info => info?.messages,
        };
        let read = match chat.newest_messages(session, SHOWN).await {
            Err(Error::SessionUnknown { .. }) => return Ok(Self { all: true, ..Self::default() }),
            read => read?,
        };
        let from = read.items.first().map_or(0, |items| items.seq);
        let len = len.max(read.items.last().map_or(0, |items| items.seq + 1));
        let entries = read.items.iter().filter_map(|item| {
            let message = view::entry(item)?;
            Some(Entry { seq: item.seq, turn: item.id.as_ref().map(|id| id.turn.clone()), message })
        });
        Ok(Self { entries: entries.collect(), len, all: from == 0, last_event: read.last_event })
    }

    /// Tells whether a message of this id is there.
    pub(super) fn knows(&self, id: &str) -> bool {
        self.entries.iter().any(|entry| entry.message.id() == id)
    }

    /// Returns the messages.
    pub(super) fn messages(&self) -> impl Iterator<Item = Message> {
        self.entries.iter().map(|entry| entry.message.clone())
    }

    /// Returns the messages before those of a turn, and how many they are of the session's.
    pub(super) fn before(&self, turn: &TurnId) -> (Vec<Message>, u64) {
        let own = self.entries.iter().position(|entry| entry.turn.as_ref() == Some(turn));
        let before = own.unwrap_or(self.entries.len());
        let len = self.entries.get(before).map_or(self.len, |entries| entries.seq);
        (self.entries[..before].iter().map(|entry| entry.message.clone()).collect(), len)
    }
}
