//! One transition's writes: they land together or not at all.

use crate::{
    AuditRow, Counters, EarlySignalRow, EventRow, FencingToken, FieldRow, InvocationId, ItemPlacement,
    JsonDocument, ListItemRow, PositionRow, RecordRow, SessionHead, SessionId, SessionKey, StoredTurnStatus,
    StoredWaitStatus, Timestamp, TurnRow, UsageRow, WaitRow,
};

/// A precondition of a batch. The store checks it in the transaction that writes the batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BatchPrecondition {
    /// The session does not exist.
    SessionAbsent,
    /// The session exists and its state was committed this often.
    SessionVersion(u64),
    /// The next free numbers of the session are these, whether it exists or was deleted
    /// ([`Journal::read_counters`](crate::Journal::read_counters)): nobody took one since they were read.
    Counters(Counters),
    /// The turn exists and is at this status.
    Turn {
        /// Its number.
        no: u64,
        /// Its status.
        status: StoredTurnStatus,
    },
    /// The session has a turn of this number, and none of a higher one.
    NewestTurn(u64),
    /// No turn of the session holds this idempotency key.
    KeyFree(String),
    /// The wait exists and is at this status.
    Wait {
        /// Its number.
        no: u64,
        /// Its status.
        status: StoredWaitStatus,
    },
    /// The session, if there is one, keeps no early signal of this id.
    MailAbsent(String),
    /// No turn of the session is without outcome and no wait is pending.
    Idle,
    /// Another session of the tenant exists with this creation time and this version: the state that this batch
    /// inherits from it is the state that was read.
    Source {
        /// The other session.
        session: SessionId,
        /// When it was made: one that was deleted and made anew is not the same.
        created_at: Timestamp,
        /// Its version.
        version: u64,
    },
}

/// One row to write or to remove.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowMutation {
    /// Makes the session, or replaces its head. One that is made goes on from the numbers that one of its name left.
    Head(SessionHead),
    /// Raises the session's counters to these; one that is higher stays.
    Counters(Counters),
    /// Writes one field.
    Field(FieldRow),
    /// Removes the field of this name, if there is one; the items of its lists stay rows without a list.
    DropField(String),
    /// Adds an item. Its number must be free.
    Item(ListItemRow),
    /// Gives an item, which has none, its place in a list.
    Place {
        /// The item's number.
        item: u64,
        /// Its place.
        placement: ItemPlacement,
    },
    /// Replaces the side record of an item (D17). The item must exist.
    Side {
        /// The item's number.
        item: u64,
        /// The new side record.
        side: JsonDocument,
    },
    /// Writes a turn.
    Turn(TurnRow),
    /// Takes the idempotency key off a turn, so that it is free again (D3).
    FreeKey {
        /// The turn's number.
        turn: u64,
    },
    /// Writes a wait.
    Wait(WaitRow),
    /// Keeps an early signal, whatever was kept of its id.
    Mail(EarlySignalRow),
    /// Removes the early signal of this id, if there is one.
    DropMail(String),
    /// Writes where an invocation stands, whatever stood there.
    Position(PositionRow),
    /// Removes the position of an invocation, if there is one.
    DropPosition(InvocationId),
    /// Writes a record, whatever stood there.
    Record(RecordRow),
    /// Removes all records of a turn.
    DropRecords {
        /// The turn's number.
        turn: u64,
    },
    /// Adds an event. Its sequence number must be free.
    Event(EventRow),
    /// Copies the beginning of a list of another session of the tenant, as it is when the batch is written: every item
    /// with its number, turn, place, body and side record (D12). Items and places must be free; a list that is shorter
    /// refuses the batch. The field is put apart. Blobs of the other session that the batch leaves named in this one
    /// ([`DocumentStore`](crate::DocumentStore)) are used by both; for that alone, none may be inherited.
    Inherit {
        /// The other session.
        from: SessionId,
        /// The field, of the same name in both.
        field: String,
        /// The generation of its rows, the same in both.
        generation: u64,
        /// How many items.
        len: u64,
    },
    /// Removes a turn and the rows that belong to it alone: its idempotency key, its waits, its records, and the items
    /// that it made and that have no place. Removing an absent turn succeeds. The batch is refused if the turn's
    /// invocation is not over, because one of its turns has no outcome or one of its waits is pending.
    DropTurn {
        /// The turn's number.
        turn: u64,
    },
    /// Removes the events with a lower sequence number.
    DropEvents {
        /// The lowest number that stays.
        before: u64,
    },
    /// Adds usage of a model to the totals of the session and of its tenant.
    Usage(UsageRow),
    /// Removes the session and all its rows, except its next free numbers, which contain no content. The usage totals
    /// of its tenant stay. A later head creates the session anew. Deleting an absent session succeeds.
    Delete,
    /// Writes a document of the session's tenant and replaces the stored one. The session need not exist
    /// ([`DocumentStore`](crate::DocumentStore)). With it, follow-up work or facts about a transition are stored in the same
    /// transaction.
    Document {
        /// Its kind.
        kind: String,
        /// Its id, unique in tenant and kind.
        id: String,
        /// Its body.
        body: JsonDocument,
        /// The document expires at this time.
        expires_at: Option<Timestamp>,
        /// Whether it stays when the session is deleted; otherwise it belongs to the session.
        outlives: bool,
    },
    /// Adds an audit row, which outlives the session.
    Audit(AuditRow),
}

/// One transition of one session, to be committed whole or not at all (INV-3).
///
/// Requirements are checked first, all of them, on the state before the batch; puts are then applied in order.
/// Rows need a session: its head may stand before or behind them in the batch, but before a delete; else it is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Which session.
    pub key: SessionKey,
    /// The fence under which the writer holds the session ([`Journal::acquire`](crate::Journal::acquire)).
    pub fence: FencingToken,
    /// The preconditions.
    pub requires: Vec<BatchPrecondition>,
    /// The rows to write or to remove.
    pub puts: Vec<RowMutation>,
}

impl Batch {
    /// Starts an empty batch.
    #[must_use]
    pub fn new(key: SessionKey, fence: FencingToken) -> Self {
        Self { key, fence, requires: Vec::new(), puts: Vec::new() }
    }

    /// Adds a requirement.
    #[must_use]
    pub fn require(mut self, require: BatchPrecondition) -> Self {
        self.requires.push(require);
        self
    }

    /// Adds a put.
    pub fn put(&mut self, put: RowMutation) -> &mut Self {
        self.puts.push(put);
        self
    }
}
