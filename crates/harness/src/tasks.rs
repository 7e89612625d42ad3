//! The tasks of a harness: spawned in one place, waited for at shutdown.

use std::future::Future;

use futures_util::FutureExt;
use tokio::sync::watch;

/// Counts the background tasks.
#[derive(Debug, Default)]
pub(crate) struct BackgroundTasks(watch::Sender<usize>);

/// Counts a task down, also when it panics or is dropped.
struct TaskGuard(watch::Sender<usize>);

impl Drop for TaskGuard {
    fn drop(&mut self) {
        self.0.send_modify(|it| *it -= 1);
    }
}

impl BackgroundTasks {
    /// Runs a future in the background.
    pub(crate) fn spawn_task(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.0.send_modify(|it| *it += 1);
        let running = TaskGuard(self.0.clone());
        // Not an async block: that would have room for the future twice, where it is taken from and where it is
        // awaited.
        drop(tokio::spawn(work.map(move |()| drop(running))));
    }

    /// Runs a future in the background and waits for its result; none when the runtime shuts down. Dropping the caller
    /// does not stop the future: work that a call has begun is finished, also when nobody waits for it any more.
    pub(crate) async fn run_to_completion<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        self.0.send_modify(|it| *it += 1);
        let running = TaskGuard(self.0.clone());
        let task = tokio::spawn(work.map(move |done| {
            drop(running);
            done
        }));
        match task.await {
            Ok(done) => Some(done),
            Err(failed) => match failed.try_into_panic() {
                // As if the caller had run it.
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => None,
            },
        }
    }

    /// Waits until nothing runs.
    pub(crate) async fn wait_until_idle(&self) {
        let mut count = self.0.subscribe();
        drop(count.wait_for(|count| *count == 0).await);
    }
}
