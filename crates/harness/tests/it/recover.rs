//! Turns whose process died: poison, age, other agents, graphs that changed (D24, D28).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use singletree_durable::{BoxFuture, Journal, JournalLayer, JournalRead, MaintenanceLayer};
use singletree_engine::{Ctx, Graph, Item, Signal};
use singletree_harness::{Chat, ChatTurnOutcome, Durability, GraphAgent, Limits, TurnId, WhileSuspended};
use singletree_store_testing::FailedWriteEffect;
use singletree_telemetry::{SpanSettings, SpanSubject};
use singletree_test_store::TestStore;

use crate::bench::{
    Door, Log, Talk, TokioClock, agent, approve, asking, at, called, category, chain, chat_of, check_rows,
    gate, history, key, line, name, plain, say, says, user,
};
use crate::sky::Sky;

/// A graph that saves an open call, then never ends.
fn deadly(door: &Door, log: &Log) -> Graph<Talk> {
    let (door, log) = (door.clone(), log.clone());
    let builder = Graph::builder().node("call", |_: Ctx<Talk>| async { Ok(called("c")) });
    let builder = builder.node("n", move |cx: Ctx<Talk>| {
        log.note("n");
        let door = door.clone();
        async move {
            cx.save_session().await?;
            door.pass().await;
            Ok(says("never"))
        }
    });
    chain(builder, &["call", "n"])
}

// D24
#[tokio::test]
async fn the_third_boot_closes_a_turn_that_kills_its_process() {
    for durability in [Durability::Turn, Durability::Step] {
        let (mut store, log) = (TestStore::new(), Log::default());
        let mut id: Option<TurnId> = None;
        for boot in 0..3 {
            let door = Door::shut();
            let chat =
                Chat::builder().agent(agent(&deadly(&door, &log), durability)).open(store.clone()).unwrap();
            match boot {
                0 => {
                    let turn = chat.session("s").submit(user("m"), key("k")).await.unwrap();
                    id = Some(turn.id().clone());
                }
                _ => assert_eq!(chat.sweep().await.unwrap().len(), 1),
            }
            door.somebody().await;
            store = store.reopen();
        }
        let chat = chat_of(&deadly(&Door::shut(), &log)).open(store.clone()).unwrap();
        let swept = chat.sweep().await.unwrap();
        assert_eq!(Some(swept[0].id()), id.as_ref());
        let outcome = swept[0].outcome().await;
        let ChatTurnOutcome::Errored(errored) = outcome.as_ref() else { panic!("{outcome:?}") };
        assert_eq!((errored.error_category.as_str(), errored.retry_safe), ("chat_turn_crashed", false));
        let closing = r#"t:c={"reason":"chat_turn_crashed","status":"failed"}"#;
        assert_eq!(history(&chat, "s").await, ["u:m", "a:(c)", closing]);
        assert_eq!(log.all().len(), 3);
        check_rows(&store, "s").await;
        assert_eq!(chat.session("s").submit(user("m"), key("k")).await.unwrap().outcome().await, outcome);
    }
}

// D28
#[tokio::test(start_paused = true)]
async fn a_turn_that_is_too_old_is_given_up() {
    let (store, clock, door) = (TestStore::new(), TokioClock::new(), Door::shut());
    let graph = deadly(&door, &Log::default());
    let open = |store| chat_of(&graph).clock(clock.clone()).open(store).unwrap();
    open(store.clone()).session("s").submit(user("m"), key("k")).await.unwrap();
    door.somebody().await;
    tokio::time::advance(Limits::default().turn_age + Duration::from_secs(1)).await;
    let store = store.reopen();
    let swept = open(store.clone()).sweep().await.unwrap();
    assert_eq!(category(swept[0].outcome().await), "chat_turn_abandoned");
    check_rows(&store, "s").await;
}

