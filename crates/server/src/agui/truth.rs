//! The transcript of a session, as far as clients are shown it.

use singletree_harness::{Chat, ChatEventId, Error, Result, TurnId};
use singletree_protocol::agui::Message;

use super::unanswered::FailedMessages;
use super::view;

/// The largest number of messages that a client is sent: the last ones (INV-12).
const SHOWN: u64 = 1000;

/// The transcript.
#[derive(Debug, Default)]
pub(super) struct AguiTranscript {
    entries: Vec<AguiTranscriptEntry>,
    /// The number of messages of the session.
    pub(super) len: u64,
    /// Whether the entries are the whole transcript.
    pub(super) all: bool,
    /// The last event that the transcript includes: a listener that starts after it misses nothing.
    pub(super) last_event: Option<ChatEventId>,
}

#[derive(Debug)]
struct AguiTranscriptEntry {
    seq: u64,
    turn: Option<TurnId>,
    message: Message,
}

impl AguiTranscript {
    /// Reads the transcript. A session that does not exist has an empty one.
    pub(super) async fn read_session(chat: &Chat, session: &str) -> Result<Self> {
        let len = match chat.session(session).info().await {
            Err(Error::SessionUnknown { .. }) => return Ok(Self { all: true, ..Self::default() }),
            info => info?.messages,
        };
        let read = match chat.session(session).newest_messages(SHOWN).await {
            Err(Error::SessionUnknown { .. }) => return Ok(Self { all: true, ..Self::default() }),
            read => read?,
        };
        let from = read.items.first().map_or(0, |items| items.seq);
        let len = len.max(read.items.last().map_or(0, |items| items.seq + 1));
        let entries = read.items.iter().filter_map(|item| {
            let message = view::convert_entry(item)?;
            Some(AguiTranscriptEntry {
                seq: item.seq,
                turn: item.id.as_ref().map(|id| id.turn.clone()),
                message,
            })
        });
        Ok(Self { entries: entries.collect(), len, all: from == 0, last_event: read.last_event })
    }

    /// Checks whether the transcript has a message with this id.
    pub(super) fn contains_message(&self, id: &str) -> bool {
        self.entries.iter().any(|entry| entry.message.id() == id)
    }

    /// Returns the position of the first message that clients are shown.
    pub(super) fn first_position(&self) -> u64 {
        self.entries.first().map_or(0, |entry| entry.seq)
    }

    /// Returns the messages, and those of failed turns in their places.
    pub(super) fn merge_messages(&self, failed: &FailedMessages) -> Vec<Message> {
        self.merge_failed_messages(&self.entries, failed)
    }

    /// Returns the messages before those of a turn, with those of failed turns, and the number of messages of the
    /// session before that turn.
    pub(super) fn merge_messages_before(
        &self,
        turn: &TurnId,
        failed: &FailedMessages,
    ) -> (Vec<Message>, u64) {
        let own = self.entries.iter().position(|entry| entry.turn.as_ref() == Some(turn));
        let before = own.unwrap_or(self.entries.len());
        let len = self.entries.get(before).map_or(self.len, |entries| entries.seq);
        (self.merge_failed_messages(&self.entries[..before], failed), len)
    }

    fn merge_failed_messages(
        &self,
        entries: &[AguiTranscriptEntry],
        failed: &FailedMessages,
    ) -> Vec<Message> {
        failed.merge_into_transcript(entries.iter().map(|entry| (entry.seq, entry.message.clone())), |id| {
            self.contains_message(id)
        })
    }
}
