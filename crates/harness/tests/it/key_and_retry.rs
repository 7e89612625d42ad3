//! Idempotency keys of failed turns that are retried (D3, D29).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use singletree_durable::{BoxFuture, JournalLayer, JournalRead, MaintenanceLayer, Result};
use singletree_engine::{Ctx, Graph, NodeError};
use singletree_harness::{Chat, ChatTurnOutcome, SendOptions};
use singletree_test_store::TestStore;

use crate::bench::{Door, Talk, category, chain, chat_of, history, key, line, says, user};
use crate::slow_store::SlowStore;
use tokio::sync::Notify;

/// A graph that fails as often as this, safely to retry, and then answers behind the door.
fn failing_before(times: usize, door: Door) -> Graph<Talk> {
    let runs = Arc::new(AtomicUsize::new(0));
    let builder = Graph::builder().node("n", move |_: Ctx<Talk>| {
        let run = runs.fetch_add(1, Ordering::SeqCst);
        let door = door.clone();
        async move {
            if run < times {
                return Err(NodeError::new("no").with_category("provider_unavailable"));
            }
            door.pass().await;
            Ok(says("yes"))
        }
    });
    chain(builder, &["n"])
}

fn opened(graph: &Graph<Talk>, store: TestStore) -> Chat {
    chat_of(graph).open(store).unwrap()
}

