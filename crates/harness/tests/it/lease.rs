//! Sessions that one of several owners holds: work acquires, reading does not, and who lost a session stops (D4).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use singletree_durable::{
    Batch, Error, Journal, JournalLayer, MaintenanceLayer, RowMutation, ServedGraph, ServedGraphs, TenantId,
    TurnRowQuery,
};
use singletree_engine::{Ctx, Graph, Signal};
use singletree_env::{FaultInjector, RandomSource};
use singletree_harness::{Answer, Chat, ChatTurnOutcome, GraphAgent, Limits, SendOptions, SignalAddress};
use singletree_test_store::TestStore;

use crate::bench::{
    Door, Log, Talk, category, chain, chat_of, check_rows, door_node, gate, history, line, name, plain, says,
    user,
};
use crate::doctor::sound;
use crate::event::{listen, told};
use crate::lost_lease::{check_run_lost_between_nodes, check_turn_lost_before_it_runs};

/// A graph that waits at a door before it answers.
fn waiting(door: &Door, log: &Log) -> Graph<Talk> {
    let (door, log) = (door.clone(), log.clone());
    let builder = Graph::builder().node("n", move |_: Ctx<Talk>| {
        log.note("n");
        let door = door.clone();
        async move {
            door.pass().await;
            Ok(says("so"))
        }
    });
    chain(builder, &["n"])
}

async fn is_held(store: &TestStore, session: &str) -> bool {
    store.is_held(&name(session)).await
}

/// Why a test does not run over another store.
const TAKES_BACK: &str = "both owners are alive, and one takes from the other what it holds";

// INV-1, INV-2: the new owner continues the turn; the former one tells its callers that it lost it, and stops.
#[tokio::test(start_paused = true)]
async fn a_session_that_another_owner_acquires_goes_on_there_and_only_there() {
    let (store, log, door) = (TestStore::in_memory(TAKES_BACK), Log::default(), Door::shut());
    let one = chat_of(&waiting(&door, &log)).open(store.clone()).unwrap();
    let running = one.session("s").submit(user("m"), SendOptions::new()).await.unwrap();
    let queued = one.session("s").submit(user("n"), SendOptions::new()).await.unwrap();
    door.somebody().await;

    let there = Door::shut();
    let two = chat_of(&waiting(&there, &log)).open(store.open_beside()).unwrap();
    let third = two.session("s").submit(user("o"), SendOptions::new()).await.unwrap();
    there.somebody().await;

    // The other owner runs the turn when this one ends it: the end is refused, and told as not recorded.
    door.open();
    let outcome = running.outcome().await;
    let ChatTurnOutcome::Errored(errored) = outcome.as_ref() else { panic!("{outcome:?}") };
    assert_eq!(
        (errored.error_category.as_str(), errored.recorded, errored.retry_safe),
        ("store_lease_lost", false, false)
    );
    assert_ne!(category(queued.outcome().await), "completed");

    there.open();
    assert_eq!(line(third.outcome().await.as_ref()), "completed 3.2 [a:so]");
    assert_eq!(category(two.turn(running.id()).await.unwrap().outcome().await), "completed");
    assert_eq!(history(&two, "s").await, ["u:m", "a:so", "u:n", "a:so", "u:o", "a:so"]);
    check_rows(&store, "s").await;
    sound(&store).await;

    // The former owner gets the session back when it needs it.
    assert_eq!(line(&one.session("s").send(user("p")).await), "completed 3.2 [a:so]");
    check_rows(&store, "s").await;
    check_turn_lost_before_it_runs(&store).await;
    check_run_lost_between_nodes(&store).await;
}

/// A store that says that other processes write it, too.
#[derive(Debug)]
pub(crate) struct SharedStore(pub(crate) TestStore);

impl JournalLayer for SharedStore {
    type Journal = TestStore;

    fn inner_journal(&self) -> &TestStore {
        &self.0
    }

