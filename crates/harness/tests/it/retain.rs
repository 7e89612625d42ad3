//! Retention: old data is forgotten, data in use stays, and a request for forgotten data gets an error (INV-12, D9).

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_core::Stream;
use futures_util::{FutureExt, StreamExt};
use proptest::prelude::*;
use singletree_durable::{Journal, JournalMaintenance, TurnRowQuery};
use singletree_engine::{Ctx, NodeError, Signal};
use singletree_harness::{
    Chat, ChatEvent, ChatEventId, Limits, Retention, RetentionReport, SendOptions, Turn, TurnId,
    WhileSuspended,
};
use singletree_store_sqlite::SqliteStore;
use singletree_test_store::TestStore;

use crate::bench::{
    Door, Log, Talk, TokioClock, agent, approve, asking, at, category, chain, chat_of, check_rows, history,
    key, line, name, plain, says, user,
};

/// Keeps nothing that is over.
const NOTHING: Retention = Retention { turns: Some(0), events: Some(0), age: None };

fn last(turns: Option<u64>, events: Option<u64>) -> Retention {
    Retention { turns, events, age: None }
}

fn id(seq: u64) -> Option<ChatEventId> {
    Some(ChatEventId { epoch: "m0".into(), seq })
}

async fn turns(store: &dyn Journal) -> Vec<u64> {
    let all = TurnRowQuery::From { no: 0, limit: 10_000 };
    store.read_turns(&name("s"), &all).await.unwrap().iter().map(|it| it.no).collect()
}

async fn events(store: &dyn Journal) -> Vec<u64> {
    store.read_events(&name("s"), 0, 10_000).await.unwrap().iter().map(|it| it.seq).collect()
}

/// Returns the events that follow an event of the log, or the error; three events are a turn.
async fn after(chat: &Chat, seq: Option<u64>, count: usize) -> Result<Vec<u64>, String> {
    match chat.session("s").events().after(seq.and_then(id)).stream().await {
        Ok(events) => {
            let seqs = events.take(count).map(|it| it.unwrap().id.unwrap().seq);
            Ok(seqs.collect().await)
        }
        Err(error) => Err(format!("{} {error}", error.category())),
    }
}

async fn send(chat: &Chat, count: u64) -> Vec<TurnId> {
    let mut ids = Vec::new();
    for n in 0..count {
        let turn = chat.session("s").submit(user("m"), key(&format!("k{n}"))).await.unwrap();
        turn.outcome().await;
        ids.push(turn.id().clone());
    }
    ids
}

async fn forgets_turns_on(store: impl Journal + JournalMaintenance + Clone + 'static) {
    let epoch = store.log_epoch().to_owned();
    let chat = chat_of(&plain(&Log::default())).open(store.clone()).unwrap();
    let ids = send(&chat, 200).await;
    let forgotten = chat.retain(&last(Some(5), None)).await.unwrap();
    assert_eq!(forgotten, RetentionReport { sessions: 1, turns: 195, events: 585 });
    assert_eq!(turns(&store).await, (195..200).collect::<Vec<_>>());
    assert_eq!(events(&store).await, (585..600).collect::<Vec<_>>());
    assert_eq!(chat.retain(&last(Some(5), None)).await.unwrap(), RetentionReport::default());
    // Messages stay, and so does the conversation.
    assert_eq!(history(&chat, "s").await.len(), 400);
    assert_eq!(chat.turn(&ids[194]).await.unwrap_err().category(), "chat_turn_unknown");
    assert_eq!(line(chat.turn(&ids[195]).await.unwrap().outcome().await.as_ref()), "completed 3.2 [a:hello]");
    // A key is kept as long as its turn's record (D3).
    let (kept, gone) = (chat.session("s").submit(user("m"), key("k195")).await.unwrap(), key("k194"));
    assert_eq!(kept.id(), &ids[195]);
    let anew = chat.session("s").submit(user("m"), gone).await.unwrap();
    assert_eq!(line(anew.outcome().await.as_ref()), "completed 3.2 [a:hello]");
    assert_eq!(history(&chat, "s").await.len(), 402);
    let old = ChatEventId { epoch, seq: 583 };
    let Err(told) = chat.session("s").events().after(Some(old.clone())).stream().await else {
        panic!("events were forgotten")
    };
    assert_eq!(told.category(), "chat_events_expired");
    assert!(told.to_string().contains(&format!("{}.585", old.epoch)), "{told}");
    check_rows(&store, "s").await;
}

#[tokio::test]
async fn turns_beyond_the_last_few_go_with_their_keys_and_events() {
    forgets_turns_on(TestStore::new()).await;
}

