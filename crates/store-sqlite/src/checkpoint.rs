//! The checkpointer of the pipeline-utilities specification (§10.1), beside the journal and through the same writer.

use singletree_durable::{
    BoxFuture, CheckpointFilter, CheckpointRecord, CheckpointSummary, Checkpointer, InvocationId, Result,
    TenantId,
};

use crate::apply::checkpoint::CheckpointChange;
use crate::writer::WriteOperation;
use crate::{SqliteStore, read};

impl Checkpointer for SqliteStore {
    fn save<'a>(&'a self, tenant: &'a TenantId, record: &'a CheckpointRecord) -> BoxFuture<'a, Result<()>> {
        let change = CheckpointChange::Save(Box::new(record.clone()));
        let answer = self.submit_write(WriteOperation::Checkpoint { tenant: tenant.clone(), change });
        Box::pin(async move { answer.await.map(drop) })
    }

    fn load<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, Result<Option<CheckpointRecord>>> {
        let (tenant, invocation) = (tenant.clone(), invocation.clone());
        self.query_in_snapshot(move |snapshot| {
            read::checkpoint::read_checkpoint(snapshot, &tenant, &invocation)
        })
    }

    fn list<'a>(
        &'a self,
        tenant: &'a TenantId,
        filter: &'a CheckpointFilter,
    ) -> BoxFuture<'a, Result<Vec<CheckpointSummary>>> {
        let (tenant, filter) = (tenant.clone(), filter.clone());
        self.query_in_snapshot(move |snapshot| read::checkpoint::list_checkpoints(snapshot, &tenant, &filter))
    }

    fn delete<'a>(&'a self, tenant: &'a TenantId, invocation: &'a InvocationId) -> BoxFuture<'a, Result<()>> {
        let change = CheckpointChange::Delete(invocation.clone());
        let answer = self.submit_write(WriteOperation::Checkpoint { tenant: tenant.clone(), change });
        Box::pin(async move { answer.await.map(drop) })
    }

    fn backend_name(&self) -> &str {
        "sqlite"
    }
}
