//! Listeners that come late, or read slowly (D9).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::{FutureExt, StreamExt};
use singletree_durable::{Batch, BoxFuture, Journal, JournalLayer, JournalRead, MaintenanceLayer};
use singletree_engine::{Ctx, Graph};
use singletree_harness::{Limits, SendOptions, TurnContext};
use singletree_test_store::TestStore;
use tokio::sync::Notify;

use crate::bench::{Door, Log, Talk, chain, chat_of, door_node, line, says, user};
use crate::event::{Listening, listen, streaming, told};
use crate::lease::SharedStore;

/// Returns so many next events, each in one line.
async fn hear(events: &mut Listening, count: usize) -> Vec<String> {
    let mut heard = Vec::new();
    while heard.len() < count {
        heard.push(told(&events.next().await.unwrap().unwrap()));
    }
    heard
}

/// Returns the next event, if there is one now.
fn hear_at_once(events: &mut Listening) -> Option<String> {
    events.next().now_or_never().map(|event| told(&event.unwrap().unwrap()))
}

/// A memory store that holds back one read of a kind, or the answer to one write.
#[derive(Debug, Clone, Default)]
struct HoldingStore {
    store: TestStore,
    next: Arc<Mutex<Option<JournalRead>>>,
    released: Arc<Notify>,
    /// Whether the answer to the next write is held back. The batch is stored.
    holds_answer: Arc<AtomicBool>,
    written: Arc<Notify>,
    answered: Arc<Notify>,
    /// Whether other processes write the store, too.
    is_shared: bool,
}

impl HoldingStore {
    fn hold_next(&self, read: JournalRead) {
        *self.next.lock().unwrap() = Some(read);
    }
}

impl JournalLayer for HoldingStore {
    type Journal = TestStore;

    fn inner_journal(&self) -> &Self::Journal {
        &self.store
    }

    fn is_shared(&self) -> bool {
        self.is_shared
    }

    fn write_batch(&self, batch: Batch) -> BoxFuture<'static, singletree_durable::Result<()>> {
        let landing = self.store.apply(batch);
        if !self.holds_answer.swap(false, Ordering::SeqCst) {
            return landing;
        }
        let (written, answered) = (self.written.clone(), self.answered.clone());
        Box::pin(async move {
            let landed = landing.await;
            written.notify_one();
            answered.notified().await;
            landed
        })
    }

    fn wrap_read<'a, T: Send + 'a>(
        &'a self,
        read: JournalRead,
        answer: BoxFuture<'a, singletree_durable::Result<T>>,
    ) -> BoxFuture<'a, singletree_durable::Result<T>> {
        let is_held = self.next.lock().unwrap().take_if(|it| *it == read).is_some();
        Box::pin(async move {
            if is_held {
                self.released.notified().await;
            }
            answer.await
        })
    }
}

impl MaintenanceLayer for HoldingStore {
    type Maintenance = TestStore;

    fn inner_maintenance(&self) -> &Self::Maintenance {
        &self.store
    }
}

// D25: found by the simulation, seed 9955. The turn is gone before its listener has read anything: a session of the same
// name will never tell of it.
#[tokio::test]
async fn a_stream_of_a_turn_ends_when_its_session_was_deleted_before_it_read_anything() {
    let limits = Limits { feed_backlog: 1, ..Limits::default() };
    for comes_again in [false, true] {
        let (store, door) = (HoldingStore::default(), Door::shut());
        let graph = crate::stopping::long(&door, &Log::default());
        let chat = chat_of(&graph).limits(limits.clone()).open(store.clone()).unwrap();
        let options = SendOptions::new;
        let turn = chat.session("s").submit(user("m"), options()).await.unwrap();
        door.somebody().await;
        let found = chat.turn(turn.id()).await.unwrap();
        store.hold_next(JournalRead::Numbers);
        let mut events = std::pin::pin!(found.events());
        assert!(events.next().now_or_never().is_none(), "its first read hangs");
        door.open_once();
        turn.outcome().await;
        chat.session("s").delete(None).await.unwrap();
        if comes_again {
            let next = chat.session("s").submit(user("n"), options()).await.unwrap();
            door.somebody().await;
            door.open_once();
            next.outcome().await;
        }
        store.released.notify_one();
        let told = tokio::time::timeout(std::time::Duration::from_secs(10), events.collect::<Vec<_>>());
        let told = told.await.expect("it ends");
        let last = told.last().unwrap().as_ref().unwrap_err();
        assert_eq!((told.len(), last.category()), (1, "chat_session_unknown"), "{comes_again}");
    }
}

