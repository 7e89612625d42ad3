//! Invocations that were suspended under another version of the state's schema (pipeline-utilities §10.12, R36).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use singletree_durable::{MemoryStore, PausedStatus, PausedStore, StateMigrations, TenantId};
use singletree_engine::{
    END, FieldShape, FieldSpec, Graph, InvokeOptions, Projection, Signal, Snapshot, StateSchema,
    format_error_chain,
};

use crate::checkpoint_migration::{Migrated, State, adds};
use crate::rig::{Builder, completed, int, log, map, session, sets, suspended, text, update};
use crate::sessions::Watched;
use crate::suspension::{pause, resume, waits};

/// gate (suspends) -> after, over a state of this version.
fn graph(store: &MemoryStore, version: &str, fields: Vec<FieldSpec>) -> Builder {
    Graph::builder_with(StateSchema::new("versioned", fields).with_version(version))
        .node("gate", waits(Signal::new("s")))
        .node("after", sets(json!({"log": ["after"]})))
        .edge("gate", "after")
        .edge("after", END)
        .entry("gate")
        .paused_store(Arc::new(store.clone()))
}

fn first(store: &MemoryStore) -> Graph<Snapshot> {
    graph(store, "v1", vec![int("n"), log("log")]).compile().unwrap()
}

/// The same graph over a state that has one field more, which nothing sets.
fn second(store: &MemoryStore) -> Builder {
    graph(store, "v2", vec![int("n"), log("log"), FieldSpec::required("topic", FieldShape::Str)])
}

async fn status(store: &MemoryStore, id: &singletree_durable::InvocationId) -> PausedStatus {
    PausedStore::load(store, &TenantId::single(), id).await.unwrap().unwrap().status
}

// spec: pipeline-utilities §10.12.2; suspension §6: the payload is laid over the migrated state.
#[tokio::test]
async fn a_paused_state_is_brought_along_the_chain_and_then_takes_its_payload() {
    let store = MemoryStore::new();
    let paused = first(&store).invoke(update(json!({"n": 5, "log": ["x"]})), InvokeOptions::new()).await;
    let id = suspended(paused).identity.invocation_id;
    let doubles = |mut state: State| -> Migrated {
        let n = state["n"].as_i64().ok_or("n is no number")?;
        state.insert("n".to_owned(), json!(n * 2));
        Ok(state)
    };
    let migrations =
        StateMigrations::new().with("v1.5", "v2", adds("topic", "old")).with("v1", "v1.5", doubles);
    let graph = second(&store).state_migrations(migrations).compile().unwrap();
    let ended = completed(resume(&graph, &id, json!({"topic": "new"})).await);
    assert_eq!(ended, json!({"n": 10, "log": ["x", "after"], "topic": "new"}));
    assert_eq!(status(&store, &id).await, PausedStatus::Completed);
}

// spec: pipeline-utilities §10.10: nothing ran, and the invocation waits on for a graph that can take it.
#[tokio::test]
async fn each_way_to_fail_has_its_category_and_consumes_nothing() {
    let failing = |_| Err("no".into());
    let panicking = |_: State| -> Migrated { panic!("no") };
    let same = |state| Ok(state);
    for (migrations, category, why) in [
        (StateMigrations::new(), "checkpoint_state_migration_missing", "0 registered: none"),
        (
            StateMigrations::new().with("v0", "v2", same),
            "checkpoint_state_migration_missing",
            "1 registered: v0 -> v2",
        ),
        (StateMigrations::new().with("v1", "v2", failing), "checkpoint_state_migration_failed", ": no"),
        (
            StateMigrations::new().with("v1", "v2", panicking),
            "checkpoint_state_migration_failed",
            "panicked: no",
        ),
        (StateMigrations::new().with("v1", "v2", same), "state_validation_error", "field 'topic'"),
        (StateMigrations::new().with("v1", "v2", adds("n", "x")), "state_validation_error", "field 'n'"),
    ] {
        let store = MemoryStore::new();
        let id = pause(&first(&store)).await;
        let graph = second(&store).state_migrations(migrations).compile().unwrap();
        let error = resume(&graph, &id, json!({"topic": "t"})).await.unwrap_err();
        assert_eq!(error.category(), category, "{}", format_error_chain(&error));
        assert!(format_error_chain(&error).contains(why), "{}", format_error_chain(&error));
        assert_eq!(status(&store, &id).await, PausedStatus::Suspended);
        let able = StateMigrations::new().with("v1", "v2", adds("topic", "t"));
        let graph = second(&store).state_migrations(able).compile().unwrap();
        assert_eq!(completed(resume(&graph, &id, json!({})).await)["topic"], "t");
    }
}

