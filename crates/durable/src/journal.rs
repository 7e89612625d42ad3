//! The journal: one write and a handful of reads.

use std::fmt;
use std::future::ready;

use singletree_env::BoxFuture;

use crate::dossier;
use crate::{
    AcquiredSession, Batch, ChangeFollower, Counters, EarlySignalRow, EventRow, FencingToken, InvocationId,
    ListItemRow, PositionRow, RecordRow, Result, ServedGraphs, SessionId, SessionKey, SessionRow,
    SessionSnapshot, TenantId, Timestamp, TurnRow, UsageRow, WaitRow,
};

/// Which items of a session to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ItemRange {
    /// Those placed in a list, from a sequence number on, ordered by sequence number.
    List {
        /// The field.
        field: String,
        /// The generation of its rows.
        generation: u64,
        /// The first sequence number.
        from: u64,
        /// At most this many.
        limit: u64,
    },
    /// As `List`, but bounded by bytes, too: an item is read while those before it have fewer than `bytes` together,
    /// their bodies and side records. At least one is read, if there is one.
    Page {
        /// The field.
        field: String,
        /// The generation of its rows.
        generation: u64,
        /// The first sequence number.
        from: u64,
        /// At most this many.
        limit: u64,
        /// No further item once there are so many bytes.
        bytes: u64,
    },
    /// The last ones before a sequence number, bounded as `Page` is, from the last one back; ordered by sequence number
    /// all the same.
    PageBefore {
        /// The field.
        field: String,
        /// The generation of its rows.
        generation: u64,
        /// The sequence number past the last.
        before: u64,
        /// At most this many.
        limit: u64,
        /// No further item once there are so many bytes.
        bytes: u64,
    },
    /// Those of these numbers (from, to; to is past the end), ordered by number, placed or not.
    Numbers {
        /// The first number.
        from: u64,
        /// The number past the last.
        to: u64,
    },
    /// Those made by one turn, ordered by number. For audits: a store may go through all items of the session.
    Turn(u64),
}

/// Which turns of a session to read; ordered by number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnRowQuery {
    /// The one of this number.
    No(u64),
    /// The one that holds this idempotency key.
    Key(String),
    /// Those of this invocation.
    Invocation(InvocationId),
    /// Those without an outcome.
    Open,
    /// Those from this number on.
    From {
        /// The first number.
        no: u64,
        /// At most this many.
        limit: u64,
    },
}

/// Which waits to read; ordered by session and number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WaitRowQuery {
    /// The pending ones of a session.
    Pending(SessionKey),
    /// All pending ones of a tenant, at most this many.
    PendingOf(TenantId, u64),
    /// Those of a session with this signal id, whatever their status.
    Signal(SessionKey, String),
    /// The pending ones of a tenant with this signal id, at most this many.
    SignalOf(TenantId, String, u64),
    /// Those of an invocation of a tenant, whatever their status.
    Invocation(TenantId, InvocationId),
}

/// Whose use of models to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UsageRowQuery {
    /// A session's, since it was made.
    Session(SessionKey),
    /// A tenant's, since its first turn: also in sessions that were deleted.
    Tenant(TenantId),
}

/// One of several turns to read, with events of its session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedTurnQuery {
    /// The session.
    pub key: SessionKey,
    /// The number of the turn.
    pub no: u64,
    /// The sequence number of the first event.
    pub from: u64,
    /// At most this many events.
    pub limit: u64,
}

/// A turn with events of its session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedTurn {
    /// The turn, if there is one.
    pub turn: Option<TurnRow>,
    /// The events, ordered; those of other turns are among them.
    pub events: Vec<EventRow>,
}

/// One page of a tenant's sessions, ordered by session id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionPage {
    /// The sessions.
    pub sessions: Vec<SessionRow>,
    /// Where the next page begins, when there is one.
    pub next: Option<SessionId>,
}

