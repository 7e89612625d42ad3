//! Writes that land later than they are called, or not at all.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use singletree_durable::{Batch, BoxFuture, Journal, Result};

use super::lock_unpoisoned;

/// A call that is cancelled when it is dropped.
pub(super) struct CancellableWrite {
    pub(super) no: u64,
    pub(super) queue: Arc<Mutex<VecDeque<(u64, Batch)>>>,
    pub(super) inner: Arc<dyn Journal>,
}

impl Future for CancellableWrite {
    type Output = Result<()>;
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let ready = {
            let mut queue = lock_unpoisoned(&self.queue);
            let count = queue.iter().take_while(|(no, _)| *no <= self.no).count();
            queue.drain(..count).collect::<Vec<_>>()
        };
        let mut answer = Poll::Ready(Ok(()));
        for (_, batch) in ready {
            // Only used on stores that apply a batch during the call, so that one poll completes it.
            answer = self.inner.apply(batch).as_mut().poll(cx);
        }
        answer
    }
}

impl Drop for CancellableWrite {
    fn drop(&mut self) {
        lock_unpoisoned(&self.queue).retain(|(no, _)| *no != self.no);
    }
}

/// A call that lands when it is polled or dropped, whichever is first.
pub(super) struct DeferredWrite {
    pub(super) inner: Arc<dyn Journal>,
    pub(super) batch: Option<Batch>,
    pub(super) answer: Option<BoxFuture<'static, Result<()>>>,
}

impl DeferredWrite {
    fn start_write(&mut self) {
        if let Some(batch) = self.batch.take() {
            self.answer = Some(self.inner.apply(batch));
        }
    }
}

impl Future for DeferredWrite {
    type Output = Result<()>;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.start_write();
        self.answer.as_mut().map_or(Poll::Pending, |answer| answer.as_mut().poll(cx))
    }
}

impl Drop for DeferredWrite {
    fn drop(&mut self) {
        self.start_write();
    }
}
