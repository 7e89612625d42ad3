//! A store over another one, of which only some calls differ.

use std::fmt;

use crate::{
    Batch, BoxFuture, Counters, Dossier, EventRow, Fence, InvocationId, ItemRange, ItemRow, Journal, MailRow,
    PositionRow, RecordRow, Result, SessionId, SessionKey, SessionPage, SessionRow, TenantId, Timestamp,
    TurnQuery, TurnRow, Upkeep, UsageOf, UsageRow, WaitQuery, WaitRow,
};

/// Which read of a store is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Read {
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
    /// [`Upkeep::ownerless`].
    Ownerless,
    /// [`Upkeep::deadlines`].
    Deadlines,
    /// [`Upkeep::tenants`].
    Tenants,
}

/// A store that wraps another one and observes its calls. An implementation gets [`Journal`] and [`Upkeep`] for free.
/// For tests and measurements; fence and epoch are those of the wrapped store.
pub trait Layer: fmt::Debug + Send + Sync {
    /// Returns the journal below.
    fn journal(&self) -> &dyn Journal;

    /// Returns the upkeep below.
    fn upkeep(&self) -> &dyn Upkeep;

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
        _: Read,
        answer: BoxFuture<'a, Result<T>>,
    ) -> BoxFuture<'a, Result<T>> {
        answer
    }
}

impl<L: Layer> Journal for L {
    fn fence(&self) -> Fence {
        self.journal().fence()
    }

    fn log_epoch(&self) -> &str {
        self.journal().log_epoch()
    }

    fn apply(&self, batch: Batch) -> BoxFuture<'static, Result<()>> {
        self.write(batch)
    }

    fn session<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<Option<SessionRow>>> {
        self.read(Read::Session, self.journal().session(key))
    }

    fn dossier<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<Dossier>> {
        self.read(Read::Dossier, self.journal().dossier(key))
    }

    fn numbers<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<Counters>> {
        self.read(Read::Numbers, self.journal().numbers(key))
    }

    fn sessions<'a>(
        &'a self,
        tenant: &'a TenantId,
        from: Option<&'a SessionId>,
        limit: u64,
    ) -> BoxFuture<'a, Result<SessionPage>> {
        self.read(Read::Sessions, self.journal().sessions(tenant, from, limit))
    }

    fn recent<'a>(
        &'a self,
        tenant: &'a TenantId,
        past: Option<&'a (Timestamp, SessionId)>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<SessionRow>>> {
        self.read(Read::Recent, self.journal().recent(tenant, past, limit))
    }

    fn items<'a>(&'a self, key: &'a SessionKey, range: &'a ItemRange) -> BoxFuture<'a, Result<Vec<ItemRow>>> {
        self.read(Read::Items, self.journal().items(key, range))
    }

    fn turns<'a>(&'a self, key: &'a SessionKey, query: &'a TurnQuery) -> BoxFuture<'a, Result<Vec<TurnRow>>> {
        self.read(Read::Turns, self.journal().turns(key, query))
    }

    fn session_of<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, Result<Option<SessionKey>>> {
        self.read(Read::SessionOf, self.journal().session_of(tenant, invocation))
    }

    fn waits<'a>(&'a self, query: &'a WaitQuery) -> BoxFuture<'a, Result<Vec<(SessionKey, WaitRow)>>> {
        self.read(Read::Waits, self.journal().waits(query))
    }

    fn mail<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<Vec<MailRow>>> {
        self.read(Read::Mail, self.journal().mail(key))
    }

    fn position<'a>(
        &'a self,
        key: &'a SessionKey,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, Result<Option<PositionRow>>> {
        self.read(Read::Position, self.journal().position(key, invocation))
    }

    fn positions<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<Vec<PositionRow>>> {
        self.read(Read::Positions, self.journal().positions(key))
    }

    fn records<'a>(&'a self, key: &'a SessionKey, turn: u64) -> BoxFuture<'a, Result<Vec<RecordRow>>> {
        self.read(Read::Records, self.journal().records(key, turn))
    }

    fn events<'a>(
        &'a self,
        key: &'a SessionKey,
        from: u64,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<EventRow>>> {
        self.read(Read::Events, self.journal().events(key, from, limit))
    }

    fn usage<'a>(&'a self, of: &'a UsageOf) -> BoxFuture<'a, Result<Vec<UsageRow>>> {
        self.read(Read::Usage, self.journal().usage(of))
    }
}

impl<L: Layer> Upkeep for L {
    fn ownerless<'a>(
        &'a self,
        past: Option<&'a (SessionKey, u64)>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<(SessionKey, TurnRow)>>> {
        self.read(Read::Ownerless, self.upkeep().ownerless(past, limit))
    }

    fn deadlines<'a>(
        &'a self,
        until: Option<Timestamp>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<(SessionKey, WaitRow)>>> {
        self.read(Read::Deadlines, self.upkeep().deadlines(until, limit))
    }

    fn tenants<'a>(&'a self, past: Option<&'a TenantId>, limit: u64) -> BoxFuture<'a, Result<Vec<TenantId>>> {
        self.read(Read::Tenants, self.upkeep().tenants(past, limit))
    }
}
