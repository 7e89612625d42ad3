//! The rows of a whole database, by which a store is filled from another.

use crate::{BoxFuture, FencingToken, Result};

/// A value of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArchiveValue {
    /// None.
    Null,
    /// A number.
    Number(i64),
    /// A text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
}

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArchiveColumnType {
    /// Numbers.
    Number,
    /// Texts.
    Text,
    /// Bytes.
    Bytes,
}

/// A table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ArchiveTable {
    /// Sessions, each with a number by which the rows of other tables refer to it.
    Session,
    /// The next free numbers of deleted sessions, under the hashes of their names.
    Former,
    /// Fields of sessions.
    Field,
    /// Items: messages, and values of lists.
    Item,
    /// Turns.
    Turn,
    /// Waits.
    Wait,
    /// Signals that came before anything waited for them.
    Mail,
    /// Where unfinished invocations stand.
    Position,
    /// Records of unfinished turns.
    Record,
    /// Events.
    Event,
    /// Tokens by model.
    Usage,
    /// Deletions.
    Audit,
    /// Documents.
    Document,
    /// Pictures and files.
    Blob,
    /// The sessions that use them.
    BlobUse,
    /// Suspended invocations of the suspension specification's own store.
    Paused,
    /// Checkpoints of the pipeline-utilities specification's own checkpointer.
    Checkpoint,
}

use ArchiveColumnType::{Bytes, Number, Text};

impl ArchiveTable {
    /// All tables, in the order in which they are filled.
    pub const ALL: [Self; 17] = [
        Self::Session,
        Self::Former,
        Self::Field,
        Self::Item,
        Self::Turn,
        Self::Wait,
        Self::Mail,
        Self::Position,
        Self::Record,
        Self::Event,
        Self::Usage,
        Self::Audit,
        Self::Document,
        Self::Blob,
        Self::BlobUse,
        Self::Paused,
        Self::Checkpoint,
    ];

    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Former => "former",
            Self::Field => "field",
            Self::Item => "item",
            Self::Turn => "turn",
            Self::Wait => "wait",
            Self::Mail => "mail",
            Self::Position => "position",
            Self::Record => "record",
            Self::Event => "event",
            Self::Usage => "usage",
            Self::Audit => "audit",
            Self::Document => "document",
            Self::Blob => "blob",
            Self::BlobUse => "blob_use",
            Self::Paused => "paused",
            Self::Checkpoint => "checkpoint",
        }
    }

    /// Returns the names and types of its columns. Texts stand whole in every row, as agents and names of lists do.
    #[must_use]
    pub fn columns(self) -> &'static [(&'static str, ArchiveColumnType)] {
        match self {
            Self::Session => SESSION,
            Self::Former => &[
                ("tenant", Text),
                ("session_hash", Text),
                ("next_turn", Number),
                ("next_item", Number),
                ("next_event", Number),
                ("next_wait", Number),
            ],
            Self::Field => &[
                ("session", Number),
                ("name", Text),
                ("value", Text),
                ("generation", Number),
                ("len", Number),
                ("bytes", Number),
            ],
            Self::Item => &[
                ("session", Number),
                ("no", Number),
                ("turn", Number),
                ("list", Text),
                ("generation", Number),
                ("seq", Number),
                ("side", Text),
                ("body", Text),
            ],
            Self::Turn => TURN,
            Self::Wait => WAIT,
            Self::Mail => {
                &[("session", Number), ("signal", Text), ("payload", Text), ("sent_by", Text), ("at", Number)]
            }
            Self::Position => &[("session", Number), ("invocation", Text), ("turn", Number), ("body", Text)],
            Self::Record => &[("session", Number), ("turn", Number), ("name", Text), ("body", Text)],
            Self::Event => &[
                ("session", Number),
                ("seq", Number),
                ("turn", Number),
                ("kind", Text),
                ("item", Number),
                ("at", Number),
                ("body", Text),
            ],
            Self::Usage => USAGE,
            Self::Audit => {
                &[("at", Number), ("action", Text), ("tenant", Text), ("session", Text), ("done_by", Text)]
            }
            Self::Document => DOCUMENT,
            Self::Blob => &[
                ("tenant", Text),
                ("digest", Text),
                ("media_type", Text),
                ("holder", Text),
                ("size", Number),
                ("bytes", Bytes),
            ],
            Self::BlobUse => &[("tenant", Text), ("session", Text), ("digest", Text)],
            Self::Paused => &[("tenant", Text), ("invocation", Text), ("status", Text), ("body", Text)],
            Self::Checkpoint => &[
                ("tenant", Text),
                ("invocation", Text),
                ("correlation", Text),
                ("saved_at", Number),
                ("positions", Number),
                ("body", Text),
            ],
        }
    }
}

