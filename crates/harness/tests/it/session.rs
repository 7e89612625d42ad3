//! Sessions as a whole: deleting, moving, migrating (D25, sessions §7).

use serde_json::json;
use singletree_durable::{FieldValue, ItemRange, Journal, StateMigrations, TurnRowQuery, WaitRowQuery};
use singletree_engine::{
    Ctx, END, FieldShape, FieldSpec, Graph, Reducer, Signal, Snapshot, StateSchema, StateUpdate,
};
use singletree_harness::{Chat, ForkOptions, GraphAgent, MESSAGE_SHAPE};
use singletree_test_store::TestStore;

use crate::bench::{
    Door, Log, Talk, TokioClock, approve, asking, at, category, chain, chat_of, check_rows, history, key,
    line, name, plain, says, user,
};

// D25
#[tokio::test]
async fn deleting_cancels_what_runs_and_waits_and_removes_everything() {
    let (store, door) = (TestStore::new(), Door::shut());
    let at_door = door.clone();
    let builder = Graph::builder().node("n", move |_: Ctx<Talk>| {
        let door = at_door.clone();
        async move {
            door.pass().await;
            Ok(says("x"))
        }
    });
    let chat = chat_of(&chain(builder, &["n"])).open(store.clone()).unwrap();
    let running = chat.session("s").submit(user("m"), key("k")).await.unwrap();
    door.somebody().await;
    let queued = chat.session("s").submit(user("n"), Default::default()).await.unwrap();
    chat.session("s").delete(Some("ann")).await.unwrap();
    for turn in [&running, &queued] {
        assert_eq!(category(turn.outcome().await), "chat_turn_cancelled");
    }
    assert_eq!(chat.session("s").info().await.unwrap_err().category(), "chat_session_unknown");
    assert_eq!(store.read_turns(&name("s"), &TurnRowQuery::From { no: 0, limit: 9 }).await.unwrap(), []);
    assert_eq!(store.read_events(&name("s"), 0, 9).await.unwrap(), []);
    chat.session("s").delete(None).await.unwrap();
    let (action, by) = &store.audited_actions()[0];
    assert_eq!((action.as_str(), by.is_some()), ("session.deleted", true));
    door.open();
    assert_eq!(line(&chat.session("s").send_with(user("o"), key("k")).await), "completed 3.1 [a:x]");
    assert_eq!(history(&chat, "s").await, ["u:o", "a:x"]);
    check_rows(&store, "s").await;
}

// D25
#[tokio::test]
async fn deleting_cancels_a_wait_and_leaves_listeners_listening() {
    let store = TestStore::new();
    let chat = chat_of(&asking(&Log::default(), Signal::new("ok"))).open(store.clone()).unwrap();
    let (told, mut hears) = tokio::sync::mpsc::unbounded_channel();
    let _subscribed = chat.session("s").subscribe(move |it| told.send(line(it.as_ref())).unwrap()).unwrap();
    chat.session("s").send(user("m")).await;
    chat.session("s").delete(None).await.unwrap();
    assert_eq!(hears.recv().await.unwrap(), "errored chat_turn_cancelled");
    assert_eq!(chat.pending(9).await.unwrap(), []);
    let refused = chat.answer(at("s", "ok"), approve(true)).await.unwrap_err().into_errored_turn();
    assert_eq!(refused.error_category, "harness_signal_correlation_failed");
    chat.session("s").send(user("n")).await;
    chat.answer(at("s", "ok"), approve(true)).await.unwrap().outcome().await;
    assert_eq!(hears.recv().await.unwrap(), "completed 3.3 [a:done]");
    assert_eq!(history(&chat, "s").await, ["u:n", "a:ask", "a:done"]);
    check_rows(&store, "s").await;
}

/// Returns the session's next free numbers.
async fn numbers(store: &TestStore, session: &str) -> (u64, u64, u64, u64) {
    let it = store.read_counters(&name(session)).await.unwrap();
    (it.turns, it.items, it.events, it.waits)
}

