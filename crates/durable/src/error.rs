//! The errors of a store.

use singletree_env::BoxError;

use crate::{ExpectedVersion, FencingToken, RecordVersion, SessionKey};

/// The result of a store operation.
pub type Result<T> = std::result::Result<T, Error>;

/// Everything that can go wrong in a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A batch's requirement does not hold: nothing of it was written. Read again, decide again.
    #[error("the batch was refused: {requirement}")]
    Refused {
        /// Which requirement.
        requirement: String,
    },
    /// Somebody else saved the session first, or it is not free to be overwritten (sessions §8.2).
    #[error("session {} changed under us (expected {expected:?}, found {found:?})", key.session)]
    Conflict {
        /// Which session.
        key: SessionKey,
        /// The version that the caller expected.
        expected: ExpectedVersion,
        /// The stored version.
        found: Option<RecordVersion>,
    },
    /// The store cannot be reached, read or written at present; the stored data is unharmed.
    #[error("the store is unavailable while it should {doing}")]
    Unavailable {
        /// The operation, as a verb phrase.
        doing: &'static str,
        /// The cause.
        source: BoxError,
    },
    /// The commit failed, and so did the one that was to replace it in the log (D38): nothing of the write is visible
    /// now, and all of it may be there when the store is next opened. Until the log is replaced, every write is
    /// refused.
    #[error("it is not known whether the store will keep what it was to {doing}")]
    CommitUnknown {
        /// The operation, as a verb phrase.
        doing: &'static str,
        /// The cause of the failed commit.
        source: BoxError,
    },
    /// The store has no space for a write: nothing of the write was stored, the stored data is unharmed, and the same
    /// write succeeds once there is space again.
    #[error("the store has no space left while it should {doing}")]
    Full {
        /// The operation, as a verb phrase.
        doing: &'static str,
        /// The cause.
        source: BoxError,
    },
    /// Another handle was opened for writing after this one and has raised the fence: this handle can never write
    /// again.
    #[error("another writer has taken over the store (fence {} was held, {} is the newest)", held.0, found.0)]
    Fenced {
        /// The fence under which this handle writes.
        held: FencingToken,
        /// The newest fence of the store.
        found: FencingToken,
    },
    /// The fence of a batch does not hold its session: another owner has acquired the session since, or it was released
    /// or never acquired. Nothing of the batch was written. Acquire the session, decide again.
    #[error("session {} is not held under fence {}", key.session, fence.0)]
    LeaseLost {
        /// The session.
        key: SessionKey,
        /// The fence of the batch.
        fence: FencingToken,
    },
    /// Another process that lives holds the session, or can go on with it, as this one cannot
    /// ([`Journal::announce_graphs`](crate::Journal::announce_graphs)). It gives the session back when it does not need it
    /// any more, or loses it when its lease ends: the same call succeeds then.
    #[error("session {} is held by {node}{}", key.session, format_address(address.as_deref()))]
    HeldElsewhere {
        /// The session.
        key: SessionKey,
        /// The name of the process among the owners of sessions.
        node: String,
        /// The address at which other processes reach it, if it has one.
        address: Option<String>,
    },
    /// The file of the store is not at its path any more: it was moved, deleted or replaced. Nothing is written until
    /// it is back.
    #[error("the file of the store was moved, deleted or replaced")]
    Displaced,
    /// The stored data differs from the data that was written, or was written by another program.
    #[error("the store holds something unreadable: {what}")]
    Corrupt {
        /// The damaged data and its place.
        what: String,
        /// The cause, if there is one.
        source: Option<BoxError>,
    },
    /// The store was written by a newer or foreign version, which this one refuses to guess at (INV-13).
    #[error("the store has format {found}, and this version knows {known}")]
    Format {
        /// The format of the store.
        found: String,
        /// The format that this version knows.
        known: String,
    },
    /// The store acknowledges commits before they are durable: a crash would lose acknowledged work. It is not opened.
    #[error("the store acknowledges commits that a crash would lose: {setting} is {value}")]
    NotDurable {
        /// The setting of the store.
        setting: &'static str,
        /// Its value.
        value: String,
    },
    /// Another process has the store open for writing.
    #[error("the store is in use by process {pid}: {command}")]
    Locked {
        /// The other process.
        pid: u32,
        /// The command that it runs.
        command: String,
    },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}

/// Returns the part of a text that says where a process is.
fn format_address(address: Option<&str>) -> String {
    address.map(|address| format!(" at {address}")).unwrap_or_default()
}

impl Error {
    /// Checks whether the store decided against the write: it is certain that nothing of it was or will be written.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::Refused { .. } | Self::Conflict { .. } | Self::LeaseLost { .. } | Self::Fenced { .. }
        )
    }

    /// Returns the stable, machine-readable category of this error.
    #[must_use]
    pub fn category(&self) -> &'static str {
        match self {
            Self::Refused { .. } => "store_refused",
            Self::Conflict { .. } => "session_write_conflict",
            Self::Unavailable { .. } => "store_unavailable",
            Self::CommitUnknown { .. } => "store_commit_unknown",
            Self::Full { .. } => "store_full",
            Self::Fenced { .. } => "store_fenced",
            Self::LeaseLost { .. } => "store_lease_lost",
            Self::HeldElsewhere { .. } => "session_moving",
            Self::Displaced => "store_displaced",
            Self::Corrupt { .. } => "store_corrupt",
            Self::Format { .. } => "store_format_unsupported",
            Self::NotDurable { .. } => "store_not_durable",
            Self::Locked { .. } => "store_locked",
            Self::Closed => "store_closed",
        }
    }
}
