//! The rows of a journal: sessions, turns, items, waits, positions and events.
//!
//! Rows of one session are numbered by the writer, from counters that only rise ([`Counters`]); numbers are never used
//! twice under a session's name, also when it is deleted and made anew. A body is written once, as a [`ListItemRow`];
//! everything else refers to it by number (INV-4).

use crate::{FencingToken, InvocationId, JsonDocument, SessionId, SessionKey, SubjectId, Timestamp};

/// Next free numbers of a session's rows. They only rise, and outlive the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// The next turn's number.
    pub turns: u64,
    /// The next item's number.
    pub items: u64,
    /// The next event's sequence number.
    pub events: u64,
    /// The next wait's number.
    pub waits: u64,
}

impl Counters {
    /// Returns the higher of both, for each kind of row.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            turns: self.turns.max(other.turns),
            items: self.items.max(other.items),
            events: self.events.max(other.events),
            waits: self.waits.max(other.waits),
        }
    }
}

/// Where a forked session comes from (D12).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParentSession {
    /// The session it was forked from, of the same tenant.
    pub session: SessionId,
    /// How many messages of it were copied.
    pub offset: u64,
}

/// The properties of a session beside its rows. A put of a head replaces it whole; it never touches the counters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionHead {
    /// Which agent answers in it (D28).
    pub agent: String,
    /// The digest of that agent's graph when the state was last written (D28).
    pub graph: String,
    /// The version of the state's schema.
    pub schema_version: String,
    /// How often the state was committed; rises with every commit that changes state (sessions §8.2).
    pub version: u64,
    /// Which texts reach the model, fixed at creation: `conversation` or `command`.
    pub prompt_policy: String,
    /// Where it was forked from.
    pub parent: Option<ParentSession>,
    /// The person or program on whose behalf it was made, when known; erasure selects sessions by it. A fork has the
    /// subject of its source.
    pub subject: Option<SubjectId>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When its state was last committed.
    pub updated_at: Timestamp,
}

/// A stored session, as a read returns it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRow {
    /// Its name.
    pub key: SessionKey,
    /// Its properties.
    pub head: SessionHead,
    /// Next free numbers.
    pub counters: Counters,
    /// Its fields, ordered by name.
    pub fields: Vec<FieldRow>,
}

/// One field of a session's state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldRow {
    /// The field's name.
    pub name: String,
    /// Its stored value.
    pub value: FieldValue,
}

/// The two ways in which a field is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FieldValue {
    /// The value itself.
    Value(JsonDocument),
    /// A list, of which only this is kept here: its items are rows.
    List {
        /// Which generation of rows is the list; a list that was rewritten starts the next.
        generation: u64,
        /// How many rows it has; their sequence numbers are 0 to `len` - 1, without a gap.
        len: u64,
        /// The bytes of their bodies, as the writer counts them on: kept, so that nobody has to read them for it.
        bytes: u64,
    },
}

/// Where an item stands in a list field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemPlacement {
    /// The field.
    pub field: String,
    /// The generation of the field's rows.
    pub generation: u64,
    /// The absolute sequence number in that generation.
    pub seq: u64,
}

/// One element of a list, written once (INV-4).
///
/// An item without a placement is stored but not (yet) part of a list: the message of a turn that has not ended, or an
/// item that the nodes of a failed turn made (D11).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListItemRow {
    /// Its number in the session.
    pub no: u64,
    /// The turn that made it.
    pub turn: u64,
    /// Its place in a list, once it has one.
    pub placement: Option<ItemPlacement>,
    /// The element itself.
    pub body: JsonDocument,
    /// Its side record, which is not part of the element: time, speaker, tool success, interruption (D17).
    pub side: Option<JsonDocument>,
}

impl ListItemRow {
    /// Returns the bytes of the body and of the side record.
    #[must_use]
    pub fn count_bytes(&self) -> u64 {
        let side = self.side.as_ref().map_or(0, |side| side.as_str().len());
        (self.body.as_str().len() + side) as u64
    }
}

/// The cause of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StoredTurnKind {
    /// A message.
    Message,
    /// A signal, or a deadline with values to go on with.
    Resume,
    /// The end of a wait that is not resumed: cancelled, expired or superseded.
    Close,
}

/// How far a turn is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StoredTurnStatus {
    /// Accepted; runs, waits its place or is parked behind a wait. Has no outcome yet.
    Accepted,
    /// Ended: its invocation waits for a signal.
    Suspended,
    /// Ended: its invocation reached the end.
    Completed,
    /// Ended: its invocation failed.
    Errored,
}

impl StoredTurnStatus {
    /// Tells whether the turn has its outcome.
    #[must_use]
    pub fn is_ended(self) -> bool {
        match self {
            Self::Accepted => false,
            Self::Suspended | Self::Completed | Self::Errored => true,
        }
    }
}

