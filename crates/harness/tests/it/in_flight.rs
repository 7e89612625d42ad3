//! Reads that overlap with commits on their way: they return the data that the commit is about to replace.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use singletree_durable::{
    Batch, BoxFuture, Error, Journal, JournalLayer, MaintenanceLayer, Result, RowMutation,
};
use singletree_harness::{CreateOptions, SendOptions};
use singletree_test_store::TestStore;
use tokio::sync::oneshot;

use crate::bench::{Log, chat_of, line, plain, user};

type Held = (Batch, oneshot::Sender<Option<Error>>);

/// A memory store whose writes wait, each by itself, until the test lets them land or fail.
#[derive(Debug, Clone, Default)]
struct HeldStore {
    store: TestStore,
    held: Arc<Mutex<VecDeque<Held>>>,
    is_open: Arc<Mutex<bool>>,
}

impl HeldStore {
    /// Waits until a write is held that this is true of, and takes it.
    async fn take(&self, wanted: impl Fn(&Batch) -> bool) -> Held {
        loop {
            {
                let mut held = self.held.lock().unwrap();
                if let Some(at) = held.iter().position(|(batch, _)| wanted(batch)) {
                    return held.remove(at).unwrap();
                }
            }
            tokio::task::yield_now().await;
        }
    }

    async fn land(&self, (batch, answer): Held) {
        self.store.apply(batch).await.unwrap();
        answer.send(None).unwrap();
    }

    /// Lets everything pass from now on.
    fn open(&self) {
        *self.is_open.lock().unwrap() = true;
    }
}

impl JournalLayer for HeldStore {
    type Journal = TestStore;

    fn inner_journal(&self) -> &Self::Journal {
        &self.store
    }

    fn write_batch(&self, batch: Batch) -> BoxFuture<'static, Result<()>> {
        if *self.is_open.lock().unwrap() {
            return self.store.apply(batch);
        }
        let (answer, answered) = oneshot::channel();
        self.held.lock().unwrap().push_back((batch, answer));
        Box::pin(async move { answered.await.unwrap().map_or(Ok(()), Err) })
    }
}

impl MaintenanceLayer for HeldStore {
    type Maintenance = TestStore;

    fn inner_maintenance(&self) -> &Self::Maintenance {
        &self.store
    }
}

fn begins_session(batch: &Batch) -> bool {
    batch.puts.iter().any(|put| matches!(put, RowMutation::Head(_)))
}

// D25, INV-3: the session is read again because a commit failed, while the commit that makes it is on its way.
#[tokio::test(start_paused = true)]
async fn a_session_that_is_being_made_is_not_taken_for_absent() {
    let store = HeldStore::default();
    let chat = chat_of(&plain(&Log::default())).open(store.clone()).unwrap();
    let created = tokio::spawn({
        let chat = chat.clone();
        async move { chat.create_session(CreateOptions::new().session("s")).await }
    });
    let creating = store.take(begins_session).await;
    let sent = tokio::spawn({
        let chat = chat.clone();
        async move { chat.session("s").submit(user("m"), SendOptions::new()).await }
    });
    let (_, answer) = store.take(|batch| !begins_session(batch)).await;
    answer.send(Some(Error::Unavailable { doing: "write", source: "a test".into() })).unwrap();
    assert_eq!(sent.await.unwrap().unwrap_err().category(), "chat_accept_failed");
    let deleted = tokio::spawn({
        let chat = chat.clone();
        async move { chat.session("s").delete(None).await }
    });
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    store.land(creating).await;
    store.open();
    created.await.unwrap().ok();
    deleted.await.unwrap().unwrap();
    assert_eq!(chat.session("s").info().await.unwrap_err().category(), "chat_session_unknown");
    assert_eq!(line(&chat.session("s").send(user("m")).await), "completed 3.1 [a:hello]");
}