#[tokio::test]
async fn turns_are_forgotten_on_a_file_in_the_same_way() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let options = SqliteStore::options(path).durability(singletree_store_sqlite::CommitDurability::Normal);
    let store = options.open().await.unwrap();
    forgets_turns_on(store.clone()).await;
    store.close().await;
}

#[tokio::test]
async fn events_beyond_the_last_few_go_and_who_asks_for_them_is_told() {
    let store = TestStore::new();
    let chat = chat_of(&plain(&Log::default())).open(store.clone()).unwrap();
    let ids = send(&chat, 10).await;
    let forgotten = chat.retain(&last(None, Some(8))).await.unwrap();
    assert_eq!(forgotten, RetentionReport { sessions: 1, turns: 0, events: 22 });
    assert_eq!(after(&chat, None, 8).await.unwrap(), (22..30).collect::<Vec<_>>());
    // Nothing was missed after the last one that went, something was before.
    assert_eq!(after(&chat, Some(21), 8).await.unwrap(), (22..30).collect::<Vec<_>>());
    assert_eq!(after(&chat, Some(22), 7).await.unwrap(), (23..30).collect::<Vec<_>>());
    assert_eq!(after(&chat, Some(20), 1).await.unwrap_err().split(' ').next(), Some("chat_events_expired"));
    assert_eq!(after(&chat, Some(29), 0).await, Ok(vec![]));
    let told = after(&chat, Some(30), 1).await.unwrap_err();
    assert_eq!(told, "chat_event_unknown there is no event 'm0.30' in this log");
    // A turn's outcome is kept; its events are told whole or not at all.
    for (turn, expected) in
        [(9, Ok(3)), (8, Ok(3)), (7, Err("chat_events_expired")), (0, Err("chat_events_expired"))]
    {
        let turn: Turn = chat.turn(&ids[turn]).await.unwrap();
        assert_eq!(line(turn.outcome().await.as_ref()).split(' ').next(), Some("completed"));
        let told: Result<Vec<ChatEvent>, _> = turn.events().collect::<Vec<_>>().await.into_iter().collect();
        assert_eq!(
            told.map(|it| it.len()).map_err(|it| it.category().to_owned()),
            expected.map_err(str::to_owned)
        );
    }
    assert_eq!(chat.retain(&last(None, Some(0))).await.unwrap().events, 8);
    assert_eq!(after(&chat, Some(29), 0).await, Ok(vec![]));
    let told = after(&chat, Some(28), 1).await.unwrap_err();
    assert!(told.starts_with("chat_events_expired") && told.contains("m0.30"), "{told}");
    // New events go on with the numbers.
    chat.session("s").send(user("m")).await;
    assert_eq!(after(&chat, Some(29), 3).await.unwrap(), [30, 31, 32]);
}

#[tokio::test(start_paused = true)]
async fn what_is_too_old_goes_by_itself() {
    let (store, clock) = (TestStore::new(), TokioClock::new());
    let day = Duration::from_secs(24 * 3600);
    let retention = Retention { age: Some(7 * day), ..Retention::default() };
    let builder = chat_of(&plain(&Log::default())).clock(clock).retention(retention);
    let chat = builder.open(store.clone()).unwrap();
    chat.sweep().await.unwrap();
    send(&chat, 3).await;
    tokio::time::sleep(4 * day).await;
    chat.session("s").send(user("m")).await;
    assert_eq!(turns(&store).await, [0, 1, 2, 3]);
    tokio::time::sleep(4 * day).await;
    assert_eq!((turns(&store).await, events(&store).await), (vec![3], vec![9, 10, 11]));
    tokio::time::sleep(4 * day).await;
    assert!(turns(&store).await.is_empty() && events(&store).await.is_empty());
    assert_eq!(history(&chat, "s").await.len(), 8);
    assert!(chat.shutdown(Duration::from_secs(1)).await);
}

#[tokio::test(start_paused = true)]
async fn a_busy_session_is_looked_at_while_it_is_busy() {
    let store = TestStore::in_memory("it counts how often other tasks run");
    let builder = chat_of(&plain(&Log::default())).retention(last(Some(16), Some(30)));
    let chat = builder.open(store.clone()).unwrap();
    chat.sweep().await.unwrap();
    for _ in 0..100 {
        send_one(&chat).await;
        // The background gets its turn, and no clock moves for it.
        for _ in 0..64 {
            tokio::task::yield_now().await;
        }
        // A look is worth it after an eighth of the kept number.
        assert!(turns(&store).await.len() <= 18, "{:?}", turns(&store).await);
        assert!(events(&store).await.len() <= 30 + 6, "{:?}", events(&store).await);
    }
    assert!(turns(&store).await.len() >= 16);
    assert!(chat.shutdown(Duration::from_secs(1)).await);
}