    fn is_shared(&self) -> bool {
        true
    }
}

impl MaintenanceLayer for SharedStore {
    type Maintenance = TestStore;

    fn inner_maintenance(&self) -> &TestStore {
        &self.0
    }
}

// INV-2, D9: a session that was lost is followed in the log. Found by the simulation (seed 10 with three processes).
#[tokio::test(start_paused = true)]
async fn whoever_listens_where_a_session_was_lost_hears_what_its_next_owner_does() {
    let (store, log, door) = (TestStore::new(), Log::default(), Door::shut());
    let one = chat_of(&waiting(&door, &log)).open(SharedStore(store.clone())).unwrap();
    let running = one.session("s").submit(user("m"), SendOptions::new()).await.unwrap();
    let queued = one.session("s").submit(user("n"), SendOptions::new().listen()).await.unwrap();
    door.somebody().await;
    let mut events = Box::pin(queued.events());
    assert_eq!(events.next().await.unwrap().unwrap().what.as_str(), "turn.accepted");

    let two = chat_of(&plain(&log)).open(SharedStore(store.open_beside())).unwrap();
    let third = two.session("s").submit(user("o"), SendOptions::new()).await.unwrap();
    assert_eq!(line(third.outcome().await.as_ref()), "completed 3.2 [a:hello]");
    let rest: Vec<_> =
        tokio::time::timeout(Duration::from_secs(60), events.collect()).await.expect("they end");
    let kinds: Vec<_> = rest.iter().map(|event| event.as_ref().unwrap().what.as_str()).collect();
    assert_eq!(kinds, ["message.appended", "turn.completed"]);
    assert_eq!(line(queued.outcome().await.as_ref()), "completed 3.2 [a:hello]");
    drop(running);
    sound(&store).await;
}

// D9: a process takes over a turn that it has not seen accepted: who listens there hears first that it was. Found by the
// simulation (seed 20 with three processes).
#[tokio::test(start_paused = true)]
async fn whoever_listens_where_a_turn_is_taken_over_hears_first_that_it_was_accepted() {
    let (store, log, door, there) = (TestStore::new(), Log::default(), Door::shut(), Door::shut());
    let two = chat_of(&waiting(&there, &log)).open(SharedStore(store.clone())).unwrap();
    let store = store.open_beside();
    let one = chat_of(&waiting(&door, &log)).open(SharedStore(store.clone())).unwrap();
    let mut events = listen(&two, None).await;
    assert!(events.next().now_or_never().is_none(), "nothing has happened");
    let running = one.session("s").submit(user("m"), SendOptions::new()).await.unwrap();
    door.somebody().await;
    // The lease of the first owner ends.
    let _ended = store.open_beside();
    two.session("s").submit(user("n"), SendOptions::new()).await.unwrap();
    there.somebody().await;
    let mut heard = Vec::new();
    for _ in 0..3 {
        heard.push(told(&events.next().await.unwrap().unwrap()));
    }
    assert_eq!(heard, ["0 turn.accepted u:m", "1 turn.accepted u:n", "- turn.restarted "]);
    drop(running);
}

/// A graph that waits at a door, then for a signal.
fn waiting_twice(door: &Door, log: &Log) -> Graph<Talk> {
    chain(gate(door_node(Graph::builder(), door), log, Signal::new("ok")), &["n", "gate"])
}