/// One turn. A put replaces the row whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnRow {
    /// Its number in the session; the order of numbers is the order of acceptance (INV-1).
    pub no: u64,
    /// The invocation that it is part of.
    pub invocation: InvocationId,
    /// Which turn of its invocation: 0 for the message, then 1, 2, … for those after each wait.
    pub ordinal: u32,
    /// Its cause.
    pub kind: StoredTurnKind,
    /// How far it is.
    pub status: StoredTurnStatus,
    /// The fence of its session when it was last accepted or taken over; a turn without outcome of a lower fence than
    /// the one under which its session is held has no owner.
    pub fence: FencingToken,
    /// How many times it was taken over after its process died (D24).
    pub deaths: u32,
    /// Which agent runs it.
    pub agent: String,
    /// The digest of that agent's graph.
    pub graph: String,
    /// The item that is its message.
    pub message: Option<u64>,
    /// The wait that it answers.
    pub wait: Option<u64>,
    /// The caller's idempotency key (D3).
    pub key: Option<String>,
    /// The digest of message and options, when there is a key.
    pub digest: Option<String>,
    /// When it was accepted.
    pub accepted_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// Its outcome, once it has one.
    pub outcome: Option<JsonDocument>,
    /// The failed turn that it retries.
    pub retries: Option<u64>,
}

/// Whether a wait still waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StoredWaitStatus {
    /// It waits.
    Pending,
    /// Its signal came.
    Consumed,
    /// It was given up.
    Cancelled,
    /// Its deadline passed.
    Expired,
}

/// One suspension of an invocation (D2). A put replaces the row whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitRow {
    /// Its number in the session.
    pub no: u64,
    /// The id of the signal that ends it.
    pub signal: String,
    /// The invocation that waits.
    pub invocation: InvocationId,
    /// The turn that suspended.
    pub turn: u64,
    /// Whether it still waits.
    pub status: StoredWaitStatus,
    /// The descriptor's metadata, opaque.
    pub metadata: Option<JsonDocument>,
    /// The digest of the exact action that an answer approves.
    pub action: Option<String>,
    /// When it expires.
    pub deadline: Option<Timestamp>,
    /// The JSON Schema of its answer.
    pub payload_schema: Option<JsonDocument>,
    /// The fields with which the graph goes on when the deadline passes.
    pub on_deadline: Option<JsonDocument>,
    /// When it began.
    pub created_at: Timestamp,
    /// The turn that its end started.
    pub ended_by: Option<u64>,
    /// The signal's payload.
    pub answer: Option<JsonDocument>,
    /// Who answered.
    pub answered_by: Option<String>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
}

/// A signal that came before anything waited for it (D2). A put replaces the row whole; a session keeps one for each
/// signal id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EarlySignalRow {
    /// The id of the signal.
    pub signal: String,
    /// Its payload.
    pub payload: JsonDocument,
    /// Who sent it.
    pub from: Option<String>,
    /// When it came.
    pub at: Timestamp,
}

/// Where an unfinished invocation stands: after its last committed step, or at its suspension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PositionRow {
    /// The invocation.
    pub invocation: InvocationId,
    /// The turn that wrote it.
    pub turn: u64,
    /// Cursor and frames; lists are named by generation and length or by item numbers, never by content.
    pub body: JsonDocument,
}

/// One durable fact of a node that has not committed yet: the result of one of several effects (D7).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordRow {
    /// The turn.
    pub turn: u64,
    /// The fact's name, unique within the turn.
    pub name: String,
    /// The fact.
    pub body: JsonDocument,
}

/// An entry of a session's durable log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRow {
    /// Its sequence number.
    pub seq: u64,
    /// The turn it tells of.
    pub turn: u64,
    /// The kind of event, from the harness's closed list.
    pub kind: String,
    /// The item it tells of.
    pub item: Option<u64>,
    /// When.
    pub at: Timestamp,
    /// Further details.
    pub body: Option<JsonDocument>,
}

/// The usage of a model.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UsageRow {
    /// The model.
    pub model: String,
    /// How many answers it gave.
    pub calls: u64,
    /// Tokens of prompts.
    pub prompt_tokens: u64,
    /// Tokens of answers.
    pub completion_tokens: u64,
    /// Tokens of prompts that came from a cache.
    pub cached_tokens: u64,
    /// Tokens of prompts that were written to a cache.
    pub cache_creation_tokens: u64,
}

impl UsageRow {
    /// Adds the usage of another row of the same model.
    pub fn add_usage(&mut self, other: &Self) {
        self.calls = self.calls.saturating_add(other.calls);
        self.prompt_tokens = self.prompt_tokens.saturating_add(other.prompt_tokens);
        self.completion_tokens = self.completion_tokens.saturating_add(other.completion_tokens);
        self.cached_tokens = self.cached_tokens.saturating_add(other.cached_tokens);
        self.cache_creation_tokens = self.cache_creation_tokens.saturating_add(other.cache_creation_tokens);
    }
}

/// An audit record of a removal or decision, without content (D25).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRow {
    /// When.
    pub at: Timestamp,
    /// The action.
    pub action: String,
    /// Whose it was.
    pub key: SessionKey,
    /// Who did it, when known.
    pub by: Option<String>,
}
