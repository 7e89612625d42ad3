//! A store of paused records that breaks one promise.

use std::sync::Arc;

use singletree_durable::{
    BoxFuture, InvocationId, JsonDocument, PausedRecord, PausedStatus, PausedStore, Result, TenantId,
};

use super::{ClauseFault, ContractClause, sabotage_error};

#[derive(Debug)]
pub(super) struct FaultyPausedStore {
    pub(super) inner: Arc<dyn PausedStore>,
    pub(super) trick: ClauseFault,
}

impl FaultyPausedStore {
    /// Returns the record of another tenant's invocation of the same name.
    async fn load_of_other_tenant(
        &self,
        tenant: &TenantId,
        of: &InvocationId,
    ) -> Result<Option<PausedRecord>> {
        let other = {
            let memo = self.trick.lock_history();
            memo.paused.iter().find(|(it, name)| it != tenant && name == of).map(|(it, _)| it.clone())
        };
        match other {
            Some(other) => self.inner.load(&other, of).await,
            None => Ok(None),
        }
    }
}

impl PausedStore for FaultyPausedStore {
    fn save<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
        record: &'a PausedRecord,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let is_new = self.trick.lock_history().paused.insert((tenant.clone(), invocation.clone()));
            if !is_new && self.trick.breaks_clause(ContractClause::PausedOverwrites) {
                return Ok(());
            }
            self.inner.save(tenant, invocation, record).await
        })
    }

    fn load<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, Result<Option<PausedRecord>>> {
        Box::pin(async move {
            let mut record = self.inner.load(tenant, invocation).await?;
            if self.trick.breaks_clause(ContractClause::PausedLoads)
                && let Some(record) = record.as_mut().filter(|record| record.status == PausedStatus::Errored)
                && record.body.as_str() == "\"d\""
            {
                record.status = PausedStatus::Completed;
            }
            if self.trick.breaks_clause(ContractClause::PausedDurable)
                && self.trick.lock_history().is_reopened
            {
                record = None;
            }
            if self.trick.breaks_clause(ContractClause::PausedTenantsApart) && record.is_none() {
                record = self.load_of_other_tenant(tenant, invocation).await?;
            }
            Ok(record)
        })
    }

    fn claim<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, Result<Option<PausedRecord>>> {
        let call = self.trick.begin_call();
        Box::pin(async move {
            let is_alone = call.is_alone();
            let mut claimed = self.inner.claim(tenant, invocation).await?;
            if claimed.is_none() {
                let stored = self.inner.load(tenant, invocation).await?;
                return Ok(stored.filter(|stored| match self.trick.broken {
                    Some(ContractClause::PausedClaimRefused) => stored.status == PausedStatus::Completed,
                    Some(ContractClause::PausedClaimedOnce) => !is_alone,
                    _ => false,
                }));
            }
            if let Some(record) =
                claimed.as_mut().filter(|_| self.trick.breaks_clause(ContractClause::PausedClaimed))
            {
                record.status = PausedStatus::Resuming;
            }
            Ok(claimed)
        })
    }

    fn close<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
        status: PausedStatus,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let is_absent = self.inner.load(tenant, invocation).await?.is_none();
            if is_absent && self.trick.breaks_clause(ContractClause::PausedCloseAbsent) {
                let record = PausedRecord { status, body: JsonDocument::from_text("null") };
                return self.inner.save(tenant, invocation, &record).await;
            }
            if self.trick.breaks_clause(ContractClause::PausedClosed) {
                return Ok(());
            }
            self.inner.close(tenant, invocation, status).await
        })
    }

    fn delete<'a>(&'a self, tenant: &'a TenantId, invocation: &'a InvocationId) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let is_absent = self.inner.load(tenant, invocation).await?.is_none();
            if is_absent && self.trick.breaks_clause(ContractClause::PausedDeleteIdempotent) {
                return Err(sabotage_error());
            }
            if !is_absent && self.trick.breaks_clause(ContractClause::PausedDeleted) {
                return Ok(());
            }
            self.inner.delete(tenant, invocation).await
        })
    }
}
