//! The stores of the specifications that fail from the n-th write on.

use singletree_durable::{
    BoxFuture, ExpectedVersion, InvocationId, PausedRecord, PausedStatus, PausedStore, RecordVersion, Result,
    SessionFilter, SessionKey, SessionRecord, SessionStore, SessionSummary, TenantId,
};

use super::FaultInjectingStore;

impl<S: SessionStore + ?Sized> SessionStore for FaultInjectingStore<S> {
    fn load<'a>(
        &'a self,
        key: &'a SessionKey,
    ) -> BoxFuture<'a, Result<Option<(SessionRecord, RecordVersion)>>> {
        self.inner.load(key)
    }

    fn save<'a>(
        &'a self,
        key: &'a SessionKey,
        record: &'a SessionRecord,
        expected: ExpectedVersion,
    ) -> BoxFuture<'a, Result<RecordVersion>> {
        self.fuse.guard_write(|| self.inner.save(key, record, expected))
    }

    fn delete<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<()>> {
        self.fuse.guard_write(|| self.inner.delete(key))
    }

    fn list<'a>(
        &'a self,
        tenant: &'a TenantId,
        filter: &'a SessionFilter,
    ) -> BoxFuture<'a, Result<Vec<SessionSummary>>> {
        self.inner.list(tenant, filter)
    }
}

impl<S: PausedStore + ?Sized> PausedStore for FaultInjectingStore<S> {
    fn save<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
        record: &'a PausedRecord,
    ) -> BoxFuture<'a, Result<()>> {
        self.fuse.guard_write(|| self.inner.save(tenant, invocation, record))
    }

    fn load<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, Result<Option<PausedRecord>>> {
        self.inner.load(tenant, invocation)
    }

    fn claim<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, Result<Option<PausedRecord>>> {
        self.fuse.guard_write(|| self.inner.claim(tenant, invocation))
    }

    fn close<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
        status: PausedStatus,
    ) -> BoxFuture<'a, Result<()>> {
        self.fuse.guard_write(|| self.inner.close(tenant, invocation, status))
    }

    fn delete<'a>(&'a self, tenant: &'a TenantId, invocation: &'a InvocationId) -> BoxFuture<'a, Result<()>> {
        self.fuse.guard_write(|| self.inner.delete(tenant, invocation))
    }
}
