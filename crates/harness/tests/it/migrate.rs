//! Invocations that began under one version of an agent and go on under the next (R36, pipeline-utilities §10.12).

use std::sync::Arc;

use serde_json::json;
use singletree_durable::{FieldValue, Journal, JournalMaintenance};
use singletree_engine::{
    Ctx, END, FieldContent, FieldShape, FieldSpec, Graph, GraphBuilder, NodeResult, Reducer, SessionShape,
    Signal, Snapshot, StateMigrations, StateSchema, StateUpdate,
};
use singletree_harness::{
    Answer, Chat, Durability, GraphAgent, Harness, HarnessOutcome, InboundRequest, MESSAGE_SHAPE,
    MemoryCoordinator, SignalArrival,
};
use singletree_store_sqlite::SqliteStore;
use singletree_test_store::TestStore;

use crate::bench::{Door, at, category, check_rows, fields, history, key, line, name, user};
use crate::doctor::sound;

fn says(text: &str) -> StateUpdate {
    let said = json!([{"role": "assistant", "content": text}]);
    StateUpdate::new().with("messages", FieldContent::from_json(said))
}

fn field(name: &'static str, shape: FieldShape, default: serde_json::Value) -> FieldSpec {
    FieldSpec::new(name, shape, FieldContent::from_json(default))
}

/// A schema of this version: the history, and a number under this name.
fn schema(version: &str, number: &'static str) -> StateSchema {
    let messages = field("messages", FieldShape::Record(MESSAGE_SHAPE.into()).list(), json!([]));
    let number = field(number, FieldShape::Int, json!(0));
    let topic = field("topic", FieldShape::Str, json!("none"));
    StateSchema::new("talk", vec![messages.reducer(Reducer::Append), number, topic]).with_version(version)
}

/// ask -> gate (suspends) -> tell, which says the number.
fn asking(version: &str, number: &'static str) -> GraphBuilder<Snapshot> {
    Graph::<Snapshot>::builder_with(schema(version, number))
        .node("ask", move |_| async move { Ok(says("ask").with(number, FieldContent::from_json(json!(7)))) })
        .node("gate", |cx: Ctx<Snapshot>| async move { cx.suspend(Signal::new("ok")).await })
        .node("tell", move |cx: Ctx<Snapshot>| async move {
            let told = |name| cx.state().get(name).unwrap().to_json().unwrap();
            let told = format!("{number} is {}, topic is {}", told(number), told("topic"));
            NodeResult::<Snapshot>::Ok(says(&told))
        })
        .edge("ask", "gate")
        .edge("gate", "tell")
        .edge("tell", END)
        .entry("ask")
}

fn agent(graph: GraphBuilder<Snapshot>) -> GraphAgent {
    GraphAgent::new("a", &graph.compile().unwrap()).durability(Durability::Step)
}

fn renames() -> StateMigrations {
    StateMigrations::new().with("1", "2", |mut state| {
        let old = state.remove("old").ok_or("nothing to rename")?;
        state.insert("new".into(), old);
        Ok(state)
    })
}

fn topic(text: &str) -> Answer {
    Answer::new(fields(&[("topic", json!(text))]))
}

async fn paused_under_the_old<S: Journal + JournalMaintenance + Clone + 'static>(store: &S) {
    let chat = Chat::builder().agent(agent(asking("1", "old"))).open(store.clone()).unwrap();
    assert_eq!(line(&chat.session("s").send(user("m")).await), "suspended 3.1 ok [a:ask]");
}

/// The stored form of the session: its version, its fields, and the generation of its history.
async fn stored(store: &impl Journal) -> (String, Vec<String>, u64) {
    let row = store.read_session(&name("s")).await.unwrap().unwrap();
    let generation = row.fields.iter().find_map(|it| match it.value {
        FieldValue::List { generation, .. } => Some(generation),
        FieldValue::Value(_) => None,
    });
    let names = row.fields.into_iter().map(|it| it.name).collect();
    (row.head.schema_version, names, generation.unwrap())
}

