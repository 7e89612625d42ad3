//! Checkpoints in memory.

use super::{MemoryStore, now};
use crate::{
    BoxFuture, CheckpointFilter, CheckpointRecord, CheckpointSummary, Checkpointer, InvocationId, Result,
    TenantId,
};

impl Checkpointer for MemoryStore {
    fn save<'a>(&'a self, tenant: &'a TenantId, record: &'a CheckpointRecord) -> BoxFuture<'a, Result<()>> {
        now(self.writable().map(|mut state| {
            state.checkpoints.insert((tenant.clone(), record.invocation_id.clone()), record.clone());
        }))
    }

    fn load<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, Result<Option<CheckpointRecord>>> {
        now(Ok(self.state().checkpoints.get(&(tenant.clone(), invocation.clone())).cloned()))
    }

    fn list<'a>(
        &'a self,
        tenant: &'a TenantId,
        filter: &'a CheckpointFilter,
    ) -> BoxFuture<'a, Result<Vec<CheckpointSummary>>> {
        let state = self.state();
        let of_tenant = state.checkpoints.iter().filter(|((of, _), _)| of == tenant);
        let summaries = of_tenant.map(|(_, it)| it.summary()).filter(|it| filter.passes(it));
        now(Ok(summaries.collect()))
    }

    fn delete<'a>(&'a self, tenant: &'a TenantId, invocation: &'a InvocationId) -> BoxFuture<'a, Result<()>> {
        now(self.writable().map(|mut state| {
            state.checkpoints.remove(&(tenant.clone(), invocation.clone()));
        }))
    }

    fn backend(&self) -> &str {
        "memory"
    }
}
