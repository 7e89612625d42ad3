//! Stores over other ones, of which only some calls differ.

use std::fmt;

use crate::{
    Batch, BoxFuture, Counters, EarlySignalRow, EventRow, FencingToken, InvocationId, ItemRange, Journal,
    JournalMaintenance, ListItemRow, PositionRow, RecordRow, Result, SessionId, SessionKey, SessionPage,
    SessionRow, SessionSnapshot, TenantId, Timestamp, TurnRow, TurnRowQuery, UsageRow, UsageRowQuery,
    WaitRow, WaitRowQuery,
};

/// Which read of a store is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JournalRead {
    /// [`Journal::session`].
    Session,
    /// [`Journal::dossier`].
    Dossier,
    /// [`Journal::numbers`].
    Numbers,
    /// [`Journal::sessions`].
    Sessions,
    /// [`Journal::recent`].
    Recent,
    /// [`Journal::items`].
    Items,
    /// [`Journal::turns`].
    Turns,
    /// [`Journal::session_of`].
    SessionOf,
    /// [`Journal::waits`].
    Waits,
    /// [`Journal::mail`].
    Mail,
    /// [`Journal::position`].
    Position,
    /// [`Journal::positions`].
    Positions,
    /// [`Journal::records`].
    Records,
    /// [`Journal::events`].
    Events,
    /// [`Journal::usage`].
    Usage,
    /// [`JournalMaintenance::ownerless`].
    Ownerless,
    /// [`JournalMaintenance::deadlines`].
    Deadlines,
    /// [`JournalMaintenance::tenants`].
    Tenants,
}

/// A journal over another one, which changes or observes some of its calls: the implementation of [`Journal`] follows
/// from this one, so that no wrapper lists the calls that it only forwards. Fence and epoch are those of the journal below.
pub trait JournalLayer: fmt::Debug + Send + Sync {
    /// The journal below.
    type Journal: Journal + ?Sized;

    /// Returns the journal below.
    fn journal(&self) -> &Self::Journal;

    /// Writes a batch; as it is, unless this is overridden.
    ///
    /// # Errors
    /// Those of the store below.
    fn write(&self, batch: Batch) -> BoxFuture<'static, Result<()>> {
        self.journal().apply(batch)
    }

    /// Receives every read before it is polled, and returns the future to run instead; by default the same one.
    fn read<'a, T: Send + 'a>(
        &'a self,
        _: JournalRead,
        answer: BoxFuture<'a, Result<T>>,
    ) -> BoxFuture<'a, Result<T>> {
        answer
    }
}

/// A [`JournalLayer`] that also forwards the calls across tenants: the implementation of [`JournalMaintenance`] follows
/// from this one, and its reads pass [`JournalLayer::read`].
pub trait MaintenanceLayer: JournalLayer {
    /// The store below.
    type Maintenance: JournalMaintenance + ?Sized;

    /// Returns the store below.
    fn maintenance(&self) -> &Self::Maintenance;
}

impl<L: JournalLayer> Journal for L {
    fn fence(&self) -> FencingToken {
        self.journal().fence()
    }

    fn log_epoch(&self) -> &str {
        self.journal().log_epoch()
    }

    fn apply(&self, batch: Batch) -> BoxFuture<'static, Result<()>> {
        self.write(batch)
    }

    fn session<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<Option<SessionRow>>> {
        self.read(JournalRead::Session, self.journal().session(key))
    }

    fn dossier<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<SessionSnapshot>> {
        self.read(JournalRead::Dossier, self.journal().dossier(key))
    }

    fn numbers<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<Counters>> {
        self.read(JournalRead::Numbers, self.journal().numbers(key))
    }

    fn sessions<'a>(
        &'a self,
        tenant: &'a TenantId,
        from: Option<&'a SessionId>,
        limit: u64,
    ) -> BoxFuture<'a, Result<SessionPage>> {
        self.read(JournalRead::Sessions, self.journal().sessions(tenant, from, limit))
    }

    fn recent<'a>(
        &'a self,
        tenant: &'a TenantId,
        past: Option<&'a (Timestamp, SessionId)>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<SessionRow>>> {
        self.read(JournalRead::Recent, self.journal().recent(tenant, past, limit))
    }

    fn items<'a>(
        &'a self,
        key: &'a SessionKey,
        range: &'a ItemRange,
    ) -> BoxFuture<'a, Result<Vec<ListItemRow>>> {
        self.read(JournalRead::Items, self.journal().items(key, range))
    }

    fn turns<'a>(
        &'a self,
        key: &'a SessionKey,
        query: &'a TurnRowQuery,
    ) -> BoxFuture<'a, Result<Vec<TurnRow>>> {
        self.read(JournalRead::Turns, self.journal().turns(key, query))
    }

    fn session_of<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, Result<Option<SessionKey>>> {
        self.read(JournalRead::SessionOf, self.journal().session_of(tenant, invocation))
    }

    fn waits<'a>(&'a self, query: &'a WaitRowQuery) -> BoxFuture<'a, Result<Vec<(SessionKey, WaitRow)>>> {
        self.read(JournalRead::Waits, self.journal().waits(query))
    }

    fn mail<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<Vec<EarlySignalRow>>> {
        self.read(JournalRead::Mail, self.journal().mail(key))
    }

    fn position<'a>(
        &'a self,
        key: &'a SessionKey,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, Result<Option<PositionRow>>> {
        self.read(JournalRead::Position, self.journal().position(key, invocation))
    }

    fn positions<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<Vec<PositionRow>>> {
        self.read(JournalRead::Positions, self.journal().positions(key))
    }

    fn records<'a>(&'a self, key: &'a SessionKey, turn: u64) -> BoxFuture<'a, Result<Vec<RecordRow>>> {
        self.read(JournalRead::Records, self.journal().records(key, turn))
    }

    fn events<'a>(
        &'a self,
        key: &'a SessionKey,
        from: u64,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<EventRow>>> {
        self.read(JournalRead::Events, self.journal().events(key, from, limit))
    }

    fn usage<'a>(&'a self, of: &'a UsageRowQuery) -> BoxFuture<'a, Result<Vec<UsageRow>>> {
        self.read(JournalRead::Usage, self.journal().usage(of))
    }
}

impl<L: MaintenanceLayer> JournalMaintenance for L {
    fn ownerless<'a>(
        &'a self,
        past: Option<&'a (SessionKey, u64)>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<(SessionKey, TurnRow)>>> {
        self.read(JournalRead::Ownerless, self.maintenance().ownerless(past, limit))
    }

    fn deadlines<'a>(
        &'a self,
        until: Option<Timestamp>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<(SessionKey, WaitRow)>>> {
        self.read(JournalRead::Deadlines, self.maintenance().deadlines(until, limit))
    }

    fn tenants<'a>(&'a self, past: Option<&'a TenantId>, limit: u64) -> BoxFuture<'a, Result<Vec<TenantId>>> {
        self.read(JournalRead::Tenants, self.maintenance().tenants(past, limit))
    }
}
