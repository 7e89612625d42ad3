//! Acquiring sessions in tests that are not asynchronous.

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use singletree_durable::{FencingToken, Journal, Result, SessionKey};

struct ThreadWaker(Thread);

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Acquires a session and blocks the thread until it is held: for tests that make batches in synchronous code.
///
/// It is only for stores whose calls end without the runtime of the calling thread, as those in memory and in files do.
///
/// # Errors
/// Those of [`Journal::acquire`].
pub fn acquire_blocking(journal: &dyn Journal, key: &SessionKey) -> Result<FencingToken> {
    let mut acquiring = journal.acquire(key);
    let waker = Waker::from(Arc::new(ThreadWaker(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match acquiring.as_mut().poll(&mut context) {
            Poll::Ready(acquired) => return acquired.map(|acquired| acquired.fence),
            Poll::Pending => std::thread::park(),
        }
    }
}
