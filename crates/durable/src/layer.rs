//! Stores over other ones, of which only some calls differ.

use std::fmt;

use crate::{
    AcquiredSession, Batch, BoxFuture, ChangeFollower, Counters, EarlySignalRow, EventRow, FencingToken,
    InvocationId, ItemRange, Journal, JournalMaintenance, ListItemRow, LoggedTurn, LoggedTurnQuery,
    PositionRow, RecordRow, Result, ServedGraphs, SessionId, SessionKey, SessionPage, SessionRow,
    SessionSnapshot, TenantId, Timestamp, TurnRow, TurnRowQuery, UsageRow, UsageRowQuery, WaitRow,
    WaitRowQuery,
};

/// Which read of a store is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JournalRead {
    /// [`Journal::acquire`], which reads what it acquires.
    Acquire,
    /// [`Journal::read_newest_fence`].
    Fence,
    /// [`Journal::read_session`].
    Session,
    /// [`Journal::read_session_snapshot`].
    Dossier,
    /// [`Journal::read_counters`].
    Numbers,
    /// [`Journal::read_session_page`].
    Sessions,
    /// [`Journal::read_recent_sessions`].
    Recent,
    /// [`Journal::read_items`].
    Items,
    /// [`Journal::read_turns`].
    Turns,
    /// [`Journal::find_session_of_invocation`].
    SessionOf,
    /// [`Journal::read_waits`].
    Waits,
    /// [`Journal::read_early_signals`].
    Mail,
    /// [`Journal::read_position`].
    Position,
    /// [`Journal::read_positions`].
    Positions,
    /// [`Journal::read_turn_records`].
    Records,
    /// [`Journal::read_events`].
    Events,
    /// [`Journal::read_logged_turns`].
    LoggedTurns,
    /// [`Journal::read_model_usage`].
    Usage,
    /// [`JournalMaintenance::read_ownerless_turns`].
    Ownerless,
    /// [`JournalMaintenance::read_waits_by_deadline`].
    Deadlines,
    /// [`JournalMaintenance::read_tenants`].
    Tenants,
}

/// A journal over another one, which changes or observes some of its calls: the implementation of [`Journal`] follows
/// from this one, so that no wrapper lists the calls that it only forwards. Leases are those of the journal below unless it
/// overrides them; the epoch always is.
pub trait JournalLayer: fmt::Debug + Send + Sync {
    /// The journal below.
    type Journal: Journal + ?Sized;

    /// Returns the journal below.
    fn inner_journal(&self) -> &Self::Journal;

    /// Writes a batch; as it is, unless this is overridden.
    ///
    /// # Errors
    /// Those of the store below.
    fn write_batch(&self, batch: Batch) -> BoxFuture<'static, Result<()>> {
        self.inner_journal().apply(batch)
    }

    /// Acquires a session; as the journal below does, as a read, unless this is overridden.
    ///
    /// # Errors
    /// Those of the store below.
    fn acquire_session<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<AcquiredSession>> {
        self.wrap_read(JournalRead::Acquire, self.inner_journal().acquire(key))
    }

    /// Releases sessions; as the journal below does, unless this is overridden.
    ///
    /// # Errors
    /// Those of the store below.
    fn release_sessions(&self, keys: Vec<SessionKey>) -> BoxFuture<'static, Result<()>> {
        self.inner_journal().release(keys)
    }

    /// Tells whether other processes may write the same data; as the journal below does, unless this is overridden.
    fn is_shared(&self) -> bool {
        self.inner_journal().has_other_writers()
    }

    /// Returns a reader of the commits of all processes; that of the journal below, unless this is overridden.
    fn make_change_follower(&self) -> Option<Box<dyn ChangeFollower>> {
        self.inner_journal().follow_changes()
    }

    /// Announces which work this process can go on with; to the journal below, unless this is overridden.
    fn announce_served_graphs(&self, served: ServedGraphs) {
        self.inner_journal().announce_graphs(served);
    }

    /// Checks that a session is still held; as the journal below does, unless this is overridden.
    ///
    /// # Errors
    /// Those of the store below.
    fn check_session_lease<'a>(
        &'a self,
        key: &'a SessionKey,
        fence: FencingToken,
    ) -> BoxFuture<'a, Result<()>> {
        self.inner_journal().check_lease(key, fence)
    }

    /// Receives every read before it is polled, and returns the future to run instead; by default the same one.
    fn wrap_read<'a, T: Send + 'a>(
        &'a self,
        _: JournalRead,
        answer: BoxFuture<'a, Result<T>>,
    ) -> BoxFuture<'a, Result<T>> {
        answer
    }
}

/// A [`JournalLayer`] that also forwards the calls across tenants: the implementation of [`JournalMaintenance`] follows
/// from this one, and its reads pass [`JournalLayer::wrap_read`].
pub trait MaintenanceLayer: JournalLayer {
    /// The store below.
    type Maintenance: JournalMaintenance + ?Sized;

    /// Returns the store below.
    fn inner_maintenance(&self) -> &Self::Maintenance;

    /// Returns the open turns that no living process owns; those of the store below, unless this is overridden.
    ///
    /// # Errors
    /// Those of the store below.
    fn find_ownerless_turns<'a>(
        &'a self,
        past: Option<&'a (SessionKey, u64)>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<(SessionKey, TurnRow)>>> {
        self.inner_maintenance().read_ownerless_turns(past, limit)
    }
}

impl<L: JournalLayer> Journal for L {
    fn acquire<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<AcquiredSession>> {
        self.acquire_session(key)
    }

