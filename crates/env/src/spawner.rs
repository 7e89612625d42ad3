//! Background tasks.

use std::fmt;

use futures_util::FutureExt;
use futures_util::future::{self, abortable};

use crate::boxed::BoxFuture;

/// Runs futures in the background.
pub trait Spawner: fmt::Debug + Send + Sync {
    /// Starts a task. It runs until it ends or panics, or until the runtime that runs it stops; then the future is
    /// dropped. A panic of the future stays in its task.
    fn spawn_task(&self, task: BoxFuture<'static, ()>);
}

/// Stops a task that was started with `spawn_abortable`. Dropping the handle does not stop the task.
#[derive(Debug, Clone)]
pub struct AbortHandle(future::AbortHandle);

impl AbortHandle {
    /// Stops the task at its next await. A task that has ended is not affected.
    pub fn abort_task(&self) {
        self.0.abort();
    }
}

impl dyn Spawner {
    /// Starts a task that the returned handle can stop.
    pub fn spawn_abortable(&self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        let (task, handle) = abortable(task);
        self.spawn_task(Box::pin(task.map(drop)));
        AbortHandle(handle)
    }
}