// INV-7: an answer that is queued behind a turn, and that turn is lost with its session. Found by the simulation (seed 741
// with three processes).
#[tokio::test(start_paused = true)]
async fn an_answer_behind_a_turn_that_is_lost_is_not_left_without_a_result() {
    let (store, log, door) = (TestStore::in_memory(TAKES_BACK), Log::default(), Door::shut());
    let one = chat_of(&waiting_twice(&door, &log)).open(SharedStore(store.clone())).unwrap();
    let running = one.session("s").submit(user("m"), SendOptions::new()).await.unwrap();
    door.somebody().await;
    // Another owner takes the turn over, and there it comes to its wait.
    let there = Door::shut();
    there.open();
    let two = chat_of(&waiting_twice(&there, &log)).open(SharedStore(store.open_beside())).unwrap();
    let refused = two.session("s").submit(user("o"), SendOptions::new()).await.unwrap();
    assert_eq!(category(refused.outcome().await.as_ref()), "chat_session_suspended");

    let address = || SignalAddress::Session { session: "s".into(), signal: "ok".into() };
    let answer = || Answer::new(serde_json::Map::new());
    let (first, second) = (one.answer(address(), answer()), one.answer(address(), answer()));
    let both = async { tokio::join!(first, second) };
    let mut both = Box::pin(both);
    assert!((&mut both).now_or_never().is_none(), "the turn runs");
    door.open();
    let (first, second) = tokio::time::timeout(Duration::from_secs(60), both).await.expect("they end");
    assert_eq!(first.unwrap().id(), second.unwrap().id(), "one took it, the other was the same");
    drop(running);
    sound(&store).await;
}

// The same for a session that its next owner deletes.
#[tokio::test(start_paused = true)]
async fn whoever_listens_where_a_session_was_lost_hears_of_its_deletion() {
    let (store, log, door) = (TestStore::new(), Log::default(), Door::shut());
    let one = chat_of(&waiting(&door, &log)).open(SharedStore(store.clone())).unwrap();
    let running = one.session("s").submit(user("m"), SendOptions::new().listen()).await.unwrap();
    door.somebody().await;
    let events = running.events();
    let two = chat_of(&plain(&log)).open(SharedStore(store.open_beside())).unwrap();
    assert_eq!(category(two.session("s").send(user("n")).await), "completed");
    two.session("s").delete(None).await.unwrap();
    let rest: Vec<_> =
        tokio::time::timeout(Duration::from_secs(60), events.collect()).await.expect("they end");
    assert_eq!(rest.last().unwrap().as_ref().unwrap_err().category(), "chat_session_unknown");
}

// The same when this process has the next session of that name before it looks. Found by the simulation (seed 2013 with
// three processes).
#[tokio::test(start_paused = true)]
async fn whoever_listens_hears_of_a_deletion_behind_which_the_next_session_began_here() {
    let (store, log, door) = (TestStore::in_memory(TAKES_BACK), Log::default(), Door::shut());
    let one = chat_of(&waiting(&door, &log)).open(SharedStore(store.clone())).unwrap();
    let running = one.session("s").submit(user("m"), SendOptions::new().listen()).await.unwrap();
    door.somebody().await;
    let listening = one.turn(running.id()).await.unwrap();
    let mut events = Box::pin(listening.events());
    assert_eq!(events.next().await.unwrap().unwrap().what.as_str(), "turn.accepted");
    let two = chat_of(&plain(&log)).open(SharedStore(store.open_beside())).unwrap();
    assert_eq!(category(two.session("s").send(user("n")).await), "completed");
    two.session("s").delete(None).await.unwrap();

    door.open();
    assert_eq!(line(&one.session("s").send(user("o")).await), "completed 3.1 [a:so]");
    let rest: Vec<_> =
        tokio::time::timeout(Duration::from_secs(60), events.collect()).await.expect("they end");
    assert_eq!(rest.last().unwrap().as_ref().unwrap_err().category(), "chat_session_unknown");
}

