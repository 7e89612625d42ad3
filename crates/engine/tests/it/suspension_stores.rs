//! Suspension over stores: atomic with the session, failing, foreign records (suspension §8.5, §8.6, §9).

use std::sync::Arc;

use serde_json::{Value, json};
use singletree_durable::{
    InvocationId, JsonDocument, MemoryStore, PausedRecord, PausedStatus, PausedStore, StateMigrations,
    TenantId,
};
use singletree_engine::{
    Ctx, END, Graph, InvokeOptions, Signal, Snapshot, StateSchema, StateUpdate, format_error_chain,
};
use singletree_store_testing::{FailedWriteEffect, FaultInjectingStore};

use crate::rig::{Builder, Recorder, completed, int, log, map, over, session, sets, suspended, update};
use crate::sessions::Watched;
use crate::suspension::{gated, pause, resume, waits};

fn in_session() -> InvokeOptions {
    InvokeOptions::new().session(session("s"))
}

async fn stored(store: &MemoryStore, id: &InvocationId) -> Option<PausedRecord> {
    PausedStore::load(store, &TenantId::single(), id).await.unwrap()
}

// spec: suspension §8.6; sessions §9.5
#[tokio::test]
async fn the_session_is_saved_with_the_pause_and_again_at_the_end() {
    let store = Watched::new();
    let graph = gated(Signal::new("s")).session_store(store.clone()).compile().unwrap();
    let paused = suspended(graph.invoke(update(json!({"n": 5})), in_session()).await);
    let at_pause = json!({"ok": false, "n": 5, "log": ["before"]});
    assert_eq!(store.stored("s").await, Some(("unversioned".into(), at_pause)));
    // R2: the session is not merged a second time.
    let ended = graph.resume(&paused.identity.invocation_id, map(json!({"ok": true})), in_session()).await;
    let at_end = json!({"ok": true, "n": 5, "log": ["before", "after"]});
    assert_eq!(completed(ended), at_end);
    assert_eq!(store.stored("s").await, Some(("unversioned".into(), at_end)));
}

#[tokio::test]
async fn a_resume_belongs_to_the_session_of_its_pause() {
    let graph = gated(Signal::new("s")).session_store(Watched::new()).compile().unwrap();
    let paused = suspended(graph.invoke(StateUpdate::new(), in_session()).await);
    let id = &paused.identity.invocation_id;
    let other = graph.resume(id, map(json!({})), InvokeOptions::new().session(session("other"))).await;
    assert_eq!(other.unwrap_err().category(), "invalid_argument");
    let done = graph.resume(id, map(json!({})), InvokeOptions::new()).await.unwrap();
    assert_eq!(done.identity().session_id, Some(session("s")));
}

// D1: a session that was written since is not overwritten; the record waits on.
#[tokio::test]
async fn a_session_written_since_is_a_conflict() {
    let store = Watched::new();
    let graph = gated(Signal::new("s")).session_store(store.clone()).compile().unwrap();
    let id = suspended(graph.invoke(StateUpdate::new(), in_session()).await).identity.invocation_id;
    store.seed("s", "unversioned", json!({"n": 77})).await;
    for _ in 0..2 {
        assert_eq!(resume(&graph, &id, json!({})).await.unwrap_err().category(), "session_write_conflict");
    }
    assert_eq!(store.stored("s").await, Some(("unversioned".into(), json!({"n": 77}))));
}

/// Suspends; when that fails, notes it and goes on, or passes it on.
fn gate(catches: bool) -> Builder {
    let gate = move |cx: Ctx<Snapshot>| async move {
        match cx.suspend(Signal::new("s")).await {
            Err(error) if catches => Ok(update(json!({"log": [error.category()]}))),
            other => other,
        }
    };
    let builder =
        over([int("n"), log("log")]).node("gate", gate).node("after", sets(json!({"log": ["after"]})));
    builder.edge("gate", "after").edge("after", END).entry("gate")
}

