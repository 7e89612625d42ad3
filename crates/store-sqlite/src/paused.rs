//! The store of the suspension specification (suspension §7), beside the journal and through the same writer.

use singletree_durable::{
    BoxFuture, InvocationId, PausedRecord, PausedStatus, PausedStore, Result, TenantId,
};

use crate::apply::paused::Change;
use crate::writer::{Reply, Work};
use crate::{SqliteStore, read};

impl SqliteStore {
    fn pause(
        &self,
        tenant: &TenantId,
        invocation: &InvocationId,
        change: Change,
    ) -> BoxFuture<'static, Result<Option<PausedRecord>>> {
        let work = Work::Pause { tenant: tenant.clone(), invocation: invocation.clone(), change };
        let answer = self.hand_over(work);
        Box::pin(async move {
            Ok(match answer.await? {
                Reply::Paused(record) => record,
                Reply::Done | Reply::Count(_) | Reply::Fenced(_) => None,
            })
        })
    }
}

impl PausedStore for SqliteStore {
    fn save<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
        record: &'a PausedRecord,
    ) -> BoxFuture<'a, Result<()>> {
        let answer = self.pause(tenant, invocation, Change::Save(record.clone()));
        Box::pin(async move { answer.await.map(drop) })
    }

    fn load<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, Result<Option<PausedRecord>>> {
        let (tenant, invocation) = (tenant.clone(), invocation.clone());
        self.query(move |snapshot| read::paused::one(snapshot, &tenant, &invocation))
    }

    fn claim<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, Result<Option<PausedRecord>>> {
        self.pause(tenant, invocation, Change::Claim)
    }

    fn close<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
        status: PausedStatus,
    ) -> BoxFuture<'a, Result<()>> {
        let answer = self.pause(tenant, invocation, Change::Close(status));
        Box::pin(async move { answer.await.map(drop) })
    }

    fn delete<'a>(&'a self, tenant: &'a TenantId, invocation: &'a InvocationId) -> BoxFuture<'a, Result<()>> {
        let answer = self.pause(tenant, invocation, Change::Delete);
        Box::pin(async move { answer.await.map(drop) })
    }
}