// INV-2: a turn that is this process's already, and whose takeover failed half way, is taken over without any call.
#[tokio::test(start_paused = true)]
async fn a_takeover_that_failed_half_way_is_tried_again() {
    let (store, clock, door) = (TestStore::new(), TokioClock::new(), Door::shut());
    let graph = deadly(&door, &Log::default());
    let first = chat_of(&graph).clock(clock.clone()).open(store.clone()).unwrap();
    first.session("s").submit(user("m"), key("k")).await.unwrap();
    door.somebody().await;
    tokio::time::advance(Limits::default().turn_age + Duration::from_secs(1)).await;
    let sky = Sky::over(store.reopen());
    let chat = chat_of(&graph).clock(clock).open(sky.clone()).unwrap();
    let mut events = Box::pin(chat.session("s").events().stream().await.unwrap());
    // The first write says whose turn it is, and the second one, which fails twice, would close it.
    sky.fail(2, 3, FailedWriteEffect::Before);
    assert_eq!(chat.sweep().await.unwrap_err().category(), "store_unavailable");
    assert_eq!(chat.sweep().await.unwrap().len(), 0, "the turn has an owner");
    let ended = async {
        loop {
            let event = events.next().await.unwrap().unwrap();
            if let Some(outcome) = event.what.outcome() {
                break outcome.clone();
            }
        }
    };
    let ended = tokio::time::timeout(Duration::from_hours(1), ended).await.unwrap();
    assert_eq!(category(ended), "chat_turn_abandoned");
    assert!(sky.applies() >= 6, "{}", sky.applies());
    check_rows(&sky, "s").await;
}

// D28
#[tokio::test]
async fn turns_of_agents_that_are_not_here_are_left_alone() {
    let (store, door) = (TestStore::new(), Door::shut());
    let chat = chat_of(&deadly(&door, &Log::default())).open(store.clone()).unwrap();
    let turn = chat.session("s").submit(user("m"), key("k")).await.unwrap();
    door.somebody().await;
    let store = store.reopen();
    let other = GraphAgent::new("other", &plain(&Log::default()));
    let chat = Chat::builder().agent(other).open(store.clone()).unwrap();
    assert_eq!(chat.sweep().await.unwrap().len(), 0);
    assert_eq!(chat.turn(turn.id()).await.unwrap_err().category(), "chat_agent_unknown");
    assert_eq!(category(&chat.session("s").send(user("n")).await), "chat_agent_unknown");
    assert_eq!(line(&chat.session("t").send(user("n")).await), "completed 3.1 [a:hello]");
    let chat = chat_of(&plain(&Log::default())).open(store.reopen()).unwrap();
    assert_eq!(chat.sweep().await.unwrap().len(), 1);
}

// D28
#[tokio::test]
async fn a_turn_whose_graph_has_changed_is_closed_by_category() {
    let (store, door, log) = (TestStore::new(), Door::shut(), Log::default());
    let chat = chat_of(&deadly(&door, &log)).open(store.clone()).unwrap();
    chat.session("s").submit(user("m"), key("k")).await.unwrap();
    door.somebody().await;
    let waiting = chat_of(&asking(&log, Signal::new("ok"))).open(store.reopen()).unwrap();
    waiting.session("w").send(user("m")).await;
    let store = store.reopen();
    let chat = chat_of(&chain(say(Graph::builder(), &log, "other"), &["other"])).open(store.clone()).unwrap();
    for turn in chat.sweep().await.unwrap() {
        assert_eq!(category(turn.outcome().await), "checkpoint_record_invalid");
    }
    let refused = chat.answer(at("w", "ok"), approve(true)).await.unwrap_err().into_errored_turn();
    assert_eq!(refused.error_category, "suspension_record_invalid");
    assert_eq!(chat.pending(9).await.unwrap(), []);
    for session in ["s", "w"] {
        check_rows(&store, session).await;
        assert_eq!(line(&chat.session(session).send(user("n")).await), "completed 3.2 [a:other]");
    }
}