// spec: pipeline-utilities §10.10: two shortest chains. A graph says so when it is compiled, so no resume comes to it.
#[tokio::test]
async fn an_ambiguous_registry_does_not_compile() {
    let same = |state| Ok(state);
    let ways = StateMigrations::new().with("v1", "x", same).with("v1", "y", same);
    let ways = ways.with("x", "v2", same).with("y", "v2", same);
    let error = second(&MemoryStore::new()).state_migrations(ways).compile().unwrap_err();
    assert_eq!(error.category(), "checkpoint_state_migration_chain_ambiguous");
}

// spec: pipeline-utilities §10.12.3
#[tokio::test]
async fn the_registry_is_not_consulted_when_versions_match() {
    let store = MemoryStore::new();
    let id = pause(&first(&store)).await;
    let panicking = |_: State| -> Migrated { panic!("it is asked") };
    let builder = graph(&store, "v1", vec![int("n"), log("log")]);
    let graph =
        builder.state_migrations(StateMigrations::new().with("v1", "v1", panicking)).compile().unwrap();
    assert_eq!(completed(resume(&graph, &id, json!({})).await), json!({"n": 0, "log": ["after"]}));
}

// spec: pipeline-utilities §10.12.2: containing states count as of the same version.
#[tokio::test]
async fn the_states_around_a_paused_subgraph_are_migrated_as_well() {
    let store = MemoryStore::new();
    let nested = |version: &str, more: &[&'static str], migrations: StateMigrations| {
        let fields = |own: &'static str| more.iter().map(|it| text(it)).chain([int(own)]).collect();
        let schema = |own| StateSchema::new("versioned", fields(own)).with_version(version);
        let deepest = Graph::builder_with(schema("deep"))
            .node("gate", waits(Signal::new("s")))
            .edge("gate", END)
            .entry("gate");
        let mut inner = deepest.compile().unwrap();
        for own in ["middle", "outer"] {
            let inputs = Projection::by_name().outputs([]);
            let builder = Graph::builder_with(schema(own)).subgraph("sub", &inner, inputs);
            let builder = builder.edge("sub", END).entry("sub").state_migrations(migrations.clone());
            inner = builder.paused_store(Arc::new(store.clone())).compile().unwrap();
        }
        inner
    };
    let id = pause(&nested("v1", &[], StateMigrations::new())).await;
    let calls = Arc::new(AtomicU64::new(0));
    let counts = calls.clone();
    let migrations = StateMigrations::new().with("v1", "v2", move |mut state| {
        counts.fetch_add(1, Ordering::Relaxed);
        state.insert("topic".to_owned(), "migrated".into());
        Ok(state)
    });
    let ended = completed(resume(&nested("v2", &["topic"], migrations), &id, json!({"outer": 7})).await);
    assert_eq!(ended, json!({"outer": 7, "topic": "migrated"}));
    assert_eq!(calls.load(Ordering::Relaxed), 3);
}

// R2: the session's own record is of the old version, too; the resume does not read its state, and writes the new one.
#[tokio::test]
async fn a_session_goes_on_in_the_version_of_the_resumed_run() {
    let (store, sessions) = (MemoryStore::new(), Watched::new());
    let options = || InvokeOptions::new().session(session("s"));
    let old = graph(&store, "v1", vec![int("n"), log("log")]).session_store(sessions.clone());
    let paused = old.compile().unwrap().invoke(update(json!({"n": 3})), options()).await;
    let id = suspended(paused).identity.invocation_id;
    assert_eq!(sessions.stored("s").await, Some(("v1".into(), json!({"n": 3, "log": []}))));
    let adds_topic = || StateMigrations::new().with("v1", "v2", adds("topic", "t"));
    let new = second(&store).session_store(sessions.clone()).state_migrations(adds_topic());
    let ended = new.compile().unwrap().resume(&id, map(json!({})), options()).await;
    let state: Value = json!({"n": 3, "log": ["after"], "topic": "t"});
    assert_eq!(completed(ended), state);
    assert_eq!(sessions.stored("s").await, Some(("v2".into(), state)));
}