fn broken(land: FailedWriteEffect) -> (MemoryStore, Arc<dyn PausedStore>) {
    let store = MemoryStore::new();
    (store.clone(), Arc::new(FaultInjectingStore::new(Arc::new(store), 1, land)))
}

// spec: suspension §3, §9
#[tokio::test]
async fn a_pause_that_cannot_be_recorded_is_the_nodes_to_handle() {
    let graph = gate(true).paused_store(broken(FailedWriteEffect::Before).1).compile().unwrap();
    let ended = completed(graph.invoke(StateUpdate::new(), InvokeOptions::new()).await);
    assert_eq!(ended["log"], json!(["suspension_persistence_failed", "after"]));
    let graph = gate(false).paused_store(broken(FailedWriteEffect::Before).1).compile().unwrap();
    let seen = Recorder::default();
    graph.attach_observer(seen.clone());
    let error = graph.invoke(StateUpdate::new(), InvokeOptions::new()).await.unwrap_err();
    assert_eq!(
        (error.category(), error.derived_category()),
        ("suspension_persistence_failed", "suspension_persistence_failed")
    );
    assert_eq!(error.node_location().map(|it| it.node.as_ref()), Some("gate"));
    graph.drain(None).await.unwrap();
    assert_eq!(seen.lines(), ["0 started gate", "0 completed gate"]);
    assert_eq!(seen.seen()[1]["error"], "node_exception");
}

#[tokio::test]
async fn a_failed_pause_that_nobody_waits_for_ends_the_invocation() {
    let impatient = |cx: Ctx<Snapshot>| async move {
        let asking = std::pin::pin!(cx.suspend(Signal::new("s")));
        tokio::select! {
            biased;
            ended = asking => ended,
            () = std::future::ready(()) => Ok(StateUpdate::new()),
        }
    };
    let graph = over([]).node("gate", impatient).edge("gate", END).entry("gate");
    let graph = graph.paused_store(broken(FailedWriteEffect::Before).1).compile().unwrap();
    let seen = Recorder::default();
    graph.attach_observer(seen.clone());
    let error = graph.invoke(StateUpdate::new(), InvokeOptions::new()).await.unwrap_err();
    assert_eq!(error.category(), "suspension_persistence_failed");
    graph.drain(None).await.unwrap();
    assert_eq!(seen.lines(), ["0 started gate", "0 completed gate"]);
}

// spec: suspension §8.6: either both are stored, or the invocation errors and neither can be seen.
#[tokio::test]
async fn when_the_record_fails_the_session_is_as_before() {
    for seeded in [None, Some(json!({"n": 1, "log": ["old"]}))] {
        let sessions = Watched::new();
        if let Some(state) = &seeded {
            sessions.seed("s", "unversioned", state.clone()).await;
        }
        let graph =
            gate(false).paused_store(broken(FailedWriteEffect::Before).1).session_store(sessions.clone());
        let graph = graph.compile().unwrap();
        let error = graph.invoke(update(json!({"n": 9})), in_session()).await.unwrap_err();
        assert_eq!(error.category(), "suspension_persistence_failed");
        assert_eq!(sessions.stored("s").await.map(|(_, state)| state), seeded);
    }
}

#[tokio::test]
async fn an_explicit_save_survives_a_failed_pause() {
    let sessions = Watched::new();
    let saves = |cx: Ctx<Snapshot>| async move {
        cx.save_session_with(update(json!({"n": 2}))).await?;
        Ok(update(json!({"n": 2})))
    };
    let graph =
        over([int("n"), log("log")]).node("saves", saves).node("more", sets(json!({"log": ["unsaved"]})));
    let graph = graph
        .node("gate", waits(Signal::new("s")))
        .edge("saves", "more")
        .edge("more", "gate")
        .edge("gate", END);
    let graph = graph
        .entry("saves")
        .paused_store(broken(FailedWriteEffect::Before).1)
        .session_store(sessions.clone());
    graph.compile().unwrap().invoke(StateUpdate::new(), in_session()).await.unwrap_err();
    assert_eq!(sessions.stored("s").await.map(|(_, state)| state), Some(json!({"n": 2, "log": []})));
}

