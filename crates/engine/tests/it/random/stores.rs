//! Where a process keeps its runs.

use std::sync::Arc;

use singletree_durable::{Checkpointer, PausedStore};

/// The stores in which a process keeps its runs.
#[derive(Debug, Clone)]
pub(crate) struct Stores {
    pub(crate) checkpoints: Arc<dyn Checkpointer>,
    pub(crate) paused: Arc<dyn PausedStore>,
}

impl Stores {
    pub(crate) fn of<T: Checkpointer + PausedStore + 'static>(store: &Arc<T>) -> Self {
        Self { checkpoints: store.clone(), paused: store.clone() }
    }
}

/// The methods that a checkpointer over another one passes on.
macro_rules! passes {
    ($own:ident) => {
        fn list<'a>(
            &'a self,
            tenant: &'a TenantId,
            filter: &'a CheckpointFilter,
        ) -> BoxFuture<'a, Result<Vec<CheckpointSummary>>> {
            Box::pin(async move { self.$own().checkpoints.list(tenant, filter).await })
        }

        fn delete<'a>(
            &'a self,
            tenant: &'a TenantId,
            invocation: &'a InvocationId,
        ) -> BoxFuture<'a, Result<()>> {
            Box::pin(async move { self.$own().checkpoints.delete(tenant, invocation).await })
        }
    };
}

/// The methods that a store of paused records over another one passes on.
macro_rules! passes_paused {
    ($own:ident) => {
        fn load<'a>(
            &'a self,
            tenant: &'a TenantId,
            invocation: &'a InvocationId,
        ) -> BoxFuture<'a, Result<Option<PausedRecord>>> {
            Box::pin(async move { self.$own().paused.load(tenant, invocation).await })
        }

        fn claim<'a>(
            &'a self,
            tenant: &'a TenantId,
            invocation: &'a InvocationId,
        ) -> BoxFuture<'a, Result<Option<PausedRecord>>> {
            Box::pin(async move { self.$own().paused.claim(tenant, invocation).await })
        }

        fn close<'a>(
            &'a self,
            tenant: &'a TenantId,
            invocation: &'a InvocationId,
            status: PausedStatus,
        ) -> BoxFuture<'a, Result<()>> {
            Box::pin(async move { self.$own().paused.close(tenant, invocation, status).await })
        }

        fn delete<'a>(
            &'a self,
            tenant: &'a TenantId,
            invocation: &'a InvocationId,
        ) -> BoxFuture<'a, Result<()>> {
            Box::pin(async move { self.$own().paused.delete(tenant, invocation).await })
        }
    };
}

pub(crate) use {passes, passes_paused};
