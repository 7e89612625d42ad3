//! The words under which closed sets are stored.

use singletree_durable::{PausedStatus, StoredTurnKind, StoredTurnStatus, StoredWaitStatus};

/// A closed set with one word for each of its members.
pub(crate) trait ColumnKeyword: Copy + 'static {
    /// All members.
    const ALL: &'static [Self];

    /// The member's word.
    fn to_keyword(self) -> &'static str;

    /// Finds the member of a word.
    fn from_keyword(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|item| item.to_keyword() == word)
    }
}

impl ColumnKeyword for StoredTurnKind {
    const ALL: &'static [Self] = &[Self::Message, Self::Resume, Self::Close];

    fn to_keyword(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Resume => "resume",
            Self::Close => "close",
        }
    }
}

impl ColumnKeyword for StoredTurnStatus {
    const ALL: &'static [Self] = &[Self::Accepted, Self::Suspended, Self::Completed, Self::Errored];

    fn to_keyword(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Suspended => "suspended",
            Self::Completed => "completed",
            Self::Errored => "errored",
        }
    }
}

impl ColumnKeyword for StoredWaitStatus {
    const ALL: &'static [Self] = &[Self::Pending, Self::Consumed, Self::Cancelled, Self::Expired];

    fn to_keyword(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Consumed => "consumed",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
        }
    }
}

impl ColumnKeyword for PausedStatus {
    const ALL: &'static [Self] = &[Self::Suspended, Self::Resuming, Self::Completed, Self::Errored];

    fn to_keyword(self) -> &'static str {
        match self {
            Self::Suspended => "suspended",
            Self::Resuming => "resuming",
            Self::Completed => "completed",
            Self::Errored => "errored",
        }
    }
}