#[tokio::test]
async fn when_the_session_fails_no_record_is_written() {
    let memory = MemoryStore::new();
    let sessions = FaultInjectingStore::new(Arc::new(memory.session_store()), 1, FailedWriteEffect::Before);
    let graph = gate(false)
        .session_store(Arc::new(sessions))
        .paused_store(Arc::new(memory.clone()))
        .compile()
        .unwrap();
    let options = in_session().invocation(crate::rig::invocation("inv"));
    let error = graph.invoke(StateUpdate::new(), options).await.unwrap_err();
    assert_eq!(error.category(), "suspension_persistence_failed");
    assert_eq!(stored(&memory, &crate::rig::invocation("inv")).await, None);
}

// A pause on a store that was made durable, resumed by a graph that was built anew: another process.
#[tokio::test]
async fn another_process_resumes_from_the_record_alone() {
    let (paused, sessions) = (MemoryStore::new(), Watched::new());
    let build = || {
        let graph = gated(Signal::new("s")).paused_store(Arc::new(paused.clone()));
        graph.session_store(sessions.clone()).compile().unwrap()
    };
    let id = suspended(build().invoke(update(json!({"n": 4})), in_session()).await).identity.invocation_id;
    let ended = resume(&build(), &id, json!({"ok": true})).await;
    assert_eq!(completed(ended), json!({"ok": true, "n": 4, "log": ["before", "after"]}));
    assert_eq!(stored(&paused, &id).await.unwrap().status, PausedStatus::Completed);
}

#[tokio::test]
async fn a_failed_second_pause_leaves_nothing_to_resume() {
    let store = MemoryStore::new();
    // The claim is the first write of the resuming run, the second record its second.
    let failing = FaultInjectingStore::new(Arc::new(store.clone()), 2, FailedWriteEffect::Before);
    let build = |paused: Arc<dyn PausedStore>| {
        let gate = |name: &'static str| waits(Signal::new(name));
        let graph =
            over([]).node("one", gate("1")).node("two", gate("2")).edge("one", "two").edge("two", END);
        graph.entry("one").paused_store(paused).compile().unwrap()
    };
    let id = pause(&build(Arc::new(store.clone()))).await;
    let error = resume(&build(Arc::new(failing)), &id, json!({})).await.unwrap_err();
    assert_eq!(error.category(), "suspension_persistence_failed");
    let again = resume(&build(Arc::new(store)), &id, json!({})).await.unwrap_err();
    assert_eq!(again.category(), "suspension_record_invalid");
}

/// Changes the stored body of a paused record.
async fn tamper(store: &MemoryStore, id: &InvocationId, change: impl Fn(&mut Value)) {
    let mut record = stored(store, id).await.unwrap();
    let mut body: Value = record.body.decode().unwrap();
    change(&mut body);
    record.body = JsonDocument::from(&body);
    PausedStore::save(store, &TenantId::single(), id, &record).await.unwrap();
}

// INV-13, D28: a record that does not fit is refused by category, and stays suspended.
#[tokio::test]
async fn a_record_that_does_not_fit_the_graph_is_refused() {
    type Change = fn(&mut Value);
    let cases: [(Change, &str, &str); 6] = [
        (
            |it| it["cursor"]["frames"][0]["node"] = json!("ghost"),
            "suspension_record_invalid",
            "no node 'ghost'",
        ),
        (|it| it["cursor"]["frames"] = json!([]), "suspension_record_invalid", "0 frames and 1 states"),
        (|it| it["surprise"] = json!(1), "suspension_record_invalid", "damaged: unknown field `surprise`"),
        (|it| it["schema_version"] = json!("7"), "checkpoint_state_migration_missing", "version '7'"),
        (|it| it["frames"][0]["n"] = json!("x"), "state_validation_error", "field 'n': expected int"),
        (|it| it["frames"][0]["log"] = json!(["a", 1]), "state_validation_error", "element 1"),
    ];
    for (change, category, why) in cases {
        let store = MemoryStore::new();
        let graph = gated(Signal::new("s")).paused_store(Arc::new(store.clone())).compile().unwrap();
        let id = pause(&graph).await;
        tamper(&store, &id, change).await;
        let error = resume(&graph, &id, json!({})).await.unwrap_err();
        assert_eq!(error.category(), category);
        assert!(format_error_chain(&error).contains(why), "{}", format_error_chain(&error));
        assert_eq!(stored(&store, &id).await.unwrap().status, PausedStatus::Suspended);
    }
}

