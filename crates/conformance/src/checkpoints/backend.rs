//! The stores behind a case's checkpointer: the product's own.

use std::num::NonZeroU64;
use std::sync::Arc;

use singletree::SqliteStore;
use singletree::durable::{
    BatchedCheckpointer, BoxFuture, CheckpointFilter, CheckpointRecord, CheckpointSummary, Checkpointer,
    Error, InvocationId, Result, TenantId,
};
use singletree_test_store::TestStore;
use tempfile::TempDir;
use tokio::runtime::Handle;

use super::spec::CheckpointBackend;
use crate::failure::{CaseFailure, Outcome};

/// Opens one, empty.
///
/// # Errors
/// When there is no place for its file, or it cannot be opened.
pub(super) async fn open_backend(backend: CheckpointBackend) -> Outcome<Arc<dyn Checkpointer>> {
    match backend {
        CheckpointBackend::Memory => Ok(Arc::new(TestStore::new())),
        CheckpointBackend::Batched(every) => {
            let every = NonZeroU64::new(every)
                .ok_or_else(|| CaseFailure::reader_error("checkpointer", "flushes after no save at all"))?;
            Ok(Arc::new(BatchedCheckpointer::new(Arc::new(TestStore::new()), every)))
        }
        CheckpointBackend::Sqlite => {
            let no = |it: String| CaseFailure::build_error("checkpointer", it);
            let place = tempfile::tempdir().map_err(|error| no(error.to_string()))?;
            let file = place.path().join("checkpoints.db");
            let store =
                run_on_other_thread(SqliteStore::open(file)).await.map_err(|error| no(error.to_string()))?;
            Ok(Arc::new(TemporarySqliteStore { store, _place: place }))
        }
    }
}

/// Waits for another thread. Time stands still in a case while its own thread can run, and would jump if that one only
/// waited; while a thread of the runtime's works, it does not.
async fn run_on_other_thread<T: Send + 'static>(
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let handle = Handle::current();
    let done = tokio::task::spawn_blocking(move || handle.block_on(work)).await;
    done.unwrap_or_else(|done| Err(Error::Unavailable { doing: "ask the file", source: done.into() }))
}

/// A file of SQLite's in a folder that goes with it.
#[derive(Debug)]
struct TemporarySqliteStore {
    store: SqliteStore,
    _place: TempDir,
}

impl Checkpointer for TemporarySqliteStore {
    fn save<'a>(&'a self, tenant: &'a TenantId, record: &'a CheckpointRecord) -> BoxFuture<'a, Result<()>> {
        let (store, tenant, record) = (self.store.clone(), tenant.clone(), record.clone());
        Box::pin(run_on_other_thread(async move { Checkpointer::save(&store, &tenant, &record).await }))
    }

    fn load<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, Result<Option<CheckpointRecord>>> {
        let (store, tenant, invocation) = (self.store.clone(), tenant.clone(), invocation.clone());
        Box::pin(run_on_other_thread(async move { Checkpointer::load(&store, &tenant, &invocation).await }))
    }

    fn list<'a>(
        &'a self,
        tenant: &'a TenantId,
        filter: &'a CheckpointFilter,
    ) -> BoxFuture<'a, Result<Vec<CheckpointSummary>>> {
        let (store, tenant, filter) = (self.store.clone(), tenant.clone(), filter.clone());
        Box::pin(run_on_other_thread(async move { Checkpointer::list(&store, &tenant, &filter).await }))
    }

    fn delete<'a>(&'a self, tenant: &'a TenantId, invocation: &'a InvocationId) -> BoxFuture<'a, Result<()>> {
        let (store, tenant, invocation) = (self.store.clone(), tenant.clone(), invocation.clone());
        Box::pin(run_on_other_thread(async move { Checkpointer::delete(&store, &tenant, &invocation).await }))
    }

    fn supports_state_migration(&self) -> bool {
        self.store.supports_state_migration()
    }
}