// D25, INV-7: a restart between the deletion and the next message must not give an id of an event or the number of an
// approval a second time, however the session is made anew.
#[tokio::test]
async fn numbers_of_a_deleted_session_are_never_given_again() {
    let store = TestStore::new();
    let open =
        |store: &TestStore| chat_of(&asking(&Log::default(), Signal::new("ok"))).open(store.clone()).unwrap();
    let chat = open(&store);
    chat.session("other").send(user("m")).await;
    let export = chat.session("other").export().await.unwrap();
    let mut below = (0, 0, 0, 0);
    for way in ["sent", "sent", "imported", "forked", "sent"] {
        let store = store.reopen();
        let chat = open(&store);
        match way {
            "imported" => chat.import_session(export.clone(), Some("s")).await.unwrap(),
            "forked" => drop(chat.session("other").fork(ForkOptions::new().session("s")).await.unwrap()),
            _ => {}
        }
        chat.session("s").send(user("m")).await;
        let turns = store.read_turns(&name("s"), &TurnRowQuery::From { no: 0, limit: 9 }).await.unwrap();
        assert!(turns.iter().all(|it| it.no >= below.0), "{way}: {turns:?}");
        let events = store.read_events(&name("s"), 0, 99).await.unwrap();
        assert!(events.iter().all(|it| it.seq >= below.2), "{way}: {events:?}");
        let waits = store.read_waits(&WaitRowQuery::Pending(name("s"))).await.unwrap();
        assert_eq!(waits.len(), 1, "{way}");
        assert!(waits.iter().all(|(_, it)| it.no >= below.3), "{way}: {waits:?}");
        // Inherited items keep the source's numbers, which are other rows' names there and here.
        let all = ItemRange::Numbers { from: 0, to: u64::MAX };
        let items = store.read_items(&name("s"), &all).await.unwrap();
        let inherited = if way == "forked" { 2 } else { 0 };
        assert_eq!(items.iter().filter(|it| it.no < below.1).count(), inherited, "{way}: {items:?}");
        chat.session("s").delete(None).await.unwrap();
        below = numbers(&store, "s").await;
    }
}

#[tokio::test]
async fn a_session_is_written_out_and_read_in_again() {
    let chat = chat_of(&plain(&Log::default())).open(TestStore::new()).unwrap();
    chat.session("s").send(user("m")).await;
    let export = chat.session("s").export().await.unwrap();
    chat.import_session(export.clone(), Some("t")).await.unwrap();
    let mut again = chat.session("t").export().await.unwrap();
    again.session = "s".into();
    assert_eq!(again, export);
    assert_eq!(
        chat.import_session(export.clone(), None).await.unwrap_err().category(),
        "chat_session_exists"
    );
    assert_eq!(line(&chat.session("t").send(user("n")).await), "completed 3.2 [a:hello]");
    assert_eq!(history(&chat, "t").await, ["u:m", "a:hello", "u:n", "a:hello"]);
    // Of two at once one makes it, and the other is told that it is there.
    let twice = || chat.import_session(export.clone(), Some("u"));
    let (one, other) = tokio::join!(twice(), twice());
    let refused = [one, other].into_iter().filter_map(Result::err).map(|it| it.category().to_owned());
    assert_eq!(refused.collect::<Vec<_>>(), ["chat_session_exists"]);
    let mut foreign = export.clone();
    foreign.format = 2;
    assert_eq!(chat.import_session(foreign, None).await.unwrap_err().category(), "session_load_failed");
}

