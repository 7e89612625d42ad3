//! The calls across tenants: the sweep's and the deadlines'.

use singletree_durable::{
    BoxFuture, JournalMaintenance, Result, SessionKey, TenantId, Timestamp, TurnRow, WaitRow,
};

use crate::PostgresStore;

impl JournalMaintenance for PostgresStore {
    fn read_ownerless_turns<'a>(
        &'a self,
        past: Option<&'a (SessionKey, u64)>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<(SessionKey, TurnRow)>>> {
        Box::pin(self.inner().read_ownerless_turns(past, limit))
    }

    fn read_waits_by_deadline<'a>(
        &'a self,
        until: Option<Timestamp>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<(SessionKey, WaitRow)>>> {
        Box::pin(self.inner().read_waits_by_deadline(until, limit))
    }

    fn read_tenants<'a>(
        &'a self,
        past: Option<&'a TenantId>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<TenantId>>> {
        Box::pin(self.inner().read_tenants(past, limit))
    }
}