/// Where the chat harness keeps everything: one write, and reads that see every write that was answered before them.
///
/// # Contract
/// - **Atomic.** `apply` writes all puts of a batch or none (INV-3). Batches that share a commit stand or fall alone
///   for their requirements; when the commit itself fails, all of them fail.
/// - **Ordered.** Batches of one session land in the order in which `apply` was *called* (not first polled): the place
///   in the order is taken before the future is returned.
/// - **Durable.** When `apply` has answered `Ok`, the batch survives the process, and for stores on disk (at their
///   default setting) a power loss.
/// - **Fenced.** A batch is taken only under the fence under which its session is held; otherwise it is refused with
///   [`Error::LeaseLost`](crate::Error::LeaseLost), whatever else it says.
/// - **Held by one.** [`Self::acquire`] ends the lease of any other handle. A batch under the earlier fence is either in
///   the snapshot that `acquire` returns or is never written.
/// - **Decided once.** Requirements are checked in the transaction that writes.
///   [`Error::Refused`](crate::Error::Refused) means that nothing was written: read again, decide again.
/// - **Never dropped.** Dropping the future of `apply` cancels nothing.
/// - **Read your writes.** A read that begins after an `apply` answered sees that batch whole.
/// - **Numbered once.** The next free numbers of a session only rise, and they outlive it: a session that is made under
///   the name of one that was deleted goes on from its numbers, in the batch that makes it. So no name of a turn, an
///   event or a wait that was given out comes to mean another.
/// - **Tenants apart.** No call with one tenant's key sees or changes a row of another (INV-14).
///
/// # Ownership
/// A handle owns sessions: one process that opened the store is one handle, whose clones are the same. What holds a
/// session is the handle, not the caller; callers that share a handle agree among themselves. Reading acquires nothing.
/// A handle that has lost the store as a whole is told [`Error::Fenced`](crate::Error::Fenced) by every write and by
/// `acquire`.
///
/// Errors by category: `store_refused`, `store_lease_lost`, `store_fenced`, `store_unavailable`, `store_corrupt`,
/// `store_closed`. The suite in the package `singletree-store-testing` checks every clause by name. This trait is not
/// under semantic versioning.
pub trait Journal: fmt::Debug + Send + Sync {
    /// Acquires a session, which need not exist, and reads it.
    ///
    /// The returned fence is higher than that of every other handle that has held the session, also in former
    /// processes; a handle that holds the session keeps its fence. The snapshot is read after that: it contains every
    /// batch that landed under an earlier fence.
    ///
    /// # Cancellation
    /// A dropped call has acquired nothing, or has acquired the session until the handle is closed.
    fn acquire<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<AcquiredSession>>;

    /// Gives sessions back. A session is held until it was released as often as it was acquired; releasing one that is
    /// not held succeeds. Batches that were submitted before still land.
    ///
    /// # Cancellation
    /// Dropping the future cancels nothing: the call itself releases.
    fn release(&self, keys: Vec<SessionKey>) -> BoxFuture<'static, Result<()>>;

    /// Reads a fence that is not lower than any that was given out: a stored turn of a higher fence is damaged.
    fn read_newest_fence(&self) -> BoxFuture<'_, Result<FencingToken>>;

    /// Tells whether other processes may write sessions of the same data while this handle is open: then turns end, and
    /// logs grow, without a call of this handle.
    fn has_other_writers(&self) -> bool {
        false
    }

    /// Returns a reader of the commits of all processes; none where no other process writes the same data, or where the store
    /// cannot tell.
    fn follow_changes(&self) -> Option<Box<dyn ChangeFollower>> {
        None
    }

    /// Checks that this handle still holds a session that it acquired under a fence, so that what it remembers of the
    /// session is what is stored. Where the lease of the process is to be renewed, and a quarter of it or less is left
    /// since the last renewal was sent, it is renewed first; otherwise nothing is asked. So a process that stood still
    /// answers nothing from memory that another one has changed. A store without other writers has nothing to check.
    ///
    /// Errors: `store_lease_lost`; `store_unavailable` when the lease could not be renewed.
    ///
    /// # Cancellation
    /// A dropped call has renewed the lease or has not.
    fn check_lease<'a>(&'a self, _: &'a SessionKey, _: FencingToken) -> BoxFuture<'a, Result<()>> {
        Box::pin(ready(Ok(())))
    }

    /// Tells the other processes over the same data which work this one can go on with, from now on; a later call replaces
    /// an earlier one. It is for processes that take over turns. They learn it soon, and forget it when this handle ends.
    ///
    /// A process that has announced its graphs is refused a session by [`Self::acquire`], with
    /// [`Error::HeldElsewhere`](crate::Error::HeldElsewhere), that no living process holds, when it cannot go on with it as it
    /// stands and another living process can: the error names that one. It depends on the first turn of the session that is
    /// accepted or waits for a signal: its agent has to be there, with the same graph. Without such a turn it is the
    /// session's agent, with the same version of the state. Where no living process can, every one gets the session, and
    /// decides by itself (D28). A store without other writers does nothing.
    fn announce_graphs(&self, _: ServedGraphs) {}

    /// Returns the epoch of event ids: drawn when the database was made, restored or imported, never per process. Two
    /// databases that go on from one copy have two epochs.
    fn log_epoch(&self) -> &str;

    /// Writes a batch. See the contract.
    fn apply(&self, batch: Batch) -> BoxFuture<'static, Result<()>>;

    /// Reads a session with its fields, without its items.
    fn read_session<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<Option<SessionRow>>>;

    /// Reads the data of a session that [`Self::acquire`] returns, at the price of one read, without acquiring the
    /// session. The default implementation reads the parts one after the other, so they may come from different moments;
    /// a writer whose batch is refused reads them again.
    fn read_session_snapshot<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<SessionSnapshot>> {
        Box::pin(dossier::gather_snapshot(self, key))
    }