async fn answered_under_the_new<S: Journal + JournalMaintenance + Clone + 'static>(store: &S) {
    let new = agent(asking("2", "new")).session_migrations(renames());
    let chat = Chat::builder().agent(new).open(store.clone()).unwrap();
    let turn = chat.answer(at("s", "ok"), topic("t")).await.unwrap();
    let told = "completed 3.3 [a:new is 7, topic is \"t\"]";
    assert_eq!(line(turn.outcome().await.as_ref()), told);
    assert_eq!(history(&chat, "s").await, ["u:m", "a:ask", "a:new is 7, topic is \"t\""]);
    // INV-4: the rows that the migration left alone were not written again.
    let names = ["messages", "new", "topic"].map(str::to_owned).to_vec();
    assert_eq!(stored(store).await, ("2".to_owned(), names, 0));
    assert_eq!(line(&chat.session("s").send(user("n")).await), "suspended 3.2 ok [a:ask]");
    check_rows(store, "s").await;
}

#[tokio::test]
async fn a_wait_of_an_old_agent_is_answered_under_the_new_one() {
    let store = TestStore::new();
    paused_under_the_old(&store).await;
    let store = store.reopen();
    answered_under_the_new(&store).await;
    sound(&store.reopen()).await;
}

#[tokio::test]
async fn a_wait_in_a_file_is_answered_under_the_new_agent() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let store = SqliteStore::open(&path).await.unwrap();
    paused_under_the_old(&store).await;
    drop(store);
    let store = SqliteStore::open(&path).await.unwrap();
    answered_under_the_new(&store).await;
    drop(store);
    sound(&SqliteStore::open(&path).await.unwrap()).await;
}

// spec: pipeline-utilities §10.10: the wait stays as it is until an agent comes that can take it. INV-13
#[tokio::test]
async fn a_migration_that_fails_leaves_the_wait_as_it_is() {
    let same = |state| Ok(state);
    let none = StateMigrations::new;
    let cases = [
        (none(), "checkpoint_state_migration_missing"),
        (none().with("1", "2", |_| Err("no".into())), "checkpoint_state_migration_failed"),
        (none().with("1", "2", |_| panic!("no")), "checkpoint_state_migration_failed"),
        (none().with("1", "2", same).with("1", "2", same), "checkpoint_state_migration_chain_ambiguous"),
        (
            none().with("1", "2", |mut state| {
                state.insert("new".into(), json!("text"));
                Ok(state)
            }),
            "state_validation_error",
        ),
    ];
    for (migrations, expected) in cases {
        let store = TestStore::new();
        paused_under_the_old(&store).await;
        let store = store.reopen();
        let new = agent(asking("2", "new")).state_migrations(migrations);
        let chat = Chat::builder().agent(new).open(store.clone()).unwrap();
        let refused = chat.answer(at("s", "ok"), topic("t")).await.unwrap_err().into_errored_turn();
        assert_eq!(refused.error_category, expected);
        assert_eq!(chat.session("s").pending().await.unwrap().len(), 1);
        assert_eq!(stored(&store).await.0, "1");
        let store = store.reopen();
        answered_under_the_new(&store).await;
    }
}

// R36: a session's slice may have a version of its own; then the state's migrations are registered for themselves.
#[tokio::test]
async fn a_projected_session_needs_migrations_of_the_state() {
    let projected = |version: &str, number| {
        let shape = SessionShape::Projected {
            fields: vec![("messages".into(), "messages".into())],
            version: Some("s1".into()),
        };
        agent(asking(version, number).session_shape(shape))
    };
    let store = TestStore::new();
    let chat = Chat::builder().agent(projected("1", "old")).open(store.clone()).unwrap();
    assert_eq!(category(&chat.session("s").send(user("m")).await), "suspended");
    let store = store.reopen();
    // Migrations of sessions are of other states than this one.
    let new = projected("2", "new").session_migrations(renames());
    let chat = Chat::builder().agent(new).open(store.clone()).unwrap();
    let refused = chat.answer(at("s", "ok"), topic("t")).await.unwrap_err().into_errored_turn();
    assert_eq!(refused.error_category, "checkpoint_state_migration_missing");
    let store = store.reopen();
    let new = projected("2", "new").state_migrations(renames()).window(1);
    let chat = Chat::builder().agent(new).open(store.clone()).unwrap();
    let turn = chat.answer(at("s", "ok"), topic("t")).await.unwrap();
    assert_eq!(line(turn.outcome().await.as_ref()), "completed 3.3 [a:new is 7, topic is \"t\"]");
    assert_eq!(history(&chat, "s").await, ["u:m", "a:ask", "a:new is 7, topic is \"t\""]);
    assert_eq!(stored(&store).await.0, "s1");
    check_rows(&store, "s").await;
    sound(&store.reopen()).await;
}

