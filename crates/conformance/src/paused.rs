//! The store of paused records of a case: failing as the fixture says.

use std::sync::OnceLock;

use singletree::durable::{
    BoxFuture, Error, InvocationId, PausedRecord, PausedStatus, PausedStore, Result, TenantId,
};
use singletree_test_store::TestStore;

/// A store of paused records whose saves may fail.
#[derive(Debug)]
pub(crate) struct CasePausedStore {
    /// Opened when it is needed: most cases need none.
    inner: OnceLock<TestStore>,
    save_raises: bool,
}

impl CasePausedStore {
    /// Makes an empty store.
    #[must_use]
    pub(crate) fn new(save_raises: bool) -> Self {
        Self { inner: OnceLock::new(), save_raises }
    }

    fn inner(&self) -> &TestStore {
        self.inner.get_or_init(TestStore::new)
    }

    /// Returns the record of an invocation.
    ///
    /// # Errors
    /// When the invocation has no proper id, or the store fails.
    pub(crate) async fn load_record(
        &self,
        invocation: &str,
    ) -> std::result::Result<Option<PausedRecord>, String> {
        let id = InvocationId::parse(invocation).map_err(|error| error.to_string())?;
        self.load(&TenantId::single(), &id).await.map_err(|error| error.to_string())
    }
}

impl PausedStore for CasePausedStore {
    fn save<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
        record: &'a PausedRecord,
    ) -> BoxFuture<'a, Result<()>> {
        if self.save_raises {
            let source = "the fixture lets this store fail".into();
            let error = Error::Unavailable { doing: "save a paused record", source };
            return Box::pin(std::future::ready(Err(error)));
        }
        self.inner().save(tenant, invocation, record)
    }

    fn load<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, Result<Option<PausedRecord>>> {
        self.inner().load(tenant, invocation)
    }

    fn claim<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, Result<Option<PausedRecord>>> {
        self.inner().claim(tenant, invocation)
    }

    fn close<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
        status: PausedStatus,
    ) -> BoxFuture<'a, Result<()>> {
        self.inner().close(tenant, invocation, status)
    }

    fn delete<'a>(&'a self, tenant: &'a TenantId, invocation: &'a InvocationId) -> BoxFuture<'a, Result<()>> {
        self.inner().delete(tenant, invocation)
    }
}
