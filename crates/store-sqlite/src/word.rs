//! The words under which closed sets are stored.

use singletree_durable::{PausedStatus, TurnKind, TurnStatus, WaitStatus};

/// A closed set with one word for each of its members.
pub(crate) trait Word: Copy + 'static {
    /// All members.
    const ALL: &'static [Self];

    /// The member's word.
    fn word(self) -> &'static str;

    /// Finds the member of a word.
    fn of(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|it| it.word() == word)
    }
}

impl Word for TurnKind {
    const ALL: &'static [Self] = &[Self::Message, Self::Resume, Self::Close];

    fn word(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Resume => "resume",
            Self::Close => "close",
        }
    }
}

impl Word for TurnStatus {
    const ALL: &'static [Self] = &[Self::Accepted, Self::Suspended, Self::Completed, Self::Errored];

    fn word(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Suspended => "suspended",
            Self::Completed => "completed",
            Self::Errored => "errored",
        }
    }
}

impl Word for WaitStatus {
    const ALL: &'static [Self] = &[Self::Pending, Self::Consumed, Self::Cancelled, Self::Expired];

    fn word(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Consumed => "consumed",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
        }
    }
}

impl Word for PausedStatus {
    const ALL: &'static [Self] = &[Self::Suspended, Self::Resuming, Self::Completed, Self::Errored];

    fn word(self) -> &'static str {
        match self {
            Self::Suspended => "suspended",
            Self::Resuming => "resuming",
            Self::Completed => "completed",
            Self::Errored => "errored",
        }
    }
}