// A turn is accepted and shows text while a listener still reads the log: it hears of the message first.
#[tokio::test]
async fn a_listener_that_reads_slowly_hears_of_a_turn_before_what_it_shows() {
    let (store, door) = (HoldingStore::default(), Door::shut());
    let chat = chat_of(&streaming(&door)).open(store.clone()).unwrap();
    door.open_once();
    chat.session("s").send(user("m")).await;
    door.somebody().await;
    let mut events = listen(&chat, None).await;
    store.hold_next(JournalRead::Items);
    assert!(events.next().now_or_never().is_none(), "it reads the first message");
    let turn = chat.session("s").submit(user("n"), SendOptions::new()).await.unwrap();
    door.somebody().await;
    store.released.notify_one();
    assert_eq!(
        hear(&mut events, 8).await,
        [
            "0 turn.accepted u:m",
            "1 message.appended 1 a:half more",
            "2 turn.completed completed 3.1 [a:half more]",
            "3 turn.accepted u:n",
            "- turn.started ",
            "- delta 2.1 half true",
            "- tool.started ",
            "- tool.finished ",
        ]
    );
    door.open_once();
    turn.outcome().await;
}

// A listener that was too slow reads the end of a turn in the log, and the last live events of the turn wait for it still.
#[tokio::test]
async fn a_listener_that_reads_the_end_of_a_turn_hears_nothing_of_its_course() {
    let (door, limits) = (Door::shut(), Limits { feed_backlog: 4, ..Limits::default() });
    let chat = chat_of(&streaming(&door)).limits(limits).open(TestStore::new()).unwrap();
    door.open_once();
    chat.session("s").send(user("l")).await;
    let mut events = listen(&chat, Some(2)).await;
    assert_eq!(hear_at_once(&mut events), None);
    door.open_once();
    chat.session("s").send(user("m")).await;
    assert_eq!(
        hear(&mut events, 3).await,
        [
            "3 turn.accepted u:m",
            "4 message.appended 1 a:half more",
            "5 turn.completed completed 3.2 [a:half more]"
        ]
    );
    assert_eq!(hear_at_once(&mut events), None);
    let turn = chat.session("s").submit(user("n"), SendOptions::new()).await.unwrap();
    assert_eq!(hear(&mut events, 2).await, ["6 turn.accepted u:n", "- turn.started "]);
    door.open_once();
    turn.outcome().await;
}

/// A graph that waits at a door while it shows a message, and once more when that is recorded.
fn streaming_before(door: &Door) -> Graph<Talk> {
    let inner = door.clone();
    let builder = Graph::builder().node("show", move |cx: Ctx<Talk>| {
        let door = inner.clone();
        async move {
            let turn = TurnContext::of(&cx).unwrap();
            let message = turn.stream().begin_message(1);
            message.show_text_piece("half");
            door.pass().await;
            message.show_text_piece(" more");
            Ok(says("half more"))
        }
    });
    chain(door_node(builder, door), &["show", "n"])
}

// The same for a message of a turn that goes on: its pieces wait still when it is read in the log. Found by the simulation
// (seed 42).
#[tokio::test]
async fn a_listener_that_reads_a_message_hears_no_pieces_of_it() {
    let (door, limits) = (Door::shut(), Limits { feed_backlog: 4, ..Limits::default() });
    let chat = chat_of(&streaming_before(&door)).limits(limits).open(TestStore::new()).unwrap();
    let mut events = listen(&chat, None).await;
    let turn = chat.session("s").submit(user("m"), SendOptions::new()).await.unwrap();
    door.somebody().await;
    door.open_once();
    door.somebody().await;
    assert_eq!(
        hear(&mut events, 3).await,
        ["0 turn.accepted u:m", "1 message.appended 1 a:half more", "- turn.started "]
    );
    assert_eq!(hear_at_once(&mut events), None);
    door.open_once();
    turn.outcome().await;
    let heard = hear(&mut events, 2).await;
    assert_eq!(heard, ["2 message.appended 2 a:so", "3 turn.completed completed 3.1 [a:half more, a:so]"]);
}

// A listener that was too slow cannot read on in the log, since the session was deleted.
#[tokio::test]
async fn a_listener_hears_no_piece_behind_one_that_it_missed() {
    let (door, limits) = (Door::shut(), Limits { feed_backlog: 4, ..Limits::default() });
    let chat = chat_of(&streaming_before(&door)).limits(limits).open(TestStore::new()).unwrap();
    let mut events = listen(&chat, None).await;
    assert_eq!(hear_at_once(&mut events), None);
    door.open();
    chat.session("s").send(user("m")).await;
    chat.session("s").delete(None).await.unwrap();
    assert_eq!(hear_at_once(&mut events), None);
}

// The store has the end of a turn, and the process does not know it yet: for it, the turn runs.
#[tokio::test]
async fn a_listener_that_comes_while_the_end_of_a_turn_is_stored_hears_no_start_behind_it() {
    let (store, door) = (HoldingStore::default(), Door::shut());
    let chat = chat_of(&streaming(&door)).open(store.clone()).unwrap();
    let first = chat.session("s").submit(user("m"), SendOptions::new()).await.unwrap();
    door.somebody().await;
    store.holds_answer.store(true, Ordering::SeqCst);
    door.open_once();
    store.written.notified().await;
    let mut events = listen(&chat, None).await;
    let heard = hear(&mut events, 3).await;
    assert_eq!(heard.last().unwrap(), "2 turn.completed completed 3.1 [a:half more]");
    assert_eq!(hear_at_once(&mut events), None);
    // Nor does one that has heard the end already, over another connection.
    let mut again = listen(&chat, Some(2)).await;
    assert_eq!(hear_at_once(&mut again), None);
    store.answered.notify_one();
    first.outcome().await;
    chat.session("s").submit(user("n"), SendOptions::new()).await.unwrap();
    assert_eq!(hear(&mut events, 2).await, ["3 turn.accepted u:n", "- turn.started "]);
}