const SESSION: &[(&str, ArchiveColumnType)] = &[
    ("id", Number),
    ("tenant", Text),
    ("session", Text),
    ("agent", Text),
    ("graph", Text),
    ("schema_version", Text),
    ("version", Number),
    ("prompt_policy", Text),
    ("parent", Text),
    ("parent_offset", Number),
    ("subject", Text),
    ("created_at", Number),
    ("updated_at", Number),
    ("next_turn", Number),
    ("next_item", Number),
    ("next_event", Number),
    ("next_wait", Number),
];

const TURN: &[(&str, ArchiveColumnType)] = &[
    ("session", Number),
    ("no", Number),
    ("tenant", Text),
    ("invocation", Text),
    ("ordinal", Number),
    ("kind", Text),
    ("status", Text),
    ("fence", Number),
    ("deaths", Number),
    ("agent", Text),
    ("graph", Text),
    ("message", Number),
    ("wait", Number),
    ("key", Text),
    ("digest", Text),
    ("accepted_at", Number),
    ("ended_at", Number),
    ("outcome", Text),
    ("retries", Number),
];

const WAIT: &[(&str, ArchiveColumnType)] = &[
    ("session", Number),
    ("no", Number),
    ("tenant", Text),
    ("signal", Text),
    ("invocation", Text),
    ("turn", Number),
    ("status", Text),
    ("metadata", Text),
    ("action", Text),
    ("deadline", Number),
    ("payload_schema", Text),
    ("on_deadline", Text),
    ("created_at", Number),
    ("ended_by", Number),
    ("answer", Text),
    ("answered_by", Text),
    ("ended_at", Number),
];

const DOCUMENT: &[(&str, ArchiveColumnType)] = &[
    ("tenant", Text),
    ("kind", Text),
    ("id", Text),
    ("session", Text),
    ("version", Number),
    ("expires_at", Number),
    ("body", Text),
];

const USAGE: &[(&str, ArchiveColumnType)] = &[
    ("tenant", Text),
    ("session", Text),
    ("model", Text),
    ("calls", Number),
    ("prompt_tokens", Number),
    ("completion_tokens", Number),
    ("cached_tokens", Number),
    ("cache_creation_tokens", Number),
];

/// The properties of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveMetadata {
    /// The epoch of its log: event ids and keys of effects hold on to it.
    pub log_epoch: String,
    /// The key of the hashes of names: HMAC-SHA-256 over texts, each with its length as eight bytes before it.
    pub name_key: String,
    /// The highest fence under which a row was written.
    pub fence: FencingToken,
}

/// Some rows of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveRows {
    /// The table.
    pub table: ArchiveTable,
    /// The rows: for each column of the table a value, in their order.
    pub rows: Vec<Vec<ArchiveValue>>,
}

/// A database that hands out its rows, as they were at one moment.
pub trait ArchiveSource: Send {
    /// Returns the properties of the database.
    fn metadata(&self) -> &ArchiveMetadata;

    /// Returns the next rows, about a megabyte: table by table in the order of [`ArchiveTable::ALL`]; nothing after the
    /// last ones.
    ///
    /// # Errors
    /// `store_corrupt`, `store_unavailable`.
    ///
    /// # Cancellation
    /// Rows that a dropped call would have returned are returned by the next one.
    fn next_rows(&mut self) -> BoxFuture<'_, Result<Option<ArchiveRows>>>;
}