// D7: a fact that a node recorded before it was done is there when it runs again, also in the first node.
#[tokio::test]
async fn a_fact_that_the_first_node_recorded_survives_its_process() {
    let (store, door, log) = (TestStore::new(), Door::shut(), Log::default());
    let (at_door, noted) = (door.clone(), log.clone());
    let builder = Graph::builder().node("n", move |cx: Ctx<Talk>| {
        let (door, log) = (at_door.clone(), noted.clone());
        async move {
            if cx.records().is_empty() {
                cx.record("effect", Item::from_text("\"sent\"")).await?;
                log.note("effect");
                door.pass().await;
            }
            Ok(says("done"))
        }
    });
    let graph = chain(builder, &["n"]);
    let chat = chat_of(&graph).open(store.clone()).unwrap();
    chat.session("s").submit(user("m"), key("k")).await.unwrap();
    door.somebody().await;
    let store = store.reopen();
    let chat = chat_of(&graph).open(store.clone()).unwrap();
    let swept = chat.sweep().await.unwrap();
    assert_eq!(line(swept[0].outcome().await.as_ref()), "completed 3.1 [a:done]");
    assert_eq!(log.all(), ["effect"]);
    assert_eq!(history(&chat, "s").await, ["u:m", "a:done"]);
    check_rows(&store, "s").await;
}

// D7: what a commit stores for telemetry is no fact of a node.
#[tokio::test]
async fn a_node_that_runs_again_sees_the_facts_that_it_recorded_and_no_others() {
    let (store, door, log) = (TestStore::new(), Door::shut(), Log::default());
    let (at_door, noted) = (door.clone(), log.clone());
    // The commits of these nodes have no event, and that of the second one drops the records of the turn.
    let builder = Graph::builder().node("quiet", |_: Ctx<Talk>| async { Ok(Talk::update().count(1)) });
    let builder = builder.node("notes", |cx: Ctx<Talk>| async move {
        cx.record("fact", Item::from_text("1")).await?;
        Ok(Talk::update().count(1))
    });
    let builder = builder.node("n", move |cx: Ctx<Talk>| {
        let (door, log) = (at_door.clone(), noted.clone());
        async move {
            log.note(&format!("{:?}", cx.records().into_keys().collect::<Vec<_>>()));
            let reserved = cx.record("singletree.telemetry.7", Item::from_text("[0,[]]")).await.unwrap_err();
            log.note(reserved.category());
            door.pass().await;
            Ok(says("done"))
        }
    });
    let agent = agent(&chain(builder, &["quiet", "notes", "n"]), Durability::Step);
    let chat = Chat::builder().agent(agent.clone()).open(store.clone()).unwrap();
    let turn = chat.session("s").submit(user("m"), key("k")).await.unwrap();
    door.somebody().await;
    let rows = store.read_turn_records(&name("s"), 0).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.name.as_str()).collect::<Vec<_>>(), ["singletree.telemetry.1"]);
    assert!(!chat.turn_trace(turn.id()).await.unwrap().is_partial, "they are read from there");
    let store = store.reopen();
    door.open();
    let chat = Chat::builder().agent(agent).open(store.clone()).unwrap();
    let swept = chat.sweep().await.unwrap();
    assert_eq!(line(swept[0].outcome().await.as_ref()), "completed 3.1 [a:done]");
    assert_eq!(log.all(), ["[]", "invalid_argument", "[]", "invalid_argument"]);
    assert_eq!(store.read_turn_records(&name("s"), 0).await.unwrap(), []);
    let spans = chat.turn_trace(turn.id()).await.unwrap().render_spans(&SpanSettings::new());
    let nodes = spans.iter().filter(|span| matches!(span.subject, SpanSubject::Node));
    assert_eq!(nodes.map(|span| span.name.as_ref()).collect::<Vec<_>>(), ["quiet", "notes", "n"]);
    check_rows(&store, "s").await;
}

