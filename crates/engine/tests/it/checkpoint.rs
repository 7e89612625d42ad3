//! Checkpoints: when a run is saved, and the content of the record (pipeline-utilities §§10.1–10.3, §10.10).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use singletree_durable::{
    BoxFuture, CheckpointFilter, CheckpointRecord, CheckpointSummary, Checkpointer, Error as StoreError,
    InvocationId, MemoryStore, NodePosition, Result as StoreResult, TenantId, Timestamp,
};
use singletree_engine::{
    Clock, Ctx, END, Error, FailureIsolation, FieldShape, FieldSpec, Graph, InvokeOptions, Projection, Retry,
    RetryBackoff, Snapshot, StateSchema, StateUpdate,
};
use tokio::sync::Notify;

use crate::rig::{
    Builder, Counting, completed, described, fail, field, flaky, int, invocation, log, over, sets, update,
};

/// A checkpointer that remembers every save, and can die with the process or fail.
#[derive(Debug, Default)]
pub(crate) struct Keeper {
    pub(crate) store: MemoryStore,
    saved: Mutex<Vec<CheckpointRecord>>,
    /// After which save the process dies, counted from 1; 0 is never.
    dies_after: AtomicU64,
    fails_at: AtomicU64,
    died: Notify,
}

impl Keeper {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// One whose save of this number fails, counted from 1.
    pub(crate) fn failing_at(save: u64) -> Arc<Self> {
        Arc::new(Self { fails_at: AtomicU64::new(save), ..Self::default() })
    }

    pub(crate) fn saved(&self) -> Vec<CheckpointRecord> {
        self.saved.lock().unwrap().clone()
    }

    pub(crate) fn last(&self) -> CheckpointRecord {
        self.saved().pop().unwrap()
    }

    /// Runs until the process dies after a save. True when it did, false when the run ended before.
    pub(crate) async fn crash(
        &self,
        after: u64,
        run: impl Future<Output = Result<singletree_engine::RunOutcome<Snapshot>, Error>>,
    ) -> bool {
        self.saved.lock().unwrap().clear();
        self.dies_after.store(after, Ordering::Relaxed);
        let died = tokio::select! {
            biased;
            _ = run => false,
            () = self.died.notified() => true,
        };
        self.dies_after.store(0, Ordering::Relaxed);
        died
    }
}

impl Checkpointer for Keeper {
    fn save<'a>(
        &'a self,
        tenant: &'a TenantId,
        record: &'a CheckpointRecord,
    ) -> BoxFuture<'a, StoreResult<()>> {
        Box::pin(async move {
            let count = {
                let mut saved = self.saved.lock().unwrap();
                saved.push(record.clone());
                saved.len() as u64
            };
            if count == self.fails_at.load(Ordering::Relaxed) {
                return Err(StoreError::Unavailable { doing: "save", source: "full".into() });
            }
            Checkpointer::save(&self.store, tenant, record).await?;
            if count == self.dies_after.load(Ordering::Relaxed) {
                self.died.notify_one();
                std::future::pending::<()>().await;
            }
            Ok(())
        })
    }

    fn load<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, StoreResult<Option<CheckpointRecord>>> {
        Checkpointer::load(&self.store, tenant, invocation)
    }

    fn list<'a>(
        &'a self,
        tenant: &'a TenantId,
        filter: &'a CheckpointFilter,
    ) -> BoxFuture<'a, StoreResult<Vec<CheckpointSummary>>> {
        Checkpointer::list(&self.store, tenant, filter)
    }

    fn delete<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, StoreResult<()>> {
        Checkpointer::delete(&self.store, tenant, invocation)
    }
}

/// A record as JSON, without the values that differ from run to run.
pub(crate) fn written(record: &CheckpointRecord) -> Value {
    let mut json = serde_json::to_value(record).unwrap();
    for name in ["invocation_id", "correlation_id", "last_saved_at", "schema_version"] {
        json.as_object_mut().unwrap().remove(name);
    }
    json
}

/// The positions of a record, as "step.attempt path".
pub(crate) fn positions(record: &CheckpointRecord) -> Vec<String> {
    let line = |it: &NodePosition| {
        let path: Vec<&str> = it.namespace.iter().chain([&it.node_name]).map(String::as_str).collect();
        format!("{}.{} {}", it.step, it.attempt_index, path.join("/"))
    };
    record.completed_positions.to_vec().iter().map(line).collect()
}

pub(crate) fn named(id: &str) -> InvokeOptions {
    InvokeOptions::new().invocation(invocation(id)).correlation("work")
}

pub(crate) fn started() -> StateUpdate {
    StateUpdate::new()
}

fn line() -> Builder {
    over([int("a"), int("b")])
        .node("first", sets(json!({"a": 1})))
        .node("second", sets(json!({"b": 2})))
        .edge("first", "second")
        .edge("second", END)
        .entry("first")
}

