//! A store whose commits are measured.

use std::sync::Arc;

use singletree_durable::{Batch, BoxFuture, Journal, Layer, Result, Upkeep};
use tokio::time::Instant;

use super::metrics::Metrics;

/// A store whose commits are measured: from when they are handed over until they are durable.
#[derive(Debug)]
pub(super) struct Metered<S> {
    store: Arc<S>,
    metrics: Arc<Metrics>,
}

impl<S> Metered<S> {
    pub(super) fn new(store: Arc<S>, metrics: Arc<Metrics>) -> Self {
        Self { store, metrics }
    }
}

impl<S: Journal + Upkeep> Layer for Metered<S> {
    fn journal(&self) -> &dyn Journal {
        self.store.as_ref()
    }

    fn upkeep(&self) -> &dyn Upkeep {
        self.store.as_ref()
    }

    fn write(&self, batch: Batch) -> BoxFuture<'static, Result<()>> {
        let (begun, metrics) = (Instant::now(), self.metrics.clone());
        // Its place in the order is taken here, not where it is first polled.
        let landing = self.store.apply(batch);
        Box::pin(async move {
            let landed = landing.await;
            metrics.commit(landed.as_ref().err().map(singletree_durable::Error::category), begun.elapsed());
            landed
        })
    }
}
