//! The position of a stream inside a message. It is small enough to be sent to the reader, who returns it after a
//! lost connection and is then sent the missing text.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use singletree_harness::{MessageId, TurnId};

use super::piece::DisplayedMessageId;

/// The position of a stream inside one message in progress: the name under which the message is shown, the number of
/// bytes shown, and a digest to compare them with the text of another stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MessageStreamPosition {
    turn: String,
    k: u64,
    attempt: u32,
    bytes: usize,
    digest: String,
}

impl MessageStreamPosition {
    pub(crate) fn new(showing: &DisplayedMessageId, bytes: usize, text: &Sha256) -> Self {
        let MessageId { turn, k } = &showing.message;
        let digest = digest_prefix_hex(text.clone());
        Self { turn: turn.to_string(), k: *k, attempt: showing.attempt, bytes, digest }
    }

    /// Returns the name of the showing; `None` if the mark was tampered with.
    pub(crate) fn parse_displayed_id(&self) -> Option<DisplayedMessageId> {
        let turn: TurnId = self.turn.parse().ok()?;
        Some(DisplayedMessageId { message: MessageId { turn, k: self.k }, attempt: self.attempt })
    }

    pub(crate) fn shown_byte_count(&self) -> usize {
        self.bytes
    }

    /// Returns the text that was shown, if this text begins with it.
    pub(crate) fn matching_prefix<'a>(&self, text: &'a str) -> Option<&'a str> {
        let shown = text.get(..self.bytes)?;
        (digest_prefix_hex(Sha256::new_with_prefix(shown)) == self.digest).then_some(shown)
    }
}

fn digest_prefix_hex(text: Sha256) -> String {
    text.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}
