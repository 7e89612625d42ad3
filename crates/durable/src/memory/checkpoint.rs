//! Checkpoints in memory.

use super::{MemoryStore, ready_future};
use crate::{
    BoxFuture, CheckpointFilter, CheckpointRecord, CheckpointSummary, Checkpointer, InvocationId, Result,
    TenantId,
};

impl Checkpointer for MemoryStore {
    fn save<'a>(&'a self, tenant: &'a TenantId, record: &'a CheckpointRecord) -> BoxFuture<'a, Result<()>> {
        ready_future(self.lock_for_writing().map(|mut state| {
            state.checkpoints.insert((tenant.clone(), record.invocation_id.clone()), record.clone());
        }))
    }

    fn load<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, Result<Option<CheckpointRecord>>> {
        ready_future(Ok(self.lock_tables().checkpoints.get(&(tenant.clone(), invocation.clone())).cloned()))
    }

    fn list<'a>(
        &'a self,
        tenant: &'a TenantId,
        filter: &'a CheckpointFilter,
    ) -> BoxFuture<'a, Result<Vec<CheckpointSummary>>> {
        let state = self.lock_tables();
        let of_tenant = state.checkpoints.iter().filter(|((of, _), _)| of == tenant);
        let summaries = of_tenant.map(|(_, it)| it.to_summary()).filter(|it| filter.matches_summary(it));
        ready_future(Ok(summaries.collect()))
    }

    fn delete<'a>(&'a self, tenant: &'a TenantId, invocation: &'a InvocationId) -> BoxFuture<'a, Result<()>> {
        ready_future(self.lock_for_writing().map(|mut state| {
            state.checkpoints.remove(&(tenant.clone(), invocation.clone()));
        }))
    }

    fn backend_name(&self) -> &str {
        "memory"
    }
}
