//! The checkpointer of a test.

use singletree_durable::{
    BoxFuture, CheckpointFilter, CheckpointRecord, CheckpointSummary, Checkpointer, InvocationId, Result,
    TenantId,
};

use crate::TestStore;

impl Checkpointer for TestStore {
    fn save<'a>(&'a self, tenant: &'a TenantId, record: &'a CheckpointRecord) -> BoxFuture<'a, Result<()>> {
        self.write_if_polled(|| self.checkpoints().save(tenant, record))
    }

    fn load<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, Result<Option<CheckpointRecord>>> {
        self.call(|| self.checkpoints().load(tenant, invocation))
    }

    fn list<'a>(
        &'a self,
        tenant: &'a TenantId,
        filter: &'a CheckpointFilter,
    ) -> BoxFuture<'a, Result<Vec<CheckpointSummary>>> {
        self.call(|| self.checkpoints().list(tenant, filter))
    }

    fn delete<'a>(&'a self, tenant: &'a TenantId, invocation: &'a InvocationId) -> BoxFuture<'a, Result<()>> {
        self.write_if_polled(|| self.checkpoints().delete(tenant, invocation))
    }

    fn supports_state_migration(&self) -> bool {
        self.checkpoints().supports_state_migration()
    }
}
