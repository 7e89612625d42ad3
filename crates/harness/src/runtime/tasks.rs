//! The tasks of a harness: spawned in one place, waited for at shutdown.

use std::future::Future;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;

use futures_util::FutureExt;
use singletree_env::Spawner;
use tokio::sync::{oneshot, watch};

/// Starts the background tasks, and counts them.
#[derive(Debug)]
pub(crate) struct BackgroundTasks {
    spawner: Arc<dyn Spawner>,
    running: watch::Sender<usize>,
}

/// Counts a task down, also when it panics or is dropped.
struct TaskGuard(watch::Sender<usize>);

impl Drop for TaskGuard {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

impl BackgroundTasks {
    pub(crate) fn new(spawner: Arc<dyn Spawner>) -> Self {
        Self { spawner, running: watch::Sender::new(0) }
    }

    /// Runs a future in the background.
    pub(crate) fn spawn_task(&self, work: impl Future<Output = ()> + Send + 'static) {
        let running = self.count_task();
        // Not an async block: that would have room for the future twice, where it is taken from and where it is
        // awaited.
        self.spawner.spawn_task(Box::pin(work.map(move |()| drop(running))));
    }

    /// Runs a future in the background and waits for its result; none when the runtime shuts down. Dropping the caller
    /// does not stop the future: work that a call has begun is finished, also when nobody waits for it any more.
    pub(crate) async fn run_to_completion<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let running = self.count_task();
        let (report, outcome) = oneshot::channel();
        // A panic passes to the caller, as if it had run the future itself. Nobody sees the future after a panic.
        self.spawner.spawn_task(Box::pin(AssertUnwindSafe(work).catch_unwind().map(move |done| {
            drop(running);
            // The caller may have gone.
            drop(report.send(done));
        })));
        match outcome.await {
            Ok(Ok(done)) => Some(done),
            Ok(Err(panic)) => resume_unwind(panic),
            Err(_) => None,
        }
    }

    fn count_task(&self) -> TaskGuard {
        self.running.send_modify(|count| *count += 1);
        TaskGuard(self.running.clone())
    }

    /// Waits until nothing runs.
    pub(crate) async fn wait_until_idle(&self) {
        let mut count = self.running.subscribe();
        drop(count.wait_for(|count| *count == 0).await);
    }
}
