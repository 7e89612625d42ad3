//! The calls across tenants: the sweep's and the deadlines'.

use singletree_durable::{
    BoxFuture, JournalMaintenance, Result, SessionKey, TenantId, Timestamp, TurnRow, WaitRow,
};

use crate::{SqliteStore, read};

impl JournalMaintenance for SqliteStore {
    fn ownerless<'a>(
        &'a self,
        past: Option<&'a (SessionKey, u64)>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<(SessionKey, TurnRow)>>> {
        let (past, fence) = (past.cloned(), self.meta().fence);
        self.query(move |snapshot| read::turn::ownerless(snapshot, fence, past.as_ref(), limit))
    }

    fn deadlines<'a>(
        &'a self,
        until: Option<Timestamp>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<(SessionKey, WaitRow)>>> {
        self.query(move |snapshot| read::wait::deadlines(snapshot, until, limit))
    }

    fn tenants<'a>(&'a self, past: Option<&'a TenantId>, limit: u64) -> BoxFuture<'a, Result<Vec<TenantId>>> {
        let past = past.cloned();
        self.query(move |snapshot| read::session::tenants(snapshot, past.as_ref(), limit))
    }
}
