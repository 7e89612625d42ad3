//! Processes that stop: turns that they leave are not counted as deaths, and a chat that is dropped holds nothing (D24,
//! D33).

use std::sync::Arc;
use std::time::Duration;

use singletree_durable::{Batch, BoxFuture, Journal, JournalLayer, MaintenanceLayer, TurnRowQuery};
use singletree_engine::{Ctx, Graph};
use singletree_env::{Env, FaultPoints};
use singletree_harness::{Blobs, Chat, Limits, Retention, SendOptions, Turn};
use singletree_test_store::TestStore;

use crate::bench::{Door, Log, chain, chat_of, line, name, plain, says, user};
use crate::lease::{PausedAt, SharedStore};
use crate::slow_store::SlowStore;

pub(crate) fn long(door: &Door, log: &Log) -> Graph<crate::bench::Talk> {
    let (door, log) = (door.clone(), log.clone());
    let builder = Graph::builder().node("long", move |cx: Ctx<crate::bench::Talk>| {
        log.note(if cx.is_recovering() { "again" } else { "first" });
        let door = door.clone();
        async move {
            door.pass().await;
            Ok(says("done"))
        }
    });
    chain(builder, &["long"])
}

/// A process that does something in another session while the long turn runs in it, and ends.
async fn command(store: &TestStore, door: &Door, log: &Log, stops: bool) {
    let chat = chat_of(&long(door, log)).open(store.clone()).unwrap();
    chat.sweep().await.unwrap();
    door.somebody().await;
    if stops {
        assert!(!chat.shutdown(Duration::ZERO).await);
    }
}

async fn deaths(store: &TestStore) -> u32 {
    store.read_turns(&name("s"), &TurnRowQuery::No(0)).await.unwrap()[0].deaths
}

async fn begun(store: &TestStore, door: &Door, log: &Log) -> Turn {
    let chat: Chat = chat_of(&long(door, log)).open(store.clone()).unwrap();
    let turn = chat.session("s").submit(user("m"), SendOptions::new()).await.unwrap();
    door.somebody().await;
    turn
}

// D24, D33
#[tokio::test(start_paused = true)]
async fn an_orderly_stop_is_no_death_of_a_turn() {
    let (mut store, log) = (TestStore::new(), Log::default());
    let turn = begun(&store, &Door::shut(), &log).await;
    // One kill, then commands of other people, each of which stops while the turn runs in it.
    for _ in 0..5 {
        store = store.reopen();
        command(&store, &Door::shut(), &log, true).await;
        assert_eq!(deaths(&store).await, 1);
    }
    store = store.reopen();
    let door = Door::shut();
    let chat = chat_of(&long(&door, &log)).open(store.clone()).unwrap();
    door.open();
    assert_eq!(chat.sweep().await.unwrap().len(), 1);
    let outcome = chat.turn(turn.id()).await.unwrap().outcome().await;
    assert_eq!(line(outcome.as_ref()), "completed 3.1 [a:done]");
    let runs = log.all();
    assert_eq!((runs[0].as_str(), runs.len()), ("first", 7));
    // D7: a node is told that it may have run, also after an orderly stop.
    assert!(runs[1..].iter().all(|run| run == "again"), "{runs:?}");
}

// D24
#[tokio::test(start_paused = true)]
async fn a_kill_is_a_death_also_between_orderly_stops() {
    let (mut store, log) = (TestStore::new(), Log::default());
    begun(&store, &Door::shut(), &log).await;
    for (stops, counted) in [(true, 1), (false, 1), (true, 2), (false, 2)] {
        store = store.reopen();
        command(&store, &Door::shut(), &log, stops).await;
        assert_eq!(deaths(&store).await, counted);
    }
    let chat = chat_of(&long(&Door::shut(), &log)).open(store.reopen()).unwrap();
    let swept = chat.sweep().await.unwrap();
    assert_eq!(line(swept[0].outcome().await.as_ref()), "errored chat_turn_crashed");
}

