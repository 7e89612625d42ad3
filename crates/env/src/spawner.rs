//! Background tasks.

use std::fmt;
use std::sync::{Arc, Weak};

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
pub struct AbortHandle {
    handle: future::AbortHandle,
    /// The task holds the strong reference.
    running: Weak<()>,
}

impl AbortHandle {
    /// Stops the task at its next await. A task that has ended is not affected.
    pub fn abort_task(&self) {
        self.handle.abort();
    }

    /// Checks whether the task has ended, was stopped, or was dropped by its runtime.
    #[must_use]
    pub fn is_task_finished(&self) -> bool {
        self.running.strong_count() == 0
    }
}

impl dyn Spawner + '_ {
    /// Starts a task that the returned handle can stop.
    pub fn spawn_abortable(&self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        let held = Arc::new(());
        let running = Arc::downgrade(&held);
        let (task, handle) = abortable(task);
        self.spawn_task(Box::pin(task.map(move |_| drop(held))));
        AbortHandle { handle, running }
    }
}