/// A graph that answers, over a state of this version.
fn versioned(version: &str, extra: &str) -> Graph<Snapshot> {
    let messages = FieldSpec::new(
        "messages",
        FieldShape::Record(MESSAGE_SHAPE.into()).list(),
        singletree_engine::FieldContent::from_json(json!([])),
    );
    let extra = FieldSpec::new(extra, FieldShape::Int, singletree_engine::FieldContent::from_json(json!(0)));
    let schema =
        StateSchema::new("talk", vec![messages.reducer(Reducer::Append), extra]).with_version(version);
    Graph::<Snapshot>::builder_with(schema)
        .node("n", |_| async {
            let said = json!([{ "role": "assistant", "content": "hello" }]);
            Ok(StateUpdate::new().with("messages", singletree_engine::FieldContent::from_json(said)))
        })
        .edge("n", END)
        .entry("n")
        .compile()
        .unwrap()
}

// spec: sessions §7
#[tokio::test]
async fn an_old_session_is_migrated_when_its_next_turn_begins() {
    let store = TestStore::new();
    let chat =
        Chat::builder().agent(GraphAgent::new("a", &versioned("1", "old"))).open(store.clone()).unwrap();
    chat.session("s").send_with(user("m"), key("k")).await;
    let new = versioned("2", "new");
    let store = store.reopen();
    let chat = Chat::builder().agent(GraphAgent::new("a", &new)).open(store.clone()).unwrap();
    assert_eq!(category(&chat.session("s").send(user("n")).await), "session_state_migration_missing");
    let migrations = StateMigrations::new().with("1", "2", |mut state| {
        let old = state.remove("old").unwrap_or_default();
        state.insert("new".into(), old);
        Ok(state)
    });
    let store = store.reopen();
    let agent = GraphAgent::new("a", &new).session_migrations(migrations);
    let chat = Chat::builder().agent(agent).open(store.clone()).unwrap();
    for _ in 0..2 {
        assert_eq!(line(&chat.session("s").send(user("n")).await), "completed 3.2 [a:hello]");
        let row = store.read_session(&name("s")).await.unwrap().unwrap();
        let fields: Vec<_> = row.fields.iter().map(|it| it.name.as_str()).collect();
        assert_eq!((row.head.schema_version.as_str(), fields), ("2", vec!["messages", "new"]));
        // INV-4: the migration left the history alone, so it is not written again.
        assert!(matches!(row.fields[0].value, FieldValue::List { generation: 0, .. }));
    }
    assert_eq!(history(&chat, "s").await.len(), 6);
    // An earlier turn still has its outcome.
    assert_eq!(line(&chat.session("s").send_with(user("m"), key("k")).await), "completed 3.1 [a:hello]");
    check_rows(&store, "s").await;
}

#[tokio::test(start_paused = true)]
async fn sessions_are_listed_the_last_written_first() {
    let clock = TokioClock::new();
    let chat = chat_of(&plain(&Log::default())).clock(clock).open(TestStore::new()).unwrap();
    for session in ["a", "b.c", "d", "a"] {
        chat.session(session).send(user("m")).await;
        tokio::time::advance(std::time::Duration::from_millis(5)).await;
    }
    let (mut seen, mut from) = (Vec::new(), None::<String>);
    loop {
        let page = chat.recent_sessions(from.as_deref(), 2).await.unwrap();
        seen.extend(page.items.into_iter().map(|it| it.session));
        from = page.next;
        if from.is_none() {
            break;
        }
    }
    assert_eq!(seen, ["a", "d", "b.c"]);
    let whole = chat.recent_sessions(None, 3).await.unwrap();
    assert_eq!((whole.items.len(), whole.next), (3, None));
    let behind = chat.recent_sessions(Some("a"), 3).await.unwrap();
    assert_eq!(behind.items.iter().map(|it| it.session.as_str()).collect::<Vec<_>>(), ["d", "b.c"]);
    for (from, category) in [
        ("", "harness_session_id_unresolved"),
        ("5.", "harness_session_id_unresolved"),
        ("5.a\nb", "harness_session_id_unresolved"),
        ("z", "chat_session_unknown"),
        ("x.a", "chat_session_unknown"),
    ] {
        let refused = chat.recent_sessions(Some(from), 2).await.unwrap_err();
        assert_eq!(refused.category(), category, "{from:?}");
    }
}