async fn fails(chat: &Chat) -> singletree_harness::TurnId {
    match chat.session("s").send_with(user("m"), key("k")).await {
        ChatTurnOutcome::Errored(errored) if errored.retry_safe => errored.turn.unwrap(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_message_that_a_retry_answered_is_not_answered_again_under_its_key() {
    let door = Door::shut();
    door.open();
    let (graph, store) = (failing_before(2, door), TestStore::new());
    let chat = opened(&graph, store.clone());
    let first = fails(&chat).await;
    let second = chat.retry(&first, key("r")).await.unwrap();
    assert_eq!(category(second.outcome().await), "provider_unavailable");
    let third = chat.retry(second.id(), SendOptions::new()).await.unwrap();
    assert_eq!(line(&*third.outcome().await), "completed 3.1 [a:yes]");
    let chat = opened(&graph, store.reopen());
    for _ in 0..2 {
        let again = chat.session("s").submit(user("m"), key("k")).await.unwrap();
        assert_eq!(again.id(), third.id());
        assert_eq!(line(&*again.outcome().await), "completed 3.1 [a:yes]");
    }
    let again = chat.retry(&first, key("r")).await.unwrap();
    assert_eq!(again.id(), third.id(), "the key of the retry is answered by the retry of the retry");
    let other = chat.session("s").send_with(user("other"), key("k")).await;
    assert_eq!(category(&other), "chat_idempotency_conflict");
    assert_eq!(history(&chat, "s").await.len(), 2);
}

#[tokio::test]
async fn a_message_whose_retry_runs_attaches_to_it() {
    let door = Door::shut();
    let chat = opened(&failing_before(1, door.clone()), TestStore::new());
    let first = fails(&chat).await;
    let retry = chat.retry(&first, SendOptions::new()).await.unwrap();
    door.somebody().await;
    let again = chat.session("s").submit(user("m"), key("k")).await.unwrap();
    assert_eq!(again.id(), retry.id());
    door.open();
    assert_eq!(line(&*again.outcome().await), "completed 3.1 [a:yes]");
}

#[tokio::test]
async fn a_key_is_free_after_retries_that_failed_and_after_later_turns() {
    let door = Door::shut();
    door.open();
    let chat = opened(&failing_before(3, door), TestStore::new());
    let first = fails(&chat).await;
    let retry = chat.retry(&first, SendOptions::new()).await.unwrap();
    assert_eq!(category(retry.outcome().await), "provider_unavailable");
    let third = fails(&chat).await;
    assert!(third != first && third != *retry.id());
    assert!(line(&chat.session("s").send(user("later")).await).ends_with("[a:yes]"));
    let other = chat.session("s").send_with(user("other"), key("k")).await;
    assert!(line(&other).ends_with("[a:yes]"), "the key of a failure is free for any message");
    assert_eq!(history(&chat, "s").await.len(), 4);
}

// Whichever comes first: the message has one answer.
#[tokio::test]
async fn a_retry_and_the_same_message_at_the_same_time_are_one_answer() {
    let [mut retried, mut sent] = [0, 0];
    for head_start in 0..120 {
        let door = Door::shut();
        door.open();
        let store = SlowStore::over(TestStore::new());
        let chat = chat_of(&failing_before(1, door)).open(store).unwrap();
        let first = fails(&chat).await;
        let wait = |steps: usize| async move {
            for _ in 0..steps {
                tokio::task::yield_now().await;
            }
        };
        let (one, other) = (head_start.max(60) - 60, 60 - head_start.min(60));
        let retry = async {
            wait(one).await;
            chat.retry(&first, SendOptions::new()).await
        };
        let send = async {
            wait(other).await;
            chat.session("s").submit(user("m"), key("k")).await
        };
        let (retry, send) = tokio::join!(retry, send);
        let answer = send.unwrap();
        assert_eq!(line(&*answer.outcome().await), "completed 3.1 [a:yes]");
        match retry {
            Ok(retry) => {
                assert_eq!(retry.id(), answer.id());
                retried += 1;
            }
            Err(refused) => {
                assert_eq!(refused.into_errored_turn().error_category, "chat_retry_superseded");
                sent += 1;
            }
        }
        assert_eq!(history(&chat, "s").await.len(), 2, "head start {head_start}");
    }
    assert!(retried > 20 && sent > 20, "{retried} {sent}");
}

/// A memory store that holds back the answer of one read of turns.
#[derive(Debug, Clone)]
struct HoldingStore {
    store: TestStore,
    /// How many reads of turns are left until the one that is held back.
    left: Arc<AtomicUsize>,
    read: Arc<Notify>,
    released: Arc<Notify>,
}

impl JournalLayer for HoldingStore {
    type Journal = TestStore;

    fn inner_journal(&self) -> &Self::Journal {
        &self.store
    }

    fn wrap_read<'a, T: Send + 'a>(
        &'a self,
        read: JournalRead,
        answer: BoxFuture<'a, Result<T>>,
    ) -> BoxFuture<'a, Result<T>> {
        let left = || self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        let is_held = read == JournalRead::Turns && left() == Ok(1);
        Box::pin(async move {
            let answer = answer.await;
            if is_held {
                self.read.notify_one();
                self.released.notified().await;
            }
            answer
        })
    }
}

impl MaintenanceLayer for HoldingStore {
    type Maintenance = TestStore;

    fn inner_maintenance(&self) -> &Self::Maintenance {
        &self.store
    }
}

/// Opens a chat over a [`HoldingStore`]. Returns the store's notifications `read` and `released`, and its count `left`,
/// too: at first no read is held back.
fn chat_that_can_be_held() -> (Chat, [Arc<Notify>; 2], Arc<AtomicUsize>) {
    let (left, read, released) = <(Arc<AtomicUsize>, Arc<Notify>, Arc<Notify>)>::default();
    let door = Door::shut();
    door.open();
    let store = HoldingStore {
        store: TestStore::new(),
        left: left.clone(),
        read: read.clone(),
        released: released.clone(),
    };
    (chat_of(&failing_before(1, door)).open(store).unwrap(), [read, released], left)
}

// The send has found no retry; before it is decided, the retry is accepted and ends.
#[tokio::test]
async fn a_retry_that_is_accepted_between_look_and_decision_is_the_answer() {
    let (chat, [read, released], left) = chat_that_can_be_held();
    let first = fails(&chat).await;
    left.store(2, Ordering::SeqCst);
    let sending = tokio::spawn({
        let chat = chat.clone();
        async move { chat.session("s").submit(user("m"), key("k")).await }
    });
    read.notified().await;
    let retry = chat.retry(&first, SendOptions::new()).await.unwrap();
    assert_eq!(line(&*retry.outcome().await), "completed 3.1 [a:yes]");
    released.notify_one();
    assert_eq!(sending.await.unwrap().unwrap().id(), retry.id());
    assert_eq!(history(&chat, "s").await.len(), 2);
}

// As above, where a later turn forbids a retry: the other one is the same message.
#[tokio::test]
async fn a_message_that_is_accepted_between_look_and_decision_is_the_same_one() {
    let (chat, [read, released], left) = chat_that_can_be_held();
    fails(&chat).await;
    assert!(line(&chat.session("s").send(user("later")).await).ends_with("[a:yes]"));
    left.store(2, Ordering::SeqCst);
    let sending = tokio::spawn({
        let chat = chat.clone();
        async move { chat.session("s").submit(user("m"), key("k")).await }
    });
    read.notified().await;
    let other = chat.session("s").submit(user("m"), key("k")).await.unwrap();
    assert!(line(&*other.outcome().await).ends_with("[a:yes]"));
    released.notify_one();
    assert_eq!(sending.await.unwrap().unwrap().id(), other.id());
    assert_eq!(history(&chat, "s").await.len(), 4);
}
