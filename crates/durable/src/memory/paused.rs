//! Paused records in memory.

use super::{MemoryStore, ready_future};
use crate::{BoxFuture, InvocationId, PausedRecord, PausedStatus, PausedStore, Result, TenantId};

impl PausedStore for MemoryStore {
    fn save<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
        record: &'a PausedRecord,
    ) -> BoxFuture<'a, Result<()>> {
        ready_future(self.lock_for_writing().map(|mut state| {
            state.paused.insert((tenant.clone(), invocation.clone()), record.clone());
        }))
    }

    fn load<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, Result<Option<PausedRecord>>> {
        ready_future(Ok(self.lock_tables().paused.get(&(tenant.clone(), invocation.clone())).cloned()))
    }

    fn claim<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, Result<Option<PausedRecord>>> {
        ready_future(self.lock_for_writing().map(|mut state| {
            let record = state.paused.get_mut(&(tenant.clone(), invocation.clone()))?;
            if record.status != PausedStatus::Suspended {
                return None;
            }
            let was = record.clone();
            record.status = PausedStatus::Resuming;
            Some(was)
        }))
    }

    fn close<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
        status: PausedStatus,
    ) -> BoxFuture<'a, Result<()>> {
        ready_future(self.lock_for_writing().map(|mut state| {
            if let Some(record) = state.paused.get_mut(&(tenant.clone(), invocation.clone())) {
                record.status = status;
            }
        }))
    }

    fn delete<'a>(&'a self, tenant: &'a TenantId, invocation: &'a InvocationId) -> BoxFuture<'a, Result<()>> {
        ready_future(self.lock_for_writing().map(|mut state| {
            state.paused.remove(&(tenant.clone(), invocation.clone()));
        }))
    }
}