// spec: pipeline-utilities §§10.2, 10.3: one save per node, with the state after its merge.
#[tokio::test]
async fn each_completed_node_is_saved_whole() {
    let keeper = Keeper::new();
    let graph = line().checkpointer(keeper.clone()).compile().unwrap();
    completed(graph.invoke(started(), named("one")).await);
    let at =
        |name: &str, step: u64| json!({"namespace": [], "node_name": name, "step": step, "attempt_index": 0});
    let cursor =
        |node: &str, next: u64| json!({"frames": [{"node": node, "at": "after"}], "next_step": next});
    let expected = [
        json!({"state": {"a": 1, "b": 0}, "parent_states": [], "completed_positions": [at("first", 0)],
            "cursor": cursor("first", 1)}),
        json!({"state": {"a": 1, "b": 2}, "parent_states": [], "completed_positions": [at("first", 0), at("second", 1)],
            "cursor": cursor("second", 2)}),
    ];
    assert_eq!(keeper.saved().iter().map(written).collect::<Vec<_>>(), expected);
    let last = keeper.last();
    assert_eq!((last.invocation_id.as_str(), last.correlation_id.as_str()), ("one", "work"));
    let stored = Checkpointer::load(&*keeper, &TenantId::single(), &invocation("one")).await.unwrap();
    assert_eq!(stored, Some(last.clone()));
    let listed = keeper.list(&TenantId::single(), &CheckpointFilter::default()).await.unwrap();
    assert_eq!(listed, [last.to_summary()]);
    assert_eq!(listed[0].completed_node_count, 2);
}

// spec: pipeline-utilities §10.1.1
#[tokio::test]
async fn without_a_checkpointer_nothing_is_kept_and_nothing_found() {
    let graph = line().compile().unwrap();
    completed(graph.invoke(started(), named("one")).await);
    let error = graph.recover(&invocation("one"), InvokeOptions::new()).await.unwrap_err();
    assert_eq!(error.category(), "checkpoint_not_found");
    let graph = line().checkpointer(Keeper::new()).compile().unwrap();
    let error = graph.recover(&invocation("one"), InvokeOptions::new()).await.unwrap_err();
    assert_eq!(error.category(), "checkpoint_not_found");
}

// spec: pipeline-utilities §10.3: "or failure captured"; R: a failed first node leaves a record to go on from.
#[tokio::test]
async fn a_failure_is_saved_without_a_position() {
    let keeper = Keeper::new();
    let graph = over([int("a")])
        .node("only", flaky("broken", 1, json!({"a": 1})))
        .edge("only", END)
        .entry("only")
        .checkpointer(keeper.clone())
        .compile()
        .unwrap();
    let error = graph.invoke(started(), named("one")).await.unwrap_err();
    assert_eq!(error.category(), "node_exception");
    let record = keeper.last();
    let cursor = json!({"frames": [{"node": "only", "at": "before"}], "next_step": 1});
    let expected =
        json!({"state": {"a": 0}, "parent_states": [], "completed_positions": [], "cursor": cursor});
    assert_eq!((keeper.saved().len(), written(&record)), (1, expected));
    let done = graph.recover(&invocation("one"), InvokeOptions::new()).await;
    assert_eq!(completed(done), json!({"a": 1}));
    assert_eq!(positions(&keeper.last()), ["1.0 only"]);
}

// spec: pipeline-utilities §10.2: `state` is where the run is, `parent_states` the graphs around it, outermost first.
#[tokio::test]
async fn a_node_of_a_subgraph_is_saved_with_the_states_around_it() {
    let keeper = Keeper::new();
    let innermost =
        over([int("z")]).node("c", sets(json!({"z": 3}))).edge("c", END).entry("c").compile().unwrap();
    let middle = over([int("y")])
        .subgraph("in", &innermost, Projection::default().outputs([("y", "z")]))
        .edge("in", END)
        .entry("in")
        .compile()
        .unwrap();
    let graph = over([int("x"), int("w")])
        .node("a", sets(json!({"w": 1})))
        .subgraph("mid", &middle, Projection::default().outputs([("x", "y")]))
        .edge("a", "mid")
        .edge("mid", END)
        .entry("a")
        .checkpointer(keeper.clone())
        .compile()
        .unwrap();
    let done = completed(graph.invoke(started(), named("one")).await);
    assert_eq!(done, json!({"x": 3, "w": 1}));
    let frame = |node: &str, at: &str| json!({"node": node, "at": at});
    let position = json!({"namespace": ["mid", "in"], "node_name": "c", "step": 1, "attempt_index": 0});
    let first = json!({"namespace": [], "node_name": "a", "step": 0, "attempt_index": 0});
    let expected = json!({
        "state": {"z": 3},
        "parent_states": [{"x": 0, "w": 1}, {"y": 0}],
        "completed_positions": [first, position],
        "cursor": {"frames": [frame("mid", "inside"), frame("in", "inside"), frame("c", "after")], "next_step": 2},
    });
    // Subgraphs themselves have no events and are not saved.
    assert_eq!((keeper.saved().len(), written(&keeper.last())), (2, expected));
}