    fn release(&self, keys: Vec<SessionKey>) -> BoxFuture<'static, Result<()>> {
        self.release_sessions(keys)
    }

    fn read_newest_fence(&self) -> BoxFuture<'_, Result<FencingToken>> {
        self.wrap_read(JournalRead::Fence, self.inner_journal().read_newest_fence())
    }

    fn has_other_writers(&self) -> bool {
        self.is_shared()
    }

    fn follow_changes(&self) -> Option<Box<dyn ChangeFollower>> {
        self.make_change_follower()
    }

    fn check_lease<'a>(&'a self, key: &'a SessionKey, fence: FencingToken) -> BoxFuture<'a, Result<()>> {
        self.check_session_lease(key, fence)
    }

    fn announce_graphs(&self, served: ServedGraphs) {
        self.announce_served_graphs(served);
    }

    fn log_epoch(&self) -> &str {
        self.inner_journal().log_epoch()
    }

    fn apply(&self, batch: Batch) -> BoxFuture<'static, Result<()>> {
        self.write_batch(batch)
    }

    fn read_session<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<Option<SessionRow>>> {
        self.wrap_read(JournalRead::Session, self.inner_journal().read_session(key))
    }

    fn read_session_snapshot<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<SessionSnapshot>> {
        self.wrap_read(JournalRead::Dossier, self.inner_journal().read_session_snapshot(key))
    }

    fn read_counters<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<Counters>> {
        self.wrap_read(JournalRead::Numbers, self.inner_journal().read_counters(key))
    }

    fn read_session_page<'a>(
        &'a self,
        tenant: &'a TenantId,
        from: Option<&'a SessionId>,
        limit: u64,
    ) -> BoxFuture<'a, Result<SessionPage>> {
        self.wrap_read(JournalRead::Sessions, self.inner_journal().read_session_page(tenant, from, limit))
    }

    fn read_recent_sessions<'a>(
        &'a self,
        tenant: &'a TenantId,
        past: Option<&'a (Timestamp, SessionId)>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<SessionRow>>> {
        self.wrap_read(JournalRead::Recent, self.inner_journal().read_recent_sessions(tenant, past, limit))
    }

    fn read_items<'a>(
        &'a self,
        key: &'a SessionKey,
        range: &'a ItemRange,
    ) -> BoxFuture<'a, Result<Vec<ListItemRow>>> {
        self.wrap_read(JournalRead::Items, self.inner_journal().read_items(key, range))
    }

    fn read_turns<'a>(
        &'a self,
        key: &'a SessionKey,
        query: &'a TurnRowQuery,
    ) -> BoxFuture<'a, Result<Vec<TurnRow>>> {
        self.wrap_read(JournalRead::Turns, self.inner_journal().read_turns(key, query))
    }

    fn find_session_of_invocation<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, Result<Option<SessionKey>>> {
        self.wrap_read(
            JournalRead::SessionOf,
            self.inner_journal().find_session_of_invocation(tenant, invocation),
        )
    }

    fn read_waits<'a>(
        &'a self,
        query: &'a WaitRowQuery,
    ) -> BoxFuture<'a, Result<Vec<(SessionKey, WaitRow)>>> {
        self.wrap_read(JournalRead::Waits, self.inner_journal().read_waits(query))
    }

    fn read_early_signals<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<Vec<EarlySignalRow>>> {
        self.wrap_read(JournalRead::Mail, self.inner_journal().read_early_signals(key))
    }

    fn read_position<'a>(
        &'a self,
        key: &'a SessionKey,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, Result<Option<PositionRow>>> {
        self.wrap_read(JournalRead::Position, self.inner_journal().read_position(key, invocation))
    }

    fn read_positions<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<Vec<PositionRow>>> {
        self.wrap_read(JournalRead::Positions, self.inner_journal().read_positions(key))
    }

    fn read_turn_records<'a>(
        &'a self,
        key: &'a SessionKey,
        turn: u64,
    ) -> BoxFuture<'a, Result<Vec<RecordRow>>> {
        self.wrap_read(JournalRead::Records, self.inner_journal().read_turn_records(key, turn))
    }

    fn read_events<'a>(
        &'a self,
        key: &'a SessionKey,
        from: u64,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<EventRow>>> {
        self.wrap_read(JournalRead::Events, self.inner_journal().read_events(key, from, limit))
    }

    fn read_logged_turns<'a>(
        &'a self,
        queries: &'a [LoggedTurnQuery],
    ) -> BoxFuture<'a, Result<Vec<LoggedTurn>>> {
        self.wrap_read(JournalRead::LoggedTurns, self.inner_journal().read_logged_turns(queries))
    }

    fn read_model_usage<'a>(&'a self, of: &'a UsageRowQuery) -> BoxFuture<'a, Result<Vec<UsageRow>>> {
        self.wrap_read(JournalRead::Usage, self.inner_journal().read_model_usage(of))
    }
}

impl<L: MaintenanceLayer> JournalMaintenance for L {
    fn read_ownerless_turns<'a>(
        &'a self,
        past: Option<&'a (SessionKey, u64)>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<(SessionKey, TurnRow)>>> {
        self.wrap_read(JournalRead::Ownerless, self.find_ownerless_turns(past, limit))
    }

    fn read_waits_by_deadline<'a>(
        &'a self,
        until: Option<Timestamp>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<(SessionKey, WaitRow)>>> {
        self.wrap_read(JournalRead::Deadlines, self.inner_maintenance().read_waits_by_deadline(until, limit))
    }

    fn read_tenants<'a>(
        &'a self,
        past: Option<&'a TenantId>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<TenantId>>> {
        self.wrap_read(JournalRead::Tenants, self.inner_maintenance().read_tenants(past, limit))
    }
}