async fn send_one(chat: &Chat) {
    assert_eq!(line(&chat.session("s").send(user("m")).await).split(' ').next(), Some("completed"));
}

// INV-7, INV-8
#[tokio::test]
async fn what_a_wait_needs_stays_until_it_is_over() {
    let store = TestStore::new();
    let graph = asking(&Log::default(), Signal::new("ok"));
    let chat = chat_of(&graph).open(store.clone()).unwrap();
    let waiting = chat.session("s").submit(user("m"), key("k")).await.unwrap();
    waiting.outcome().await;
    for _ in 0..5 {
        assert_eq!(category(chat.session("s").send(user("n")).await), "chat_session_suspended");
    }
    let forgotten = chat.retain(&NOTHING).await.unwrap();
    assert_eq!(forgotten, RetentionReport { sessions: 1, turns: 5, events: 13 });
    assert_eq!(turns(&store).await, [0]);
    check_rows(&store, "s").await;
    // The next process finds everything that the answer, and its duplicate, need.
    let chat = chat_of(&graph).open(store.reopen()).unwrap();
    chat.sweep().await.unwrap();
    let same = chat.session("s").submit(user("m"), key("k")).await.unwrap();
    assert_eq!(same.id(), waiting.id());
    let done = chat.answer(at("s", "ok"), approve(true)).await.unwrap();
    assert_eq!(line(done.outcome().await.as_ref()), "completed 3.3 [a:done]");
    assert_eq!(chat.answer(at("s", "ok"), approve(true)).await.unwrap().id(), done.id());
    assert_eq!(chat.retain(&NOTHING).await.unwrap().turns, 2);
    let gone = chat.answer(at("s", "ok"), approve(true)).await.unwrap_err().into_errored_turn();
    assert_eq!(gone.error_category, "harness_signal_correlation_failed");
    assert_eq!(history(&chat, "s").await, ["u:m", "a:ask", "a:done"]);
    let items = singletree_durable::ItemRange::Numbers { from: 0, to: 100 };
    let items = store.read_items(&name("s"), &items).await.unwrap();
    assert!(items.iter().all(|it| it.placement.is_some()), "what did not become history went: {items:?}");
    assert_eq!(line(&chat.session("s").send(user("n")).await), "suspended 3.2 ok [a:ask]");
}

// INV-2, D29
#[tokio::test]
async fn a_failed_turn_stays_while_its_retry_runs() {
    let (store, door, fails) = (TestStore::new(), Door::shut(), Arc::new(AtomicBool::new(true)));
    let (at_door, failing) = (door.clone(), fails.clone());
    let builder = singletree_engine::Graph::builder().node("n", move |_: Ctx<Talk>| {
        let (door, fails) = (at_door.clone(), failing.load(Ordering::SeqCst));
        async move {
            if fails {
                return Err(NodeError::new("it broke").with_category("provider_unavailable"));
            }
            door.pass().await;
            Ok(says("x"))
        }
    });
    let graph = chain(builder, &["n"]);
    let chat = chat_of(&graph).open(store.clone()).unwrap();
    let mut failed = chat.session("s").submit(user("m"), key("k")).await.unwrap();
    failed.outcome().await;
    // A retry that fails too is retried itself.
    failed = chat.retry(failed.id(), SendOptions::new()).await.unwrap();
    failed.outcome().await;
    fails.store(false, Ordering::SeqCst);
    chat.retry(failed.id(), SendOptions::new()).await.unwrap();
    door.somebody().await;
    assert_eq!(chat.retain(&NOTHING).await.unwrap().turns, 0);
    assert_eq!(turns(&store).await, [0, 1, 2]);
    drop(chat);
    // The next process finds the message of the turn that it takes over.
    let store = store.reopen();
    let chat = chat_of(&graph).open(store.clone()).unwrap();
    door.open();
    chat.sweep().await.unwrap();
    chat.session("s").send(user("n")).await;
    assert_eq!(history(&chat, "s").await, ["u:m", "a:x", "u:n", "a:x"]);
    assert_eq!(chat.retain(&NOTHING).await.unwrap().turns, 4);
}

