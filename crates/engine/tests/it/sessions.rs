//! Sessions: which state is loaded, merged, migrated and saved, and when (sessions §3–§10).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use singletree_durable::{
    BoxFuture, Error as StoreError, ExpectedVersion, JsonDocument, MemoryStore, RecordVersion,
    Result as StoreResult, SessionFilter, SessionKey, SessionRecord, SessionStore, SessionSummary, TenantId,
    Timestamp,
};
use singletree_engine::{
    Ctx, END, Error, FieldShape, Graph, InvokeOptions, NodeError, Projection, Reducer, SessionShape,
    Snapshot, StateMigrations, StateSchema, StateUpdate, format_error_chain,
};
use singletree_store_testing::{FailedWriteEffect, FaultInjectingStore};

use crate::rig::{Builder, completed, field, int, log, map, over, session, sets, text, update};

/// A store that counts, and answers as it is told.
#[derive(Debug)]
pub(crate) struct Watched {
    inner: Arc<dyn SessionStore>,
    calls: Mutex<Vec<&'static str>>,
    pub(crate) conflicts: Mutex<bool>,
    fails_to_load: bool,
}

impl Watched {
    pub(crate) fn new() -> Arc<Self> {
        Self::over(Arc::new(MemoryStore::new().session_store()), false)
    }

    fn over(inner: Arc<dyn SessionStore>, fails_to_load: bool) -> Arc<Self> {
        Arc::new(Self { inner, calls: Mutex::default(), conflicts: Mutex::new(false), fails_to_load })
    }

    fn calls(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.calls.lock().unwrap())
    }

    pub(crate) async fn seed(&self, id: &str, version: &str, state: Value) {
        let state = map(state).into_iter().map(|(name, value)| (name, JsonDocument::from(&value))).collect();
        let record =
            SessionRecord { schema_version: version.into(), state, updated_at: Timestamp::from_millis(0) };
        self.inner.save(&key(id), &record, ExpectedVersion::Any).await.unwrap();
    }

    /// The stored version and state of a session.
    pub(crate) async fn stored(&self, id: &str) -> Option<(String, Value)> {
        let (record, _) = self.inner.load(&key(id)).await.unwrap()?;
        let state: BTreeMap<_, Value> =
            record.state.iter().map(|(k, v)| (k.clone(), v.decode().unwrap())).collect();
        Some((record.schema_version, json!(state)))
    }
}

fn key(id: &str) -> SessionKey {
    SessionKey::new(TenantId::single(), session(id))
}

impl SessionStore for Watched {
    fn load<'a>(
        &'a self,
        key: &'a SessionKey,
    ) -> BoxFuture<'a, StoreResult<Option<(SessionRecord, RecordVersion)>>> {
        self.calls.lock().unwrap().push("load");
        if self.fails_to_load {
            return Box::pin(async { Err(StoreError::Closed) });
        }
        self.inner.load(key)
    }
    fn save<'a>(
        &'a self,
        key: &'a SessionKey,
        record: &'a SessionRecord,
        expected: ExpectedVersion,
    ) -> BoxFuture<'a, StoreResult<RecordVersion>> {
        self.calls.lock().unwrap().push("save");
        if *self.conflicts.lock().unwrap() {
            return Box::pin(
                async move { Err(StoreError::Conflict { key: key.clone(), expected, found: None }) },
            );
        }
        self.inner.save(key, record, expected)
    }
    fn delete<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, StoreResult<()>> {
        self.calls.lock().unwrap().push("delete");
        self.inner.delete(key)
    }
    fn list<'a>(
        &'a self,
        tenant: &'a TenantId,
        filter: &'a SessionFilter,
    ) -> BoxFuture<'a, StoreResult<Vec<SessionSummary>>> {
        self.inner.list(tenant, filter)
    }
}

fn record_turn() -> Builder {
    over([log("history"), text("scratch")])
        .node("turn", sets(json!({"history": ["x"], "scratch": "tmp"})))
        .edge("turn", END)
        .entry("turn")
}

fn in_session() -> InvokeOptions {
    InvokeOptions::new().session(session("s"))
}

async fn turn(graph: &Graph<Snapshot>, initial: Value) -> Value {
    completed(graph.invoke(update(initial), in_session()).await)
}

async fn refused(graph: &Graph<Snapshot>) -> Error {
    graph.invoke(StateUpdate::new(), in_session()).await.unwrap_err()
}

fn unversioned(state: Value) -> Option<(String, Value)> {
    Some(("unversioned".into(), state))
}