// The same for a message: a listener has heard it over another connection, and for the process it is still on its way; perhaps
// the process has told of a later event already. Found by the simulation, seed 1208529 with three processes.
#[tokio::test]
async fn a_listener_that_comes_back_while_a_message_is_stored_hears_no_text_of_it() {
    for is_later_told in [false, true] {
        let (store, door) = (HoldingStore::default(), Door::shut());
        let chat = chat_of(&streaming_before(&door)).open(store.clone()).unwrap();
        let turn = chat.session("s").submit(user("m"), SendOptions::new()).await.unwrap();
        door.somebody().await;
        store.holds_answer.store(true, Ordering::SeqCst);
        door.open_once();
        store.written.notified().await;
        let heard = 1 + u64::from(is_later_told);
        if is_later_told {
            chat.session("s").submit(user("n"), SendOptions::new()).await.unwrap();
        }
        let mut events = listen(&chat, Some(heard)).await;
        assert_eq!(hear(&mut events, 1).await, ["- turn.started "]);
        assert_eq!(hear_at_once(&mut events), None, "{is_later_told}");
        store.answered.notify_one();
        door.somebody().await;
        door.open_once();
        turn.outcome().await;
        assert_eq!(hear(&mut events, 1).await, [format!("{} message.appended 2 a:so", heard + 1)]);
    }
}

// A listener takes the state of a turn that ends in the meantime. Found by the simulation (seed 2467 with three processes).
#[tokio::test]
async fn a_listener_that_takes_the_state_of_a_turn_while_it_ends_hears_nothing_of_it_behind_the_end() {
    let (store, door) = (HoldingStore::default(), Door::shut());
    let chat = chat_of(&streaming(&door)).open(store.clone()).unwrap();
    let turn = chat.session("s").submit(user("m"), SendOptions::new()).await.unwrap();
    door.somebody().await;
    store.hold_next(JournalRead::Turns);
    let mut events = listen(&chat, Some(0)).await;
    assert_eq!(hear_at_once(&mut events), None, "it reads whether the turn has ended");
    door.open_once();
    turn.outcome().await;
    store.released.notify_one();
    assert_eq!(
        hear(&mut events, 2).await,
        ["1 message.appended 1 a:half more", "2 turn.completed completed 3.1 [a:half more]"]
    );
    assert_eq!(hear_at_once(&mut events), None);
}

/// A graph that begins a call of a tool behind a door.
fn calling_behind(door: &Door) -> Graph<Talk> {
    let door = door.clone();
    let builder = Graph::builder().node("n", move |cx: Ctx<Talk>| {
        let door = door.clone();
        async move {
            door.pass().await;
            let turn = TurnContext::of(&cx).unwrap();
            turn.stream().show_tool_start("c", "clock", serde_json::json!({}));
            Ok(says("so"))
        }
    });
    chain(builder, &["n"])
}

// A turn goes on for a while where it was lost: a listener there that has heard of its end elsewhere hears nothing of that, also
// when the turn is over before the log is read. Found by the simulation, seed 502747 with three processes.
#[tokio::test(start_paused = true)]
async fn a_listener_that_has_heard_an_end_elsewhere_hears_of_no_tool_behind_it() {
    let (store, door, there) = (HoldingStore::default(), Door::shut(), Door::shut());
    let store = HoldingStore { is_shared: true, ..store };
    let one = chat_of(&calling_behind(&door)).open(store.clone()).unwrap();
    let lost = one.session("s").submit(user("m"), SendOptions::new()).await.unwrap();
    door.somebody().await;
    there.open();
    let two = chat_of(&calling_behind(&there)).open(SharedStore(store.store.open_beside())).unwrap();
    let elsewhere = two.session("s");
    assert_eq!(line(&elsewhere.send(user("n")).await), "completed 3.2 [a:so]");
    store.hold_next(JournalRead::Events);
    let mut listening = Box::pin(listen(&one, Some(5)));
    assert!((&mut listening).now_or_never().is_none(), "it reads the log");
    door.open();
    while one.activity(lost.id()).is_some() {
        tokio::task::yield_now().await;
    }
    assert_eq!(line(&elsewhere.send(user("o")).await), "completed 3.2 [a:so]");
    store.released.notify_one();
    let mut events = listening.await;
    let heard = hear(&mut events, 3).await;
    assert_eq!(heard.last().unwrap(), "8 turn.completed completed 3.2 [a:so]");
    assert_eq!(hear_at_once(&mut events), None);
    // A read under way that nobody polls would stop the clock of the test.
    drop(events);
    assert_eq!(line(lost.outcome().await.as_ref()), "completed 3.1 [a:so]");
}