// INV-13: the state that a crash left is migrated as the state that a pause left.
#[tokio::test]
async fn a_turn_that_died_under_the_old_agent_goes_on_under_the_new_one() {
    let (store, door) = (TestStore::new(), Door::shut());
    let stuck = |version: &str, number: &'static str, door: Door| {
        Graph::<Snapshot>::builder_with(schema(version, number))
            .node(
                "ask",
                move |_| async move { Ok(says("ask").with(number, FieldContent::from_json(json!(7)))) },
            )
            .node("tell", move |cx: Ctx<Snapshot>| {
                let door = door.clone();
                async move {
                    door.pass().await;
                    let told = cx.state().get(number).unwrap().to_json().unwrap();
                    NodeResult::<Snapshot>::Ok(says(&format!("{number} is {told}")))
                }
            })
            .edge("ask", "tell")
            .edge("tell", END)
            .entry("ask")
    };
    let old = agent(stuck("1", "old", door.clone()));
    let chat = Chat::builder().agent(old).open(store.clone()).unwrap();
    chat.session("s").submit(user("m"), key("k")).await.unwrap();
    door.somebody().await;
    let store = store.reopen();
    let open = Door::shut();
    open.open();
    let new = agent(stuck("2", "new", open)).session_migrations(renames());
    let chat = Chat::builder().agent(new).open(store.clone()).unwrap();
    let swept = chat.sweep().await.unwrap();
    assert_eq!(line(swept[0].outcome().await.as_ref()), "completed 3.1 [a:ask, a:new is 7]");
    assert_eq!(history(&chat, "s").await, ["u:m", "a:ask", "a:new is 7"]);
    check_rows(&store, "s").await;
    sound(&store.reopen()).await;
}

// The abstract harness: a signal whose resume could not begin is not consumed.
#[tokio::test]
async fn a_signal_waits_for_a_graph_that_can_take_its_state() {
    let (paused, coordinator) = (Arc::new(TestStore::new()), Arc::new(MemoryCoordinator::new()));
    let harness = |graph: GraphBuilder<Snapshot>| {
        let graph = graph.paused_store(paused.clone()).compile().unwrap();
        Harness::stateless(graph).coordinator(coordinator.clone()).build()
    };
    let begun = harness(asking("1", "old")).handle(InboundRequest::message(fields(&[]))).await;
    assert!(matches!(begun.outcome, HarnessOutcome::Suspended(_)), "{:?}", begun.outcome);
    let signal = || InboundRequest::signal(SignalArrival::for_signal("ok", fields(&[("topic", json!("t"))])));
    let refused = harness(asking("2", "new")).handle(signal()).await;
    let HarnessOutcome::Errored(failure) = refused.outcome else { panic!("{:?}", refused.outcome) };
    assert_eq!(failure.category, "checkpoint_state_migration_missing");
    assert_eq!(coordinator.count_subscriptions(), 1);
    let ended = harness(asking("2", "new").state_migrations(renames())).handle(signal()).await;
    let HarnessOutcome::Completed(done) = ended.outcome else { panic!("{:?}", ended.outcome) };
    assert_eq!(done.state.get("new").unwrap().to_json().unwrap(), json!(7));
    assert_eq!(coordinator.count_subscriptions(), 0);
}
