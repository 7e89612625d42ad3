//! The key under which a call has its effect once.

use std::fmt;

use sha2::{Digest, Sha256};

/// Names one call for ever, also when it is run again after a crash (D7).
///
/// Made of values that do not change when a turn is resumed: the session, the correlation id of the invocation, the
/// ordinal of the assistant message within it, and the index of the call within that message. The provider's call id
/// is no part of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IdempotencyKey {
    digest: String,
}

impl IdempotencyKey {
    /// Makes the key of one call.
    #[must_use]
    pub fn new(session: &str, correlation: &str, message: u64, call: u64) -> Self {
        let mut hasher = hash_texts([session, correlation]);
        hasher.update(message.to_be_bytes());
        hasher.update(call.to_be_bytes());
        Self { digest: hex_digest(hasher) }
    }

    /// Returns the key as 64 hexadecimal digits: a file name, or a header to pass on.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.digest
    }
}

/// Begins a hash with two texts, each with its length, so that no two pairs have the same bytes.
pub(crate) fn hash_texts(texts: [&str; 2]) -> Sha256 {
    let mut hasher = Sha256::new();
    for text in texts {
        hasher.update((text.len() as u64).to_be_bytes());
        hasher.update(text);
    }
    hasher
}

/// Ends a hash, as 64 hexadecimal digits.
pub(crate) fn hex_digest(hasher: Sha256) -> String {
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

impl fmt::Display for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // D7: a key that changed with a release would let an effect happen twice.
    #[test]
    fn a_key_stays_the_same_for_ever_and_differs_by_every_part() {
        let key = |session, correlation, message, call| {
            IdempotencyKey::new(session, correlation, message, call).to_string()
        };
        assert_eq!(key("s", "c", 0, 1), "09ad52645159b98fb0119b8e128184d09e6033decd0078e597a5b601b893bfdc");
        let others = [
            key("s", "c", 1, 0),
            key("s", "c", 0, 0),
            key("sc", "", 0, 1),
            key("", "sc", 0, 1),
            key("s", "d", 0, 1),
        ];
        assert!(!others.contains(&key("s", "c", 0, 1)));
    }
}
