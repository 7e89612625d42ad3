//! Calls of a store that runs on a runtime of its own, from a runtime whose clock may be paused.

use std::future::Future;
use std::pin::Pin;
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::task::{Context, Poll};

use singletree_durable::BoxFuture;
use tokio::runtime::{Builder, Handle, Runtime};

/// Returns the runtime on which all databases of the process are used. Its clock is never paused.
pub(crate) fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap())
}

/// Runs a future on that runtime, and blocks the thread until it has its answer.
pub(crate) fn block_on<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    let (answer, answered) = channel();
    drop(runtime().spawn(async move { answer.send(work.await) }));
    answered.recv().unwrap()
}

/// Makes a call whose connections and timers are those of that runtime.
pub(crate) fn call<'a, T>(make: impl FnOnce() -> BoxFuture<'a, T>) -> BoxFuture<'a, T>
where
    T: Send + 'a,
{
    // A write runs from now on, whether its future is polled or not.
    let held = HeldClock::hold();
    let _entered = runtime().enter();
    Box::pin(BridgedCall { call: make(), held: Some(held) })
}

/// A call on its way. The clock of the runtime that made it is held until it has its answer or is dropped.
struct BridgedCall<'a, T> {
    call: BoxFuture<'a, T>,
    held: Option<HeldClock>,
}

impl<T> Future for BridgedCall<'_, T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let _entered = runtime().enter();
        let polled = self.call.as_mut().poll(context);
        if polled.is_ready() {
            self.held = None;
        }
        polled
    }
}

/// Holds a paused clock: it does not go forward by itself while a blocking task runs, so one waits for the end of this.
struct HeldClock {
    _end: Option<Sender<()>>,
}

impl HeldClock {
    fn hold() -> Self {
        let Ok(caller) = Handle::try_current() else { return Self { _end: None } };
        let (end, ended) = channel::<()>();
        // It returns when the sender is dropped.
        drop(caller.spawn_blocking(move || ended.recv().unwrap_or_default()));
        Self { _end: Some(end) }
    }
}