// R36: pauses last, and schemas change meanwhile. A run that cannot be migrated stays suspended; one that can goes on
// where it stood.
#[tokio::test]
async fn a_run_that_was_suspended_before_the_schema_changed_is_migrated() {
    type State = std::collections::BTreeMap<String, Value>;
    let grows = |mut state: State| {
        let n = state.remove("old").and_then(|it| it.as_i64()).ok_or("no number 'old'")?;
        state.insert("n".into(), (n * 2).into());
        Ok(state)
    };
    let fails = |_: State| Err("no".into());
    let store = MemoryStore::new();
    let graph = |migrations: StateMigrations| {
        let graph = gated(Signal::new("s")).paused_store(Arc::new(store.clone()));
        graph.state_migrations(migrations).compile().unwrap()
    };
    let id = pause(&graph(StateMigrations::new())).await;
    tamper(&store, &id, |it| {
        it["schema_version"] = json!("v0");
        it["frames"][0].as_object_mut().unwrap().remove("n");
        it["frames"][0]["old"] = json!(4);
    })
    .await;
    let one = StateMigrations::new().with("v0", "v1", Ok);
    for (migrations, category) in [
        (StateMigrations::new(), "checkpoint_state_migration_missing"),
        (one.clone(), "checkpoint_state_migration_missing"),
        (one.clone().with("v1", "unversioned", fails), "checkpoint_state_migration_failed"),
    ] {
        let error = resume(&graph(migrations), &id, json!({})).await.unwrap_err();
        assert_eq!(error.category(), category);
        assert_eq!(stored(&store, &id).await.unwrap().status, PausedStatus::Suspended);
    }
    let graph = graph(one.with("v1", "unversioned", grows));
    let done = completed(resume(&graph, &id, json!({"ok": true})).await);
    assert_eq!(done, json!({"ok": true, "n": 8, "log": ["before", "after"]}));
}

#[tokio::test]
async fn a_field_that_is_new_since_the_pause_takes_its_default() {
    let store = MemoryStore::new();
    let graph = gated(Signal::new("s")).paused_store(Arc::new(store.clone())).compile().unwrap();
    let id = pause(&graph).await;
    tamper(&store, &id, |it| {
        let fields = it["frames"][0].as_object_mut().unwrap();
        fields.remove("n");
        fields.insert("gone".into(), json!(1));
    })
    .await;
    assert_eq!(completed(resume(&graph, &id, json!({})).await)["n"], 0);
}

#[tokio::test]
async fn a_store_that_does_not_answer_refuses_the_resume() {
    let graph = |store: Arc<dyn PausedStore>| -> Graph<Snapshot> {
        let builder =
            Graph::builder_with(StateSchema::new("t", vec![])).node("gate", waits(Signal::new("s")));
        builder.edge("gate", END).entry("gate").paused_store(store).compile().unwrap()
    };
    let store = MemoryStore::new();
    let id = pause(&graph(Arc::new(store.clone()))).await;
    let failing = FaultInjectingStore::new(Arc::new(store.clone()), 1, FailedWriteEffect::Before);
    let error = resume(&graph(Arc::new(failing)), &id, json!({})).await.unwrap_err();
    assert_eq!(error.category(), "suspension_persistence_failed");
    assert_eq!(stored(&store, &id).await.unwrap().status, PausedStatus::Suspended);
}
