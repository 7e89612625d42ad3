//! A store whose commits are measured.

use std::sync::Arc;

use singletree_durable::{
    Batch, BoxFuture, Journal, JournalLayer, JournalMaintenance, MaintenanceLayer, Result,
};
use tokio::time::Instant;

use super::metrics::ServerMetrics;

/// A store whose commits are measured: from when they are handed over until they are durable.
#[derive(Debug)]
pub(super) struct MeteredStore<S> {
    store: Arc<S>,
    metrics: Arc<ServerMetrics>,
}

impl<S> MeteredStore<S> {
    pub(super) fn new(store: Arc<S>, metrics: Arc<ServerMetrics>) -> Self {
        Self { store, metrics }
    }
}

impl<S: Journal + JournalMaintenance> JournalLayer for MeteredStore<S> {
    type Journal = S;

    fn inner_journal(&self) -> &Self::Journal {
        self.store.as_ref()
    }

    #[expect(clippy::disallowed_methods, reason = "durations in logs and metrics decide nothing")]
    fn write_batch(&self, batch: Batch) -> BoxFuture<'static, Result<()>> {
        let (begun, metrics) = (Instant::now(), self.metrics.clone());
        // Its place in the order is taken here, not where it is first polled.
        let landing = self.store.apply(batch);
        Box::pin(async move {
            let landed = landing.await;
            metrics.measure_commit(
                landed.as_ref().err().map(singletree_durable::Error::category),
                begun.elapsed(),
            );
            landed
        })
    }
}

impl<S: Journal + JournalMaintenance> MaintenanceLayer for MeteredStore<S> {
    type Maintenance = S;

    fn inner_maintenance(&self) -> &Self::Maintenance {
        self.store.as_ref()
    }
}
