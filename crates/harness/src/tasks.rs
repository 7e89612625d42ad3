//! The tasks of a harness: spawned in one place, waited for at shutdown.

use std::future::Future;

use futures_util::FutureExt;
use tokio::sync::watch;

/// Counts what runs in the background.
#[derive(Debug, Default)]
pub(crate) struct Tasks(watch::Sender<usize>);

/// Counts a task down, also when it panics or is dropped.
struct Running(watch::Sender<usize>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.send_modify(|it| *it -= 1);
    }
}

impl Tasks {
    /// Runs a future in the background.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.0.send_modify(|it| *it += 1);
        let running = Running(self.0.clone());
        // Not an async block: that would have room for the future twice, where it is taken from and where it is awaited.
        drop(tokio::spawn(work.map(move |()| drop(running))));
    }

    /// Waits until nothing runs.
    pub(crate) async fn idle(&self) {
        let mut count = self.0.subscribe();
        drop(count.wait_for(|it| *it == 0).await);
    }
}