// D3: a key whose turn was deleted is free, also where the loss of the session was not noticed yet. Found by the
// simulation (seed 3735 with three processes).
#[tokio::test(start_paused = true)]
async fn a_key_of_a_session_that_was_lost_and_deleted_begins_a_turn() {
    let (store, log, door) = (TestStore::in_memory(TAKES_BACK), Log::default(), Door::shut());
    let one = chat_of(&waiting(&door, &log)).open(SharedStore(store.clone())).unwrap();
    let session = one.session("s");
    let keyed = || session.submit(user("m"), SendOptions::new().key("key"));
    let first = keyed().await.unwrap();
    door.somebody().await;
    assert_eq!(keyed().await.unwrap().id(), first.id(), "it runs");
    let two = chat_of(&plain(&log)).open(SharedStore(store.open_beside())).unwrap();
    assert_eq!(category(two.session("s").send(user("n")).await), "completed");
    assert_eq!(keyed().await.unwrap().id(), first.id(), "it has ended, in another process");
    two.session("s").delete(None).await.unwrap();

    door.open();
    let second = keyed().await.unwrap();
    assert_ne!(second.id(), first.id());
    assert_eq!(line(second.outcome().await.as_ref()), "completed 3.1 [a:so]");
    sound(&store).await;
}

// D24: while a stop waits for a turn, other processes have the sessions in which nothing is to be done.
#[tokio::test(start_paused = true)]
async fn a_stop_gives_idle_sessions_back_at_once() {
    let (store, door) = (TestStore::new(), Door::shut());
    let chat = chat_of(&waiting(&door, &Log::default())).open(store.clone()).unwrap();
    door.open_once();
    assert_eq!(category(chat.session("idle").send(user("m")).await), "completed");
    door.somebody().await;
    let running = chat.session("busy").submit(user("m"), SendOptions::new()).await.unwrap();
    door.somebody().await;
    let stopping = tokio::spawn({
        let chat = chat.clone();
        async move { chat.shutdown(Duration::from_secs(60)).await }
    });
    let freed = async {
        while is_held(&store, "idle").await {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), freed).await.expect("within the grace of the stop");
    assert!(is_held(&store, "busy").await);
    door.open();
    assert!(stopping.await.unwrap());
    assert_eq!(category(running.outcome().await), "completed");
    assert!(!is_held(&store, "busy").await);
}

// D24: the next owner of a session need not wait for turns of other sessions, and the turns behind it did not die.
#[tokio::test(start_paused = true)]
async fn a_stop_gives_a_session_back_when_its_turn_has_ended() {
    let (store, slow, quick) = (TestStore::new(), Door::shut(), Door::shut());
    let agent = |name: &str, door: &Door| GraphAgent::new(name, &waiting(door, &Log::default()));
    let chat = Chat::builder().agent(agent("slow", &slow)).agent(agent("quick", &quick));
    let chat = chat.open(SharedStore(store.clone())).unwrap();
    let running = chat.session("slow").submit(user("m"), SendOptions::new()).await.unwrap();
    let send = |text: &'static str| {
        let chat = chat.clone();
        async move { chat.session("quick").submit(user(text), SendOptions::new().agent("quick")).await.unwrap() }
    };
    let (first, second) = (send("m").await, send("n").await);
    slow.somebody().await;
    quick.somebody().await;
    let stopping = tokio::spawn({
        let chat = chat.clone();
        async move { chat.shutdown(Duration::from_secs(60)).await }
    });
    tokio::task::yield_now().await;
    assert!(is_held(&store, "quick").await && is_held(&store, "slow").await);
    quick.open();
    let freed = async {
        while is_held(&store, "quick").await {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), freed).await.expect("within the grace of the stop");
    assert!(is_held(&store, "slow").await);
    assert_eq!(category(first.outcome().await), "completed");

    // The other owner goes on with the message that was left.
    let beside = SharedStore(store.open_beside());
    let other = Chat::builder().agent(agent("quick", &quick)).open(beside).unwrap();
    assert_eq!(other.sweep().await.unwrap().len(), 1);
    assert_eq!(category(other.turn(second.id()).await.unwrap().outcome().await), "completed");
    let left = store.read_turns(&name("quick"), &TurnRowQuery::From { no: 1, limit: 1 }).await.unwrap();
    assert_eq!(left[0].deaths, 0);
    slow.open();
    assert!(stopping.await.unwrap());
    assert_eq!(category(running.outcome().await), "completed");
    check_rows(&store, "quick").await;
}

