//! The store of the suspension specification (suspension §7), beside the journal and through the same writer.

use singletree_durable::{
    BoxFuture, InvocationId, PausedRecord, PausedStatus, PausedStore, Result, TenantId,
};

use crate::apply::paused::PausedRecordChange;
use crate::writer::{WriteOperation, WriteReply};
use crate::{SqliteStore, read};

impl SqliteStore {
    fn change_paused_record(
        &self,
        tenant: &TenantId,
        invocation: &InvocationId,
        change: PausedRecordChange,
    ) -> BoxFuture<'static, Result<Option<PausedRecord>>> {
        let work = WriteOperation::Pause { tenant: tenant.clone(), invocation: invocation.clone(), change };
        let answer = self.submit_write(work);
        Box::pin(async move {
            Ok(match answer.await? {
                WriteReply::Paused(record) => record,
                WriteReply::Done | WriteReply::Count(_) => None,
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
        let answer = self.change_paused_record(tenant, invocation, PausedRecordChange::Save(record.clone()));
        Box::pin(async move { answer.await.map(drop) })
    }

    fn load<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, Result<Option<PausedRecord>>> {
        let (tenant, invocation) = (tenant.clone(), invocation.clone());
        self.query_in_snapshot(move |snapshot| {
            read::paused::read_paused_record(snapshot, &tenant, &invocation)
        })
    }

    fn claim<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, Result<Option<PausedRecord>>> {
        self.change_paused_record(tenant, invocation, PausedRecordChange::Claim)
    }

    fn close<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
        status: PausedStatus,
    ) -> BoxFuture<'a, Result<()>> {
        let answer = self.change_paused_record(tenant, invocation, PausedRecordChange::Close(status));
        Box::pin(async move { answer.await.map(drop) })
    }

    fn delete<'a>(&'a self, tenant: &'a TenantId, invocation: &'a InvocationId) -> BoxFuture<'a, Result<()>> {
        let answer = self.change_paused_record(tenant, invocation, PausedRecordChange::Delete);
        Box::pin(async move { answer.await.map(drop) })
    }
}
