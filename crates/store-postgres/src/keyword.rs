//! The words that stand in columns.

use singletree_durable::{PausedStatus, StoredTurnKind, StoredTurnStatus, StoredWaitStatus};

/// A value that is stored as a word.
pub(crate) trait ColumnKeyword: Copy + Sized + 'static {
    /// The values with their words.
    const WORDS: &'static [(Self, &'static str)];

    /// Returns the word of the value.
    fn to_keyword(self) -> &'static str;

    /// Returns the value of a word.
    fn from_keyword(word: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(_, known)| *known == word).map(|(value, _)| *value)
    }
}

macro_rules! keywords {
    ($type:ty { $($variant:ident => $word:literal,)* }) => {
        impl ColumnKeyword for $type {
            const WORDS: &'static [(Self, &'static str)] = &[$((Self::$variant, $word),)*];

            fn to_keyword(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }
        }
    };
}

keywords!(StoredTurnKind { Message => "message", Resume => "resume", Close => "close", });

keywords!(StoredTurnStatus {
    Accepted => "accepted",
    Suspended => "suspended",
    Completed => "completed",
    Errored => "errored",
});

keywords!(StoredWaitStatus {
    Pending => "pending",
    Consumed => "consumed",
    Cancelled => "cancelled",
    Expired => "expired",
});

keywords!(PausedStatus {
    Suspended => "suspended",
    Resuming => "resuming",
    Completed => "completed",
    Errored => "errored",
});
