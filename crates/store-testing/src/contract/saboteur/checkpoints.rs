//! A checkpointer that breaks one promise.

use std::sync::Arc;

use singletree_durable::{
    BoxFuture, CheckpointFilter, CheckpointRecord, CheckpointSummary, Checkpointer, InvocationId, Result,
    TenantId,
};

use super::super::checkpoints::MARK;
use super::{ClauseFault, ContractClause, sabotage_error};

#[derive(Debug)]
pub(super) struct FaultyCheckpointer {
    pub(super) inner: Arc<dyn Checkpointer>,
    pub(super) trick: ClauseFault,
}

impl FaultyCheckpointer {
    /// Returns the record of another tenant's invocation of the same name.
    async fn load_of_other_tenant(
        &self,
        tenant: &TenantId,
        of: &InvocationId,
    ) -> Result<Option<CheckpointRecord>> {
        let other = {
            let memo = self.trick.lock_history();
            memo.checkpoints.iter().find(|(it, name)| it != tenant && name == of).map(|(it, _)| it.clone())
        };
        match other {
            Some(other) => self.inner.load(&other, of).await,
            None => Ok(None),
        }
    }
}

impl Checkpointer for FaultyCheckpointer {
    fn save<'a>(&'a self, tenant: &'a TenantId, record: &'a CheckpointRecord) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let name = (tenant.clone(), record.invocation_id.clone());
            let is_new = self.trick.lock_history().checkpoints.insert(name);
            if !is_new && self.trick.breaks_clause(ContractClause::CheckpointReplaces) {
                return Ok(());
            }
            self.inner.save(tenant, record).await
        })
    }

    fn load<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, Result<Option<CheckpointRecord>>> {
        Box::pin(async move {
            let mut record = self.inner.load(tenant, invocation).await?;
            if self.trick.breaks_clause(ContractClause::CheckpointLoads)
                && let Some(record) = record.as_mut().filter(|record| record.last_saved_at == MARK)
            {
                record.parent_states.reverse();
            }
            if self.trick.breaks_clause(ContractClause::CheckpointDurable)
                && self.trick.lock_history().is_reopened
            {
                record = None;
            }
            if self.trick.breaks_clause(ContractClause::CheckpointTenantsApart) && record.is_none() {
                record = self.load_of_other_tenant(tenant, invocation).await?;
            }
            Ok(record)
        })
    }

    fn list<'a>(
        &'a self,
        tenant: &'a TenantId,
        filter: &'a CheckpointFilter,
    ) -> BoxFuture<'a, Result<Vec<CheckpointSummary>>> {
        Box::pin(async move {
            let all = CheckpointFilter::default();
            let filter =
                if self.trick.breaks_clause(ContractClause::CheckpointFiltered) { &all } else { filter };
            let mut summaries = self.inner.list(tenant, filter).await?;
            if self.trick.breaks_clause(ContractClause::CheckpointListed) {
                summaries.reverse();
            }
            Ok(summaries)
        })
    }

    fn delete<'a>(&'a self, tenant: &'a TenantId, invocation: &'a InvocationId) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let is_absent = self.inner.load(tenant, invocation).await?.is_none();
            if is_absent && self.trick.breaks_clause(ContractClause::CheckpointDeleteIdempotent) {
                return Err(sabotage_error());
            }
            if !is_absent && self.trick.breaks_clause(ContractClause::CheckpointDeleted) {
                return Ok(());
            }
            self.inner.delete(tenant, invocation).await
        })
    }
}