// INV-2
#[tokio::test]
async fn a_turn_that_runs_or_waits_its_place_is_told_whole() {
    let (store, door) = (TestStore::new(), Door::shut());
    let at_door = door.clone();
    let builder = singletree_engine::Graph::builder().node("n", move |_: Ctx<Talk>| {
        let door = at_door.clone();
        async move {
            door.pass().await;
            Ok(says("x"))
        }
    });
    let chat = chat_of(&chain(builder, &["n"])).open(store.clone()).unwrap();
    let listening = SendOptions::new().listen();
    let running = chat.session("s").submit(user("m"), listening).await.unwrap();
    let queued = chat.session("s").submit(user("n"), Default::default()).await.unwrap();
    door.somebody().await;
    assert_eq!(chat.retain(&NOTHING).await.unwrap(), RetentionReport::default());
    door.open();
    for turn in [&running, &queued] {
        assert_eq!(line(turn.outcome().await.as_ref()).split(' ').next(), Some("completed"));
        assert_eq!(
            turn.events().filter(|it| std::future::ready(it.as_ref().unwrap().id.is_some())).count().await,
            3
        );
    }
    chat.retain(&NOTHING).await.unwrap();
    // Nobody waits for ever for forgotten events.
    for turn in [&running, &queued] {
        let told: Vec<_> = turn.events().collect().await;
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].as_ref().unwrap_err().category(), "chat_events_expired");
    }
}

type Listening = Pin<Box<dyn Stream<Item = singletree_harness::Result<ChatEvent>> + Send>>;

async fn listen(chat: &Chat, seq: Option<u64>) -> Listening {
    Box::pin(chat.session("s").events().after(seq.and_then(id)).stream().await.unwrap())
}

#[tokio::test]
async fn what_a_listener_has_not_read_stays_for_it() {
    let store = TestStore::new();
    let limits = Limits { feed_backlog: 2, ..Limits::default() };
    let chat = chat_of(&plain(&Log::default())).limits(limits).open(store.clone()).unwrap();
    let mut slow = listen(&chat, None).await;
    let sent = send(&chat, 300).await;
    let mut late = listen(&chat, Some(599)).await;
    assert_eq!(chat.retain(&NOTHING).await.unwrap(), RetentionReport::default());
    for seq in 0..450 {
        assert_eq!(slow.next().await.unwrap().unwrap().id.unwrap().seq, seq);
    }
    // Events that it was told are forgotten.
    let forgotten = chat.retain(&NOTHING).await.unwrap();
    assert_eq!(forgotten, RetentionReport { sessions: 1, turns: 150, events: 450 });
    for seq in 450..900 {
        assert_eq!(slow.next().await.unwrap().unwrap().id.unwrap().seq, seq);
    }
    drop(slow);
    let forgotten = chat.retain(&NOTHING).await.unwrap();
    assert_eq!(events(&store).await.first(), Some(&600), "{forgotten:?}");
    for seq in 600..900 {
        assert_eq!(late.next().await.unwrap().unwrap().id.unwrap().seq, seq);
    }
    drop(late);
    chat.retain(&NOTHING).await.unwrap();
    assert!(turns(&store).await.is_empty() && events(&store).await.is_empty());
    assert_eq!(chat.turn(&sent[299]).await.unwrap_err().category(), "chat_turn_unknown");
}

#[tokio::test]
async fn a_file_that_forgets_does_not_grow() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let builder = singletree_engine::Graph::builder()
        .node("n", |_: Ctx<Talk>| async { Err::<crate::bench::TalkUpdate, _>(NodeError::new("it broke")) });
    let graph = chain(builder, &["n"]);
    let mut sizes = Vec::new();
    for _ in 0..4 {
        let options =
            SqliteStore::options(&path).durability(singletree_store_sqlite::CommitDurability::Normal);
        let store = options.open().await.unwrap();
        let chat = chat_of(&graph).open(store.clone()).unwrap();
        for _ in 0..4 {
            for _ in 0..40 {
                // A turn that fails adds nothing to the history: all of it can go.
                chat.session("s").send(user(&"x".repeat(2048))).await;
            }
            chat.retain(&last(Some(10), Some(30))).await.unwrap();
        }
        drop(chat);
        store.close().await;
        sizes.push(std::fs::metadata(&path).unwrap().len());
    }
    assert!(sizes[3] <= sizes[0], "pages are used again: {sizes:?}");
    // 640 turns of 2 KiB passed through it.
    assert!(sizes[3] < 640 * 2048 / 2, "{sizes:?}");
}

/// An operation in a session, beside its retention.
#[derive(Debug, Clone)]
enum Op {
    Send,
    Answer(bool),
    Cancel,
    Retain(Option<u64>, Option<u64>),
    Listen,
    Read(usize),
    Leave,
    Restart,
}