/// A store that keeps each announcement.
#[derive(Debug, Clone, Default)]
struct AnnouncedStore(TestStore, Arc<Mutex<Vec<ServedGraphs>>>);

impl JournalLayer for AnnouncedStore {
    type Journal = TestStore;

    fn inner_journal(&self) -> &TestStore {
        &self.0
    }

    fn announce_served_graphs(&self, served: ServedGraphs) {
        self.1.lock().unwrap().push(served);
    }
}

impl MaintenanceLayer for AnnouncedStore {
    type Maintenance = TestStore;

    fn inner_maintenance(&self) -> &TestStore {
        &self.0
    }
}

// D28: who takes over turns says in which versions it has its agents, and takes it back before it stops.
#[tokio::test]
async fn a_sweep_announces_the_agents_and_a_stop_takes_them_back() {
    let (store, tenant) = (AnnouncedStore::default(), TenantId::parse("acme").unwrap());
    let graph = plain(&Log::default());
    let agents = Chat::builder().agent(GraphAgent::new("a", &graph)).agent(GraphAgent::new("b", &graph));
    let chat = agents.tenant(tenant.clone()).open(store.clone()).unwrap();
    assert_eq!(category(chat.session("s").send(user("m")).await), "completed");
    assert!(store.1.lock().unwrap().is_empty(), "it may be a command that takes over nothing");
    chat.sweep().await.unwrap();
    let graph = |name: &str| ServedGraph {
        agent: name.to_owned(),
        graph: graph.digest().to_owned(),
        schema_version: graph.session_version().to_owned(),
    };
    let turn_age = Limits::default().turn_age;
    let expected = ServedGraphs { graphs: vec![graph("a"), graph("b")], tenant: Some(tenant), turn_age };
    assert_eq!(*store.1.lock().unwrap(), std::slice::from_ref(&expected));
    chat.shutdown(Duration::ZERO).await;
    let left = ServedGraphs { graphs: Vec::new(), ..expected };
    assert_eq!(store.1.lock().unwrap().last(), Some(&left));
}

// D28: a sweep acquires no session of an agent that this process does not have.
#[tokio::test]
async fn a_sweep_leaves_the_sessions_of_unknown_agents_to_others() {
    let (store, door) = (TestStore::new(), Door::shut());
    let one = chat_of(&waiting(&door, &Log::default())).open(store.clone()).unwrap();
    drop(one.session("s").submit(user("m"), SendOptions::new()).await.unwrap());
    door.somebody().await;
    let store = store.reopen();
    let other = plain(&Log::default());
    let stranger = Chat::builder().agent(GraphAgent::new("stranger", &other)).open(store.clone()).unwrap();
    assert_eq!(stranger.sweep().await.unwrap().len(), 0);
    let fence = store.read_newest_fence().await.unwrap();
    let batch = Batch::new(name("s"), fence);
    assert!(matches!(store.apply(batch).await, Err(Error::LeaseLost { .. })));
}

// D4
#[tokio::test]
async fn reading_a_session_acquires_nothing() {
    let (store, door) = (TestStore::new(), Door::shut());
    let one = chat_of(&waiting(&door, &Log::default())).open(store.clone()).unwrap();
    let turn = one.session("s").submit(user("m"), SendOptions::new()).await.unwrap();
    door.somebody().await;
    let two = chat_of(&plain(&Log::default())).open(store.open_beside()).unwrap();
    assert_eq!(two.session("s").info().await.unwrap().messages, 0);
    assert_eq!(history(&two, "s").await, [""; 0]);
    assert_eq!(two.pending(9).await.unwrap(), []);
    door.open();
    assert_eq!(category(turn.outcome().await), "completed");
    assert_eq!(store.read_turns(&name("s"), &TurnRowQuery::No(0)).await.unwrap()[0].deaths, 0);
}

