//! How far a stream has come with a message, small enough to be told to its reader: who loses the stream says it, and is shown
//! what is missing.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use singletree_harness::{MessageId, TurnId};

use super::piece::Showing;

/// How far a stream has come with one message on its way: under which name it is shown, and how much of it, with a digest by
/// which what comes can be held against it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mark {
    turn: String,
    k: u64,
    attempt: u32,
    bytes: usize,
    digest: String,
}

impl Mark {
    pub(crate) fn new(showing: &Showing, bytes: usize, text: &Sha256) -> Self {
        let MessageId { turn, k } = &showing.message;
        let digest = digest(text.clone());
        Self { turn: turn.to_string(), k: *k, attempt: showing.attempt, bytes, digest }
    }

    /// Returns what is shown; none when it was tampered with.
    pub(crate) fn showing(&self) -> Option<Showing> {
        let turn: TurnId = self.turn.parse().ok()?;
        Some(Showing { message: MessageId { turn, k: self.k }, attempt: self.attempt })
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns what was shown, if this text begins with it.
    pub(crate) fn of<'a>(&self, text: &'a str) -> Option<&'a str> {
        let shown = text.get(..self.bytes)?;
        (digest(Sha256::new_with_prefix(shown)) == self.digest).then_some(shown)
    }
}

fn digest(text: Sha256) -> String {
    text.finalize().iter().take(8).map(|it| format!("{it:02x}")).collect()
}