// spec: sessions §4.1, §6.1
#[tokio::test]
async fn a_full_session_goes_on_where_it_ended() {
    let store = Watched::new();
    let graph = record_turn().session_store(store.clone()).compile().unwrap();
    assert_eq!(turn(&graph, json!({})).await, json!({"history": ["x"], "scratch": "tmp"}));
    assert_eq!(turn(&graph, json!({})).await["history"], json!(["x", "x"]));
    assert_eq!(store.stored("s").await, unversioned(json!({"history": ["x", "x"], "scratch": "tmp"})));
    assert_eq!(store.calls(), ["load", "save", "load", "save"]);
}

// R1: defaults, then the stored fields, then the caller's, through the reducers.
#[tokio::test]
async fn what_the_caller_sets_is_merged_onto_what_is_stored() {
    let store = Watched::new();
    let fields = [log("log"), int("n"), field("keep", FieldShape::Int, json!(1)), text("t")];
    let graph =
        over(fields).node("a", sets(json!({}))).edge("a", END).entry("a").session_store(store.clone());
    let graph = graph.compile().unwrap();
    store.seed("s", "unversioned", json!({"log": ["old"], "n": 1, "keep": 7, "gone": true})).await;
    let ended = turn(&graph, json!({"log": ["new"], "n": 2, "t": "set"})).await;
    assert_eq!(ended, json!({"log": ["old", "new"], "n": 2, "keep": 7, "t": "set"}));
}

// spec: sessions §4.2
#[tokio::test]
async fn a_projected_session_keeps_only_its_slice() {
    for (shape, expected) in [
        (SessionShape::from_field_names(["history"]), json!({"history": ["x"]})),
        (
            SessionShape::Projected { fields: vec![("past".into(), "history".into())], version: None },
            json!({"past": ["x"]}),
        ),
    ] {
        let store = Watched::new();
        let look = |cx: Ctx<Snapshot>| async move {
            assert_eq!(cx.state().get("scratch").unwrap().to_json()?, json!(""));
            Ok(update(json!({"history": ["x"], "scratch": "tmp"})))
        };
        let graph =
            over([log("history"), text("scratch")]).node("turn", look).edge("turn", END).entry("turn");
        let graph = graph.session_store(store.clone()).session_shape(shape).compile().unwrap();
        turn(&graph, json!({})).await;
        assert_eq!(store.stored("s").await, unversioned(expected));
        assert_eq!(turn(&graph, json!({})).await, json!({"history": ["x", "x"], "scratch": "tmp"}));
    }
}

#[tokio::test]
async fn a_projection_may_have_a_version_of_its_own() {
    let store = Watched::new();
    let shape =
        SessionShape::Projected { fields: vec![("h".into(), "history".into())], version: Some("s2".into()) };
    let graph = record_turn().session_store(store.clone()).session_shape(shape).compile().unwrap();
    turn(&graph, json!({})).await;
    assert_eq!(store.stored("s").await, Some(("s2".into(), json!({"h": ["x"]}))));
    assert_eq!(graph.session_fields().collect::<Vec<_>>(), [("h", "history")]);
}

// spec: sessions §3
#[tokio::test]
async fn without_a_store_or_without_an_id_nothing_is_loaded_or_saved() {
    let graph = record_turn().compile().unwrap();
    for _ in 0..2 {
        assert_eq!(turn(&graph, json!({})).await["history"], json!(["x"]));
    }
    let store = Watched::new();
    let graph = record_turn().session_store(store.clone()).compile().unwrap();
    completed(graph.invoke(StateUpdate::new(), InvokeOptions::new()).await);
    assert_eq!(store.calls(), [""; 0]);
}

/// A: step = "A"; B saves explicitly; C ends as told.
fn saving(fails: bool) -> Builder {
    let saves = |cx: Ctx<Snapshot>| async move {
        let mine = update(json!({"step": "B"}));
        cx.save_session_with(mine.clone()).await?;
        Ok(mine)
    };
    let last = move |_| async move {
        if fails { Err(NodeError::new("x")) } else { Ok(update(json!({"step": "C"}))) }
    };
    let builder = over([text("step")]).node("A", sets(json!({"step": "A"}))).node("B", saves).node("C", last);
    builder.edge("A", "B").edge("B", "C").edge("C", END).entry("A")
}

// spec: sessions §6.2, §6.3; R10
#[tokio::test]
async fn an_explicit_save_stays_when_the_run_fails_later() {
    let store = Watched::new();
    let graph = saving(true).session_store(store.clone()).compile().unwrap();
    assert_eq!(refused(&graph).await.category(), "node_exception");
    assert_eq!(store.stored("s").await, unversioned(json!({"step": "B"})));
    assert_eq!(store.calls(), ["load", "save"]);
}

#[tokio::test]
async fn without_auto_save_only_explicit_saves_are_kept() {
    let store = Watched::new();
    let graph = saving(false).auto_save(false).session_store(store.clone()).compile().unwrap();
    assert_eq!(turn(&graph, json!({})).await, json!({"step": "C"}));
    assert_eq!(store.stored("s").await, unversioned(json!({"step": "B"})));
    let graph = saving(false).session_store(store.clone()).compile().unwrap();
    turn(&graph, json!({})).await;
    assert_eq!(store.stored("s").await, unversioned(json!({"step": "C"})));
}