// D24: found by the simulation, seed 802204 with three processes. The turn is this process's already, and is not in its queue yet.
#[tokio::test(start_paused = true)]
async fn a_stop_within_a_takeover_is_no_death_of_the_turn() {
    for grace in [Duration::ZERO, Duration::from_secs(60)] {
        let (store, log) = (TestStore::new(), Log::default());
        begun(&store, &Door::shut(), &log).await;
        let store = store.reopen();
        let faults = FaultPoints::with_injector(Arc::new(PausedAt("turn_taken_over")));
        let env = Env { faults, rng: Arc::new(PausedAt("")), ..Env::from_system() };
        let chat = chat_of(&long(&Door::shut(), &log)).env(env).open(SharedStore(store.clone())).unwrap();
        let sweeping = tokio::spawn({
            let chat = chat.clone();
            async move { drop(chat.sweep().await) }
        });
        while deaths(&store).await == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        chat.shutdown(grace).await;
        sweeping.abort();
        let (next, door) = (store.reopen(), Door::shut());
        let chat = chat_of(&long(&door, &log)).open(SharedStore(next.clone())).unwrap();
        assert_eq!(chat.sweep().await.unwrap().len(), 1, "{grace:?}");
        door.somebody().await;
        assert_eq!(deaths(&next).await, 1, "{grace:?}");
    }
}

// D24: found by the simulation, seed 2070. The turn that runs ends after the stop has left it; the next one never ran.
#[tokio::test(start_paused = true)]
async fn a_turn_behind_one_that_ends_late_in_a_stop_has_not_died() {
    let (store, log, door) = (TestStore::new(), Log::default(), Door::shut());
    let chat = chat_of(&long(&door, &log)).open(store.clone()).unwrap();
    for text in ["m", "n"] {
        chat.session("s").submit(user(text), SendOptions::new()).await.unwrap();
    }
    door.somebody().await;
    assert!(!chat.shutdown(Duration::ZERO).await);
    door.open_once();
    let row = async |no| store.read_turns(&name("s"), &TurnRowQuery::No(no)).await.unwrap().remove(0);
    while !row(0).await.status.is_ended() {
        tokio::task::yield_now().await;
    }
    let next = store.reopen();
    let chat = chat_of(&long(&door, &log)).open(next.clone()).unwrap();
    assert_eq!(chat.sweep().await.unwrap().len(), 1);
    let row = next.read_turns(&name("s"), &TurnRowQuery::No(1)).await.unwrap().remove(0);
    assert_eq!(row.deaths, 0);
}

/// A store whose every write takes a tenth of a second, however many there are at once.
#[derive(Debug, Clone)]
struct LateStore(TestStore);

impl JournalLayer for LateStore {
    type Journal = TestStore;

    fn inner_journal(&self) -> &Self::Journal {
        &self.0
    }

    fn write_batch(&self, batch: Batch) -> BoxFuture<'static, singletree_durable::Result<()>> {
        let landing = self.0.apply(batch);
        Box::pin(async move {
            Env::from_system().timer.sleep_for(Duration::from_millis(100)).await;
            landing.await
        })
    }
}

impl MaintenanceLayer for LateStore {
    type Maintenance = TestStore;

    fn inner_maintenance(&self) -> &Self::Maintenance {
        &self.0
    }
}

// D24: found by the simulation, seed 2936. A stop has two seconds to note which turns it leaves, however many those are.
#[tokio::test(start_paused = true)]
async fn a_stop_with_many_turns_over_a_slow_store_is_the_death_of_none() {
    let (store, log, door) =
        (TestStore::in_memory("it counts the steps of tasks"), Log::default(), Door::shut());
    let chat = chat_of(&long(&door, &log)).open(LateStore(store.clone())).unwrap();
    let sessions: Vec<String> = (0..100).map(|number| format!("s{number}")).collect();
    for session in &sessions {
        chat.session(session).submit(user("m"), SendOptions::new()).await.unwrap();
    }
    while log.all().len() < sessions.len() {
        tokio::task::yield_now().await;
    }
    assert!(!chat.shutdown(Duration::ZERO).await);
    let next = store.reopen();
    let chat = chat_of(&long(&door, &log)).open(next.clone()).unwrap();
    assert_eq!(chat.sweep().await.unwrap().len(), sessions.len());
    for session in &sessions {
        let row = next.read_turns(&name(session), &TurnRowQuery::No(0)).await.unwrap().remove(0);
        assert_eq!(row.deaths, 0, "{session}");
    }
}