// D1, INV-1: a resume that died goes before the sends that were parked behind its wait, whatever their numbers.
#[tokio::test]
async fn a_resume_that_died_goes_before_parked_sends() {
    for durability in [Durability::Turn, Durability::Step] {
        let (store, door) = (TestStore::new(), Door::shut());
        let at_door = door.clone();
        let builder = gate(say(Graph::builder(), &Log::default(), "ask"), &Log::default(), Signal::new("ok"));
        let builder = builder.node("act", move |_: Ctx<Talk>| {
            let door = at_door.clone();
            async move {
                door.pass().await;
                Ok(says("done"))
            }
        });
        let graph = chain(builder, &["ask", "gate", "act"]);
        let agent = agent(&graph, durability).while_suspended(WhileSuspended::Queue);
        let open = |store| Chat::builder().agent(agent.clone()).open(store).unwrap();
        let chat = open(store.clone());
        chat.session("s").send(user("m")).await;
        let parked = chat.session("s").submit(user("n"), key("k")).await.unwrap();
        let resumed = chat.answer(at("s", "ok"), approve(true)).await.unwrap();
        door.somebody().await;
        door.open();
        let store = store.reopen();
        let chat = open(store.clone());
        let swept: Vec<_> = chat.sweep().await.unwrap();
        assert_eq!(swept.iter().map(|it| it.id()).collect::<Vec<_>>(), [resumed.id(), parked.id()]);
        assert_eq!(line(swept[0].outcome().await.as_ref()), "completed 3.3 [a:done]");
        assert_eq!(line(swept[1].outcome().await.as_ref()), "suspended 3.2 ok [a:ask]");
        assert_eq!(history(&chat, "s").await, ["u:m", "a:ask", "a:done", "u:n", "a:ask"]);
        check_rows(&store, "s").await;
    }
}

/// A store that other processes may write, which counts how often it is asked for turns without an owner.
#[derive(Debug, Clone)]
struct SharedStore {
    store: TestStore,
    asked: Arc<AtomicUsize>,
}

impl JournalLayer for SharedStore {
    type Journal = TestStore;

    fn inner_journal(&self) -> &Self::Journal {
        &self.store
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn wrap_read<'a, T: Send + 'a>(
        &'a self,
        read: JournalRead,
        answer: BoxFuture<'a, singletree_durable::Result<T>>,
    ) -> BoxFuture<'a, singletree_durable::Result<T>> {
        if read == JournalRead::Ownerless {
            self.asked.fetch_add(1, Ordering::SeqCst);
        }
        answer
    }
}

impl MaintenanceLayer for SharedStore {
    type Maintenance = TestStore;

    fn inner_maintenance(&self) -> &Self::Maintenance {
        &self.store
    }
}

// Other processes take over the same turns: each one reads the list again after a few.
#[tokio::test]
async fn many_turns_of_a_dead_process_are_taken_over_a_few_at_a_time_where_others_may_take_them() {
    let (store, door, asked) = (TestStore::new(), Door::shut(), Arc::new(AtomicUsize::new(0)));
    let graph = crate::stopping::long(&door, &Log::default());
    let chat = chat_of(&graph).open(store.clone()).unwrap();
    for session in 0..150 {
        chat.session(format!("s{session}")).submit(user("m"), key("k")).await.unwrap();
    }
    let shared = SharedStore { store: store.reopen(), asked: asked.clone() };
    let chat = chat_of(&graph).open(shared).unwrap();
    let taken = chat.sweep().await.unwrap();
    assert_eq!((taken.len(), asked.load(Ordering::SeqCst)), (150, 3), "64, 64 and the rest");
    door.open();
    for turn in taken {
        assert!(matches!(turn.outcome().await.as_ref(), ChatTurnOutcome::Completed(_)));
    }
}