#[tokio::test]
async fn a_plain_save_keeps_the_state_before_the_node() {
    let store = Watched::new();
    let saves = |cx: Ctx<Snapshot>| async move {
        cx.save_session().await?;
        Err::<StateUpdate, _>(NodeError::new("x"))
    };
    let graph = over([text("step")]).node("A", sets(json!({"step": "A"}))).node("B", saves);
    let graph =
        graph.edge("A", "B").edge("B", END).entry("A").session_store(store.clone()).compile().unwrap();
    refused(&graph).await;
    assert_eq!(store.stored("s").await, unversioned(json!({"step": "A"})));
}

// spec: sessions §10: the node sees the failed save and may go on, or pass it on.
#[tokio::test]
async fn a_failed_explicit_save_is_the_nodes_to_handle() {
    for (swallows, expected) in [(true, "session_write_conflict"), (false, "node_exception")] {
        let store = Watched::new();
        *store.conflicts.lock().unwrap() = true;
        let saves = move |cx: Ctx<Snapshot>| async move {
            match cx.save_session().await {
                Err(error) if !swallows => Err(error.into()),
                other => Ok(update(json!({"step": other.unwrap_err().category()}))),
            }
        };
        let graph = over([text("step")]).node("a", saves).edge("a", END).entry("a");
        let error = refused(&graph.session_store(store).compile().unwrap()).await;
        assert_eq!((error.category(), error.derived_category()), (expected, "session_write_conflict"));
    }
}

#[tokio::test]
async fn an_errored_run_saves_nothing() {
    let store = Watched::new();
    let failing = |_| async { Err::<StateUpdate, _>(NodeError::new("x")) };
    let graph =
        over([int("v")]).node("a", sets(json!({"v": 1}))).node("b", failing).edge("a", "b").edge("b", END);
    let graph = graph.entry("a").session_store(store.clone()).compile().unwrap();
    refused(&graph).await;
    assert_eq!((store.stored("s").await, store.calls()), (None, vec!["load"]));
}

fn never() -> Builder {
    over([int("v"), log("log")]).node("a", |_| async { panic!("a node ran") }).edge("a", END).entry("a")
}

// spec: sessions §10
#[tokio::test]
async fn a_failed_load_runs_nothing() {
    let store = Watched::over(Arc::new(MemoryStore::new().session_store()), true);
    let error = refused(&never().session_store(store.clone()).compile().unwrap()).await;
    assert_eq!((error.category(), store.calls()), ("session_load_failed", vec!["load"]));
    assert_eq!(format_error_chain(&error), "the session could not be loaded: the store is closed");
}

// spec: sessions §6.1, §10: the result stands, and is inside.
#[tokio::test]
async fn a_failed_save_at_the_end_holds_the_result() {
    let store =
        FaultInjectingStore::new(Arc::new(MemoryStore::new().session_store()), 1, FailedWriteEffect::Before);
    let graph = record_turn().session_store(Arc::new(store)).compile().unwrap();
    let error = refused(&graph).await;
    let Error::SessionSave { completed: Some(completed), .. } = &error else { panic!("{error:?}") };
    assert_eq!(error.category(), "session_save_failed");
    assert_eq!(crate::rig::state(&completed.state), json!({"history": ["x"], "scratch": "tmp"}));
}

// spec: sessions §8.2
#[tokio::test]
async fn a_conflict_keeps_its_category() {
    let store = Watched::new();
    *store.conflicts.lock().unwrap() = true;
    let graph = record_turn().session_store(store.clone()).compile().unwrap();
    assert_eq!(refused(&graph).await.category(), "session_write_conflict");
    assert_eq!(store.calls(), ["load", "save"], "the engine does not try again");
}

fn versioned(version: &str, migrations: StateMigrations) -> Builder {
    let schema = StateSchema::new("test", vec![int("value")]).with_version(version);
    let builder = Graph::builder_with(schema).node("a", sets(json!({}))).edge("a", END).entry("a");
    builder.session_migrations(migrations)
}

fn adds(
    n: i64,
) -> impl Fn(BTreeMap<String, Value>) -> Result<BTreeMap<String, Value>, singletree_durable::BoxError> {
    move |mut state| {
        let value = state["value"].as_i64().ok_or("no number")? + n;
        state.insert("value".into(), value.into());
        Ok(state)
    }
}