// D24: found by the simulation, seed 8134 with three processes. Whatever the message has reached when the stop begins, it
// is refused, or the stop marks its turn.
#[tokio::test(start_paused = true)]
async fn a_message_that_arrives_while_its_process_stops_is_no_dead_turn() {
    let (mut accepted, mut refused) = (0, 0);
    for steps in 0..40 {
        let (store, log, door) =
            (TestStore::in_memory("it counts the steps of tasks"), Log::default(), Door::shut());
        let chat = chat_of(&long(&door, &log)).open(SlowStore::over(store.clone())).unwrap();
        let session = chat.session("s");
        let stopping = async {
            for _ in 0..steps {
                tokio::task::yield_now().await;
            }
            chat.shutdown(Duration::ZERO).await
        };
        let (sent, _) = tokio::join!(session.submit(user("m"), SendOptions::new()), stopping);
        match sent {
            Ok(_) => accepted += 1,
            Err(_) => refused += 1,
        }
        let next = store.reopen();
        let after = chat_of(&long(&door, &log)).open(next.clone()).unwrap();
        after.sweep().await.unwrap();
        let rows = next.read_turns(&name("s"), &TurnRowQuery::No(0)).await.unwrap();
        assert!(rows.iter().all(|row| row.deaths == 0), "after {steps} steps");
    }
    assert!(accepted > 0 && refused > 0, "{accepted} {refused}");
}

// D33: a turn that had no time to begin has not died either, and is not lost.
#[tokio::test(start_paused = true)]
async fn turns_that_wait_at_a_stop_run_at_the_next_start() {
    let (mut store, log) = (TestStore::new(), Log::default());
    for round in 0..4 {
        let door = Door::shut();
        let chat = chat_of(&long(&door, &log)).open(store.clone()).unwrap();
        if round == 0 {
            for text in ["m", "n"] {
                chat.session("s").submit(user(text), SendOptions::new()).await.unwrap();
            }
        } else {
            chat.sweep().await.unwrap();
        }
        door.somebody().await;
        assert!(!chat.shutdown(Duration::ZERO).await);
        assert_eq!(deaths(&store).await, 0);
        store = store.reopen();
    }
    let door = Door::shut();
    door.open();
    let chat = chat_of(&long(&door, &log)).open(store).unwrap();
    for turn in chat.sweep().await.unwrap() {
        assert_eq!(turn.outcome().await.as_str(), "completed");
    }
    assert_eq!(crate::bench::history(&chat, "s").await, ["u:m", "a:done", "u:n", "a:done"]);
}

// C, low: the tasks that watch by the clock hold nothing while they sleep, so that a store which is a file is closed.
#[tokio::test]
async fn a_chat_that_has_swept_and_is_dropped_lets_its_store_go() {
    let store = Arc::new(TestStore::new());
    let chat = chat_of(&plain(&Log::default())).blobs(Blobs::with_shared_store(store.clone()));
    let chat = chat.retention(Retention { turns: Some(9), ..Retention::default() });
    let chat = chat.open_shared(store.clone(), store.clone()).unwrap();
    chat.sweep().await.unwrap();
    assert_eq!(chat.session("s").send(user("m")).await.as_str(), "completed");
    drop(chat);
    for _ in 0..100 {
        if Arc::strong_count(&store) == 1 {
            break;
        }
        assert_eq!(store.read_early_signals(&name("s")).await.unwrap(), []);
        tokio::task::yield_now().await;
    }
    assert_eq!(Arc::strong_count(&store), 1);
}

// D24: found by the simulation, seed 2936. The session has left memory when the process ends.
#[tokio::test(start_paused = true)]
async fn a_turn_that_is_left_in_the_queue_of_an_unloaded_session_has_not_died() {
    let (store, log, door) = (TestStore::new(), Log::default(), Door::shut());
    let limits = Limits { hot_sessions: 1, ..Limits::default() };
    let chat = chat_of(&long(&door, &log)).limits(limits).open(store.clone()).unwrap();
    let first = chat.session("s").submit(user("m"), SendOptions::new()).await.unwrap();
    door.somebody().await;
    chat.session("s").submit(user("n"), SendOptions::new()).await.unwrap();
    chat.session("other").submit(user("m"), SendOptions::new()).await.unwrap();
    door.somebody().await;
    let ended = tokio::spawn({
        let chat = chat.clone();
        async move { chat.shutdown(Duration::from_mins(1)).await }
    });
    tokio::task::yield_now().await;
    door.open_once();
    assert_eq!(line(first.outcome().await.as_ref()), "completed 3.1 [a:done]");
    drop(first);
    // The task of the session ends, and then another session needs its place.
    tokio::time::sleep(Duration::from_secs(1)).await;
    drop(chat.session("third").subscribe(|_| ()).unwrap());
    door.open();
    assert!(ended.await.unwrap());
    drop(chat);

    let next = store.reopen();
    let chat = chat_of(&long(&door, &log)).open(next.clone()).unwrap();
    assert_eq!(line(chat.sweep().await.unwrap()[0].outcome().await.as_ref()), "completed 3.2 [a:done]");
    assert_eq!(next.read_turns(&name("s"), &TurnRowQuery::No(1)).await.unwrap()[0].deaths, 0);
}