// INV-12
#[tokio::test]
async fn a_session_that_leaves_memory_is_released() {
    let store = TestStore::new();
    let limits = Limits { hot_sessions: 1, ..Limits::default() };
    let chat = chat_of(&plain(&Log::default())).limits(limits).open(store.clone()).unwrap();
    assert_eq!(category(chat.session("s").send(user("m")).await), "completed");
    assert!(is_held(&store, "s").await);
    assert_eq!(category(chat.session("t").send(user("m")).await), "completed");
    assert_eq!((is_held(&store, "s").await, is_held(&store, "t").await), (false, true));
    assert_eq!(line(&chat.session("s").send(user("n")).await), "completed 3.2 [a:hello]");

    chat.shutdown(std::time::Duration::from_secs(9)).await;
    assert_eq!((is_held(&store, "s").await, is_held(&store, "t").await), (false, false));
}

#[tokio::test]
async fn a_chat_that_is_dropped_releases_its_sessions() {
    let store = TestStore::new();
    let chat: Chat = chat_of(&plain(&Log::default())).open(store.clone()).unwrap();
    assert_eq!(category(chat.session("s").send(user("m")).await), "completed");
    assert!(is_held(&store, "s").await);
    drop(chat);
    for _ in 0..100 {
        if !is_held(&store, "s").await {
            break;
        }
        tokio::task::yield_now().await;
    }
    assert!(!is_held(&store, "s").await);
}

// C11: a store that was opened again takes nothing more from this process, and says so.
#[tokio::test]
async fn a_chat_that_lost_its_store_is_told_so() {
    let store = TestStore::new();
    let chat = chat_of(&plain(&Log::default())).open(store.clone()).unwrap();
    assert_eq!(category(chat.session("s").send(user("m")).await), "completed");
    let later = store.reopen();
    let refused = chat.session("s").send(user("n")).await;
    let ChatTurnOutcome::Errored(errored) = &refused else { panic!("{refused:?}") };
    assert_eq!((errored.error_category.as_str(), errored.turn.is_none()), ("chat_accept_failed", true));
    let fence = later.acquire(&name("s")).await.unwrap().fence;
    let mut batch = Batch::new(name("s"), fence);
    batch.put(RowMutation::DropField("none".into()));
    later.apply(batch).await.unwrap();
}

// INV-8: found by the torture of three nodes. Another owner had deleted the session while its turns were taken over here.
#[tokio::test(start_paused = true)]
async fn a_turn_whose_session_is_gone_does_not_stop_the_next_ones() {
    let (store, log, door) = (TestStore::new(), Log::default(), Door::shut());
    let chat = chat_of(&waiting(&door, &log)).open(store.clone()).unwrap();
    let running = chat.session("s").submit(user("m"), SendOptions::new()).await.unwrap();
    door.somebody().await;
    let rows = store.read_turns(&name("s"), &TurnRowQuery::Open).await.unwrap();
    let mut deletion = Batch::new(name("s"), rows[0].fence);
    deletion.put(RowMutation::Delete);
    store.apply(deletion).await.unwrap();
    door.open();
    let outcome = running.outcome().await;
    let ChatTurnOutcome::Errored(errored) = outcome.as_ref() else { panic!("{outcome:?}") };
    assert!(!errored.recorded);
    let next = tokio::time::timeout(Duration::from_mins(1), chat.session("s").send(user("n"))).await;
    assert_eq!(category(Arc::new(next.unwrap())), "completed");
}

/// Pauses at each point of a name, for 1.6 seconds.
#[derive(Debug)]
pub(crate) struct PausedAt(pub(crate) &'static str);

impl FaultInjector for PausedAt {
    fn is_fault_due(&self, name: &'static str) -> bool {
        name == self.0
    }
}

impl RandomSource for PausedAt {
    fn fill_bytes(&self, bytes: &mut [u8]) {
        bytes.fill(u8::MAX);
    }
}