fn op() -> impl Strategy<Value = Op> {
    let bound = || proptest::option::of(0_u64..6);
    prop_oneof![
        5 => Just(Op::Send),
        3 => any::<bool>().prop_map(Op::Answer),
        1 => Just(Op::Cancel),
        4 => (bound(), bound()).prop_map(|(turns, events)| Op::Retain(turns, events)),
        2 => Just(Op::Listen),
        3 => (0_usize..8).prop_map(Op::Read),
        1 => Just(Op::Leave),
        1 => Just(Op::Restart),
    ]
}

/// One run of a property: a session that suspends, its wait as it should be, and listeners that count.
struct World {
    store: TestStore,
    chat: Chat,
    waiting: Option<TurnId>,
    messages: usize,
    /// Streams, with the next event that each must tell.
    listeners: Vec<(Listening, u64)>,
}

fn open(store: TestStore) -> Chat {
    let graph = asking(&Log::default(), Signal::new("ok"));
    let agent = agent(&graph, singletree_harness::Durability::Step).while_suspended(WhileSuspended::Reject);
    let limits = Limits { feed_backlog: 2, ..Limits::default() };
    Chat::builder().agent(agent).limits(limits).open(store).unwrap()
}

impl World {
    async fn step(&mut self, op: Op) {
        match op {
            Op::Send => {
                let turn = self.chat.session("s").submit(user("m"), Default::default()).await.unwrap();
                let outcome = category(turn.outcome().await);
                if self.waiting.is_some() {
                    assert_eq!(outcome, "chat_session_suspended");
                } else {
                    assert_eq!(outcome, "suspended");
                    (self.waiting, self.messages) = (Some(turn.id().clone()), self.messages + 2);
                }
            }
            Op::Answer(approved) => {
                let answered = self.chat.answer(at("s", "ok"), approve(approved)).await;
                if self.waiting.take().is_some() {
                    let outcome = answered.unwrap().outcome().await;
                    assert_eq!(line(&outcome).split(' ').nth(1), Some("3.3"), "a wait is answered");
                    self.messages += 1;
                }
            }
            Op::Cancel => {
                if let Some(waiting) = self.waiting.take() {
                    let closed = self.chat.cancel(&waiting).await.unwrap();
                    assert_eq!(category(closed.outcome().await), "chat_turn_cancelled");
                }
            }
            Op::Retain(turns, events) => drop(self.chat.retain(&last(turns, events)).await.unwrap()),
            Op::Listen => {
                let oldest = events(&self.store).await.first().copied();
                let counters =
                    self.store.read_session(&name("s")).await.unwrap().map(|it| it.counters.events);
                let next = oldest.or(counters).unwrap_or(0);
                self.listeners.push((listen(&self.chat, None).await, next));
            }
            Op::Read(count) => {
                for (events, next) in &mut self.listeners {
                    for _ in 0..count {
                        // Polled until it has nothing more to tell now.
                        let Some(event) = events.next().now_or_never() else { break };
                        let id = event.unwrap().unwrap().id.unwrap();
                        assert_eq!(id.seq, *next, "no gap, no repeat");
                        *next += 1;
                    }
                }
            }
            Op::Leave => drop(self.listeners.pop()),
            Op::Restart => {
                let ends: Vec<u64> = self.listeners.iter().map(|(_, next)| *next).collect();
                self.listeners.clear();
                self.store = self.store.reopen();
                self.chat = open(self.store.clone());
                self.chat.sweep().await.unwrap();
                for next in ends.into_iter().filter(|it| *it > 0) {
                    self.listeners.push((listen(&self.chat, Some(next - 1)).await, next));
                }
            }
        }
        assert_eq!(history(&self.chat, "s").await.len(), self.messages, "messages stay");
        check_rows(&self.store, "s").await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..Default::default() })]

    // INV-2, INV-7, INV-8
    #[test]
    fn whatever_is_in_use_goes_on_after_a_retention(ops in proptest::collection::vec(op(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let store = TestStore::in_memory("it reads all events that there are in one poll");
            let chat = open(store.clone());
            let mut world = World { store, chat, waiting: None, messages: 0, listeners: Vec::new() };
            for op in ops.into_iter().chain([Op::Answer(true), Op::Read(1000)]) {
                world.step(op).await;
            }
            let counters = world.store.read_session(&name("s")).await.unwrap().map(|it| it.counters.events);
            for (_, next) in &world.listeners {
                assert_eq!(*next, counters.unwrap_or(0), "a listener has heard everything");
            }
        });
    }
}