// spec: pipeline-utilities §10.3: one save per node attempt; §10.2: the position has the attempt that counted.
#[tokio::test]
async fn each_attempt_is_saved_and_the_last_one_has_the_position() {
    let keeper = Keeper::new();
    let graph = over([int("a")])
        .node("only", flaky("provider_unavailable", 2, json!({"a": 1})))
        .node_middleware("only", Retry::new().backoff(RetryBackoff::from_function(|_| Duration::ZERO)))
        .edge("only", END)
        .entry("only")
        .checkpointer(keeper.clone())
        .compile()
        .unwrap();
    completed(graph.invoke(started(), named("one")).await);
    let saved: Vec<_> = keeper.saved().iter().map(positions).collect();
    assert_eq!(saved, [vec![], vec![], vec!["0.2 only".to_owned()]]);
}

// The update with which a middleware replaced a failure is merged, and the node does not run again.
#[tokio::test]
async fn a_degraded_update_is_a_completed_node() {
    let keeper = Keeper::new();
    let graph = over([int("a"), int("b")])
        .node("only", flaky("broken", 9, json!({"a": 1})))
        .node_middleware("only", FailureIsolation::new("degraded", update(json!({"a": 7}))))
        .node("next", flaky("broken", 1, json!({"b": 1})))
        .edge("only", "next")
        .edge("next", END)
        .entry("only")
        .checkpointer(keeper.clone())
        .compile()
        .unwrap();
    graph.invoke(started(), named("one")).await.unwrap_err();
    assert_eq!(positions(&keeper.last()), ["0.0 only"]);
    let done = graph.recover(&invocation("one"), InvokeOptions::new()).await;
    assert_eq!(completed(done), json!({"a": 7, "b": 1}));
}

// spec: pipeline-utilities §10.10: documented choice: it ends the invocation, past every middleware.
#[tokio::test]
async fn a_save_that_fails_ends_the_invocation_past_every_middleware() {
    let keeper = Keeper::failing_at(1);
    let after = Arc::new(AtomicU64::new(0));
    let counts = after.clone();
    let graph = over([int("a")])
        .middleware(FailureIsolation::new("all", update(json!({"a": 9}))))
        .node("first", sets(json!({"a": 1})))
        .node("second", move |_: Ctx<Snapshot>| {
            counts.fetch_add(1, Ordering::Relaxed);
            std::future::ready(Ok(update(json!({"a": 2}))))
        })
        .edge("first", "second")
        .edge("second", END)
        .entry("first")
        .checkpointer(keeper.clone())
        .compile()
        .unwrap();
    let error = fail(&graph, json!({})).await;
    assert_eq!(described(&error), ("checkpoint_save_failed", None, None));
    assert_eq!(after.load(Ordering::Relaxed), 0);
}

/// A clock that is set back by a second at each look.
#[derive(Debug)]
struct Backwards(AtomicU64);

impl Clock for Backwards {
    fn now(&self) -> Timestamp {
        let looks = self.0.fetch_add(1, Ordering::Relaxed);
        Timestamp::from_millis(1_000_000 - 1000 * i64::try_from(looks).unwrap())
    }
}

// spec: pipeline-utilities §10.2: `last_saved_at` should be monotonic per invocation.
#[tokio::test]
async fn the_time_of_a_save_never_runs_backwards() {
    let keeper = Keeper::new();
    let clock = Arc::new(Backwards(AtomicU64::new(0)));
    let graph =
        line().checkpointer(keeper.clone()).clock(clock).ids(Arc::<Counting>::default()).compile().unwrap();
    completed(graph.invoke(started(), InvokeOptions::new()).await);
    let times: Vec<_> = keeper.saved().iter().map(|it| it.last_saved_at.as_millis()).collect();
    assert!(times.is_sorted(), "{times:?}");
}

// spec: pipeline-utilities §10.2: the version of the declared outermost schema, at every save site.
#[tokio::test]
async fn every_record_has_the_version_of_the_outermost_schema() {
    let keeper = Keeper::new();
    let versioned = |version: &str, fields: Vec<FieldSpec>| {
        Graph::builder_with(StateSchema::new("versioned", fields).with_version(version))
    };
    let inner = versioned("inner 7", vec![int("n"), int("out")])
        .node("work", sets(json!({"out": 1})))
        .edge("work", END)
        .entry("work")
        .compile()
        .unwrap();
    let items = field("items", FieldShape::Int.list(), json!([1, 2]));
    let graph =
        versioned("v1", vec![items, log("unused"), field("results", FieldShape::Int.list(), json!([]))])
            .subgraph("sub", &inner, Projection::default())
            .fan_out("each", crate::fan_out::each(&inner))
            .edge("sub", "each")
            .edge("each", END)
            .entry("sub")
            .checkpointer(keeper.clone())
            .compile()
            .unwrap();
    completed(graph.invoke(started(), named("one")).await);
    let versions: Vec<_> = keeper.saved().iter().map(|it| it.schema_version.clone()).collect();
    assert_eq!(versions, ["v1"; 4]);
}
