//! The calls across tenants: the sweep's and the deadlines'.

use singletree_durable::{
    BoxFuture, JournalMaintenance, Result, SessionKey, TenantId, Timestamp, TurnRow, WaitRow,
};

use crate::{SqliteStore, read};

impl JournalMaintenance for SqliteStore {
    fn read_ownerless_turns<'a>(
        &'a self,
        past: Option<&'a (SessionKey, u64)>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<(SessionKey, TurnRow)>>> {
        let (past, fence) = (past.cloned(), self.metadata().fence);
        self.query_in_snapshot(move |snapshot| {
            read::turn::read_ownerless_turns(snapshot, fence, past.as_ref(), limit)
        })
    }

    fn read_waits_by_deadline<'a>(
        &'a self,
        until: Option<Timestamp>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<(SessionKey, WaitRow)>>> {
        self.query_in_snapshot(move |snapshot| read::wait::read_waits_by_deadline(snapshot, until, limit))
    }

    fn read_tenants<'a>(
        &'a self,
        past: Option<&'a TenantId>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<TenantId>>> {
        let past = past.cloned();
        self.query_in_snapshot(move |snapshot| read::session::read_tenants(snapshot, past.as_ref(), limit))
    }
}