// spec: sessions §7
#[tokio::test]
async fn an_old_session_is_migrated_along_the_chain() {
    let store = Watched::new();
    store.seed("s", "1", json!({"value": 1})).await;
    let migrations = StateMigrations::new().with("2", "3", adds(100)).with("1", "2", adds(10));
    let graph = versioned("3", migrations).session_store(store.clone()).compile().unwrap();
    assert_eq!(turn(&graph, json!({})).await, json!({"value": 111}));
    assert_eq!(store.stored("s").await, Some(("3".into(), json!({"value": 111}))));
    // Of the same version now: nothing is consulted.
    assert_eq!(turn(&graph, json!({})).await, json!({"value": 111}));
}

#[tokio::test]
async fn what_cannot_be_migrated_runs_nothing_and_is_left_alone() {
    let fails = |_| Err("no".into());
    for (migrations, category) in [
        (StateMigrations::new(), "session_state_migration_missing"),
        (StateMigrations::new().with("1", "2", fails), "session_state_migration_failed"),
        (StateMigrations::new().with("1", "2", |_| panic!("no")), "session_state_migration_failed"),
    ] {
        let store = Watched::new();
        store.seed("s", "1", json!({"value": 1})).await;
        let graph = versioned("2", migrations).session_store(store.clone()).compile().unwrap();
        assert_eq!(refused(&graph).await.category(), category);
        assert_eq!(store.stored("s").await, Some(("1".into(), json!({"value": 1}))));
    }
}

// A record that is foreign, or that a migration spoilt, must not bring wrong types in: list elements included.
#[tokio::test]
async fn what_is_loaded_is_checked_whole() {
    for (state, why) in [
        (json!({"v": "one"}), "field 'v': expected int, found a string"),
        (json!({"log": ["fine", 2]}), "field 'log': element 1: expected string, found a whole number"),
        (json!({"log": "none"}), "field 'log': expected list<string>, found no list"),
    ] {
        let store = Watched::new();
        store.seed("s", "unversioned", state).await;
        let error = refused(&never().session_store(store).compile().unwrap()).await;
        assert_eq!((error.category(), error.recoverable_state()), ("state_validation_error", None));
        assert!(format_error_chain(&error).contains(why), "{}", format_error_chain(&error));
    }
    let store = Watched::new();
    store.seed("s", "1", json!({"value": 1})).await;
    let spoils = |mut state: BTreeMap<String, Value>| {
        state.insert("value".into(), json!("spoilt"));
        Ok(state)
    };
    let graph =
        versioned("2", StateMigrations::new().with("1", "2", spoils)).session_store(store).compile().unwrap();
    assert_eq!(refused(&graph).await.category(), "state_validation_error");
}

// spec: sessions §9.1
#[tokio::test]
async fn a_subgraph_sees_only_what_is_projected_and_saves_nothing() {
    let inner_store = Watched::new();
    let tries = |cx: Ctx<Snapshot>| async move {
        assert_eq!(cx.save_session().await.unwrap_err().category(), "invalid_argument");
        assert_eq!(crate::rig::state(cx.state()), json!({"input": "outer-data", "output": ""}));
        Ok(update(json!({"output": "done"})))
    };
    let inner = over([text("input"), text("output")]).node("n", tries).edge("n", END).entry("n");
    let inner = inner.session_store(inner_store.clone()).compile().unwrap();
    let store = Watched::new();
    store.seed("s", "unversioned", json!({"summary": "outer-data"})).await;
    let projection = Projection::by_name().inputs([("input", "summary")]).outputs([("result", "output")]);
    let outer = over([text("summary"), text("result")]).subgraph("sub", &inner, projection).edge("sub", END);
    let outer = outer.entry("sub").session_store(store.clone()).compile().unwrap();
    let expected = json!({"summary": "outer-data", "result": "done"});
    assert_eq!(turn(&outer, json!({})).await, expected);
    assert_eq!(store.stored("s").await, unversioned(expected));
    assert_eq!(inner_store.calls(), [""; 0]);
}

// spec: sessions §8.1
#[tokio::test]
async fn of_two_turns_at_once_the_last_to_end_wins() {
    let store = Watched::new();
    let graph = over([field("v", FieldShape::Int, json!(0)).reducer(Reducer::LastWriteWins)]);
    let waits = |cx: Ctx<Snapshot>| async move {
        let v = cx.state().get("v").unwrap().to_json()?.as_i64().unwrap_or(0);
        for _ in 0..v {
            tokio::task::yield_now().await;
        }
        Ok(StateUpdate::new())
    };
    let graph =
        graph.node("a", waits).edge("a", END).entry("a").session_store(store.clone()).compile().unwrap();
    let (slow, quick) = tokio::join!(turn(&graph, json!({"v": 9})), turn(&graph, json!({"v": 2})));
    assert_eq!((slow, quick), (json!({"v": 9}), json!({"v": 2})));
    assert_eq!(store.stored("s").await, unversioned(json!({"v": 9})));
}
