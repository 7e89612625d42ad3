//! Keeping saves from inside of fan-outs back (pipeline-utilities §10.11.4).

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{
    BoxFuture, CheckpointFilter, CheckpointRecord, CheckpointSummary, Checkpointer, InvocationId, Result,
    TenantId,
};

/// A checkpointer that writes only every n-th save from inside of fan-outs; all other saves pass at once.
///
/// Saves that were kept back are lost when the process dies, and also when the invocation ends by an error: `load` and
/// `list` return only written records. A resume runs the affected instances again. Each instance still contributes
/// once, because a resume trusts only the progress in the written record. Use it when instances are many and cheap to
/// repeat.
///
/// A save that passes contains all progress that was kept back for its invocation, since records are whole.
#[derive(Debug)]
pub struct BatchedCheckpointer {
    inner: Arc<dyn Checkpointer>,
    flush_every: NonZeroU64,
    /// How many saves of each invocation are kept back. Guards numbers only, never held across an await.
    kept: Mutex<BTreeMap<(TenantId, InvocationId), u64>>,
}

impl BatchedCheckpointer {
    /// Writes every `flush_every`th save from inside of fan-outs, for each invocation; 1 writes them all.
    #[must_use]
    pub fn new(inner: Arc<dyn Checkpointer>, flush_every: NonZeroU64) -> Self {
        Self { inner, flush_every, kept: Mutex::default() }
    }

    fn lock_kept_counts(&self) -> MutexGuard<'_, BTreeMap<(TenantId, InvocationId), u64>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells whether this save is kept back.
    fn should_keep_back(&self, tenant: &TenantId, record: &CheckpointRecord) -> bool {
        let key = (tenant.clone(), record.invocation_id.clone());
        let mut kept = self.lock_kept_counts();
        if !record.is_fan_out_internal() {
            kept.remove(&key);
            return false;
        }
        let count = kept.entry(key.clone()).or_default();
        *count += 1;
        let keeps = *count < self.flush_every.get();
        if !keeps {
            kept.remove(&key);
        }
        keeps
    }
}

impl Checkpointer for BatchedCheckpointer {
    fn save<'a>(&'a self, tenant: &'a TenantId, record: &'a CheckpointRecord) -> BoxFuture<'a, Result<()>> {
        if self.should_keep_back(tenant, record) {
            return Box::pin(std::future::ready(Ok(())));
        }
        self.inner.save(tenant, record)
    }

    fn load<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, Result<Option<CheckpointRecord>>> {
        self.inner.load(tenant, invocation)
    }

    fn list<'a>(
        &'a self,
        tenant: &'a TenantId,
        filter: &'a CheckpointFilter,
    ) -> BoxFuture<'a, Result<Vec<CheckpointSummary>>> {
        self.inner.list(tenant, filter)
    }

    fn delete<'a>(&'a self, tenant: &'a TenantId, invocation: &'a InvocationId) -> BoxFuture<'a, Result<()>> {
        self.lock_kept_counts().remove(&(tenant.clone(), invocation.clone()));
        self.inner.delete(tenant, invocation)
    }

    fn backend_name(&self) -> &str {
        self.inner.backend_name()
    }

    fn supports_state_migration(&self) -> bool {
        self.inner.supports_state_migration()
    }
}
