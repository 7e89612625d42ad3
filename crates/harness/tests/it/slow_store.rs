//! A store whose answers need several polls, so that a caller can go away, and another one come, between any two steps
//! of a call.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::Poll;

use singletree_durable::{
    Batch, BoxFuture, Error, Journal, JournalLayer, JournalRead, MaintenanceLayer, Result,
};
use singletree_test_store::TestStore;
use tokio::sync::{mpsc, oneshot};

type Write = (Batch, oneshot::Sender<Result<()>>);

/// A memory store that takes its time: a batch is written a while after it was handed over, in the order of handing
/// over, and is answered a while after that.
#[derive(Debug, Clone)]
pub(crate) struct SlowStore {
    store: TestStore,
    writes: mpsc::UnboundedSender<Write>,
}

async fn pause() {
    tokio::task::yield_now().await;
}

impl SlowStore {
    pub(crate) fn over(store: TestStore) -> Self {
        let (writes, mut received) = mpsc::unbounded_channel::<Write>();
        let written = store.clone();
        tokio::spawn(async move {
            while let Some((batch, answer)) = received.recv().await {
                pause().await;
                let landed = written.apply(batch).await;
                tokio::spawn(async move {
                    pause().await;
                    drop(answer.send(landed));
                });
            }
        });
        Self { store, writes }
    }
}

impl JournalLayer for SlowStore {
    type Journal = TestStore;

    fn inner_journal(&self) -> &Self::Journal {
        &self.store
    }

    fn write_batch(&self, batch: Batch) -> BoxFuture<'static, Result<()>> {
        let (answer, answered) = oneshot::channel();
        let sent = self.writes.send((batch, answer));
        Box::pin(async move {
            let lost = || Error::Unavailable { doing: "write", source: "the writer is gone".into() };
            sent.map_err(|_| lost())?;
            answered.await.map_err(|_| lost())?
        })
    }

    fn wrap_read<'a, T: Send + 'a>(
        &'a self,
        _: JournalRead,
        answer: BoxFuture<'a, Result<T>>,
    ) -> BoxFuture<'a, Result<T>> {
        Box::pin(async move {
            pause().await;
            let answer = answer.await;
            pause().await;
            answer
        })
    }
}

impl MaintenanceLayer for SlowStore {
    type Maintenance = TestStore;

    fn inner_maintenance(&self) -> &Self::Maintenance {
        &self.store
    }
}

/// Polls a future so often, letting everything else go on in between, and drops it. Tells whether it had completed.
pub(crate) async fn poll_and_drop(work: impl Future<Output = ()>, polls: usize) -> bool {
    let mut work = pin!(work);
    for _ in 0..polls {
        if poll_once(work.as_mut()).await {
            return true;
        }
        tokio::task::yield_now().await;
    }
    false
}

async fn poll_once(mut work: Pin<&mut impl Future<Output = ()>>) -> bool {
    std::future::poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx).is_ready())).await
}