    /// Reads the next free numbers of a session; of one that is absent those which one of its name left when it was
    /// deleted, and with which the next one will begin. A writer that makes a session numbers its rows from them.
    fn read_counters<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<Counters>>;

    /// Reads a page of a tenant's sessions, from this id on.
    fn read_session_page<'a>(
        &'a self,
        tenant: &'a TenantId,
        from: Option<&'a SessionId>,
        limit: u64,
    ) -> BoxFuture<'a, Result<SessionPage>>;

    /// Reads a tenant's sessions, ordered by the time of the last write of their state, newest first; among equal times
    /// the greater id comes first. Starts after the given place and returns at most `limit`. Meant for people who look
    /// for their latest conversation: a store may go through all sessions of the tenant.
    fn read_recent_sessions<'a>(
        &'a self,
        tenant: &'a TenantId,
        past: Option<&'a (Timestamp, SessionId)>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<SessionRow>>>;

    /// Reads items.
    fn read_items<'a>(
        &'a self,
        key: &'a SessionKey,
        range: &'a ItemRange,
    ) -> BoxFuture<'a, Result<Vec<ListItemRow>>>;

    /// Reads turns.
    fn read_turns<'a>(
        &'a self,
        key: &'a SessionKey,
        query: &'a TurnRowQuery,
    ) -> BoxFuture<'a, Result<Vec<TurnRow>>>;

    /// Finds the session that an invocation of a tenant belongs to.
    fn find_session_of_invocation<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, Result<Option<SessionKey>>>;

    /// Reads waits.
    fn read_waits<'a>(&'a self, query: &'a WaitRowQuery)
    -> BoxFuture<'a, Result<Vec<(SessionKey, WaitRow)>>>;

    /// Reads the early signals that a session keeps, ordered by signal id.
    fn read_early_signals<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<Vec<EarlySignalRow>>>;

    /// Reads where an invocation stands.
    fn read_position<'a>(
        &'a self,
        key: &'a SessionKey,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, Result<Option<PositionRow>>>;

    /// Reads all positions of a session, ordered by invocation: also those of which no turn tells.
    fn read_positions<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<Vec<PositionRow>>>;

    /// Reads the records of a turn, ordered by name.
    fn read_turn_records<'a>(
        &'a self,
        key: &'a SessionKey,
        turn: u64,
    ) -> BoxFuture<'a, Result<Vec<RecordRow>>>;

    /// Reads events with a sequence number of at least `from`, ordered, at most `limit`.
    fn read_events<'a>(
        &'a self,
        key: &'a SessionKey,
        from: u64,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<EventRow>>>;

    /// Reads several turns of any sessions, each as [`read_turns`](Self::read_turns) and [`read_events`](Self::read_events)
    /// would, in the order of the queries. A store reads them together, where that costs less.
    fn read_logged_turns<'a>(
        &'a self,
        queries: &'a [LoggedTurnQuery],
    ) -> BoxFuture<'a, Result<Vec<LoggedTurn>>> {
        Box::pin(async move {
            let mut turns = Vec::with_capacity(queries.len());
            for LoggedTurnQuery { key, no, from, limit } in queries {
                let turn = self.read_turns(key, &TurnRowQuery::No(*no)).await?.pop();
                turns.push(LoggedTurn { turn, events: self.read_events(key, *from, *limit).await? });
            }
            Ok(turns)
        })
    }

    /// Reads the usage of models, ordered by model. The cost does not depend on the number of turns or sessions.
    fn read_model_usage<'a>(&'a self, of: &'a UsageRowQuery) -> BoxFuture<'a, Result<Vec<UsageRow>>>;
}

/// The calls that look across tenants: sweep, deadlines, retention, doctor. Their results name the tenant (INV-14).
///
/// # Contract
/// As for [`Journal`]. All calls only read; the rows are changed by batches.
pub trait JournalMaintenance: fmt::Debug + Send + Sync {
    /// Reads turns without an outcome that nobody runs, ordered by session and number, from past the given one on: no
    /// living owner holds the session, or the turn has a lower fence than the one under which its session is held.
    fn read_ownerless_turns<'a>(
        &'a self,
        past: Option<&'a (SessionKey, u64)>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<(SessionKey, TurnRow)>>>;

    /// Reads pending waits that have a deadline, the earliest first.
    fn read_waits_by_deadline<'a>(
        &'a self,
        until: Option<Timestamp>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<(SessionKey, WaitRow)>>>;

    /// Reads the tenants that have sessions, ordered, from past the given one on, at most `limit`.
    fn read_tenants<'a>(
        &'a self,
        past: Option<&'a TenantId>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<TenantId>>>;
}
