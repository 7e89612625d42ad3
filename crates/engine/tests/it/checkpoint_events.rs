//! Observers are told of each save (pipeline-utilities §10.8).

use std::future::ready;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::json;
use singletree_durable::{BatchedCheckpointer, BoxError, BoxFuture, Checkpointer, MemoryStore, Timestamp};
use singletree_engine::{
    AttemptPhase, Branch, Branches, CheckpointEvent, Clock, Ctx, END, EventError, FailureIsolation, FanOut,
    FieldShape, Graph, GraphEvent, Identity, InvokeOptions, LineageBoundary, NodeLineage, Observer,
    Projection, Retry, Signal, Snapshot, StateUpdate, Subscription,
};

use crate::checkpoint::{Keeper, named};
use crate::rig::{Builder, completed, field, flaky, int, invocation, over, sets, suspended};

/// Writes node events and saves down, in the order in which they come.
#[derive(Clone, Default)]
struct Ledger {
    lines: Arc<Mutex<Vec<String>>>,
    saves: Arc<Mutex<Vec<CheckpointEvent>>>,
}

fn path(namespace: &[Arc<str>], lineage: &NodeLineage) -> String {
    let of = |at: usize| match lineage.boundaries().get(at) {
        Some(LineageBoundary::Instance(index)) => format!("[{index}]"),
        Some(LineageBoundary::Branch(name)) => format!("[{name}]"),
        Some(LineageBoundary::Subgraph) | None => String::new(),
    };
    let parts = namespace.iter().enumerate().map(|(at, name)| format!("{name}{}", of(at)));
    parts.collect::<Vec<_>>().join("/")
}

impl Ledger {
    fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn saves(&self) -> Vec<CheckpointEvent> {
        self.saves.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Observer for Ledger {
    fn observe_event<'a>(&'a self, event: &'a GraphEvent) -> BoxFuture<'a, Result<(), BoxError>> {
        let line = match event {
            GraphEvent::Node(it) => {
                let path = path(&it.namespace, &it.lineage);
                Some(format!("{}.{} {} {path}", it.step, it.attempt_index, it.phase.as_str()))
            }
            GraphEvent::CheckpointSaved(it) => {
                self.saves.lock().unwrap().push(it.clone());
                let path = path(&it.namespace, &it.lineage);
                let end = it.last_saved_at.as_ref().map_or_else(|it| it.category.as_ref(), |_| "saved");
                Some(format!("{}.{} {end} {path} {}", it.step, it.attempt_index, it.completed_node_count))
            }
            _ => None,
        };
        self.lines.lock().unwrap().extend(line);
        Box::pin(ready(Ok(())))
    }
}

/// A clock that goes on by a second each time that it is read, and may be set.
#[derive(Debug, Default)]
struct Ticking(AtomicI64);

impl Clock for Ticking {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.fetch_add(1000, Ordering::Relaxed))
    }
}

async fn told(graph: &Graph<Snapshot>) -> Ledger {
    let ledger = Ledger::default();
    let options = named("one").observer(ledger.clone());
    drop(graph.invoke(StateUpdate::new(), options).await);
    graph.drain(None).await.unwrap();
    ledger
}

fn line() -> Builder {
    over([int("a"), int("b")])
        .node("first", sets(json!({"a": 1})))
        .node("second", sets(json!({"b": 2})))
        .edge("first", "second")
        .edge("second", END)
        .entry("first")
}

fn kept(builder: Builder) -> Graph<Snapshot> {
    builder.checkpointer(Arc::new(MemoryStore::new())).compile().unwrap()
}

// spec: pipeline-utilities §§10.3, 10.8: after the node's own event, before the next node.
#[tokio::test]
async fn each_save_is_told_between_the_node_and_the_next_one() {
    let told = told(&kept(line())).await.lines();
    let expected = [
        "0.0 started first",
        "0.0 completed first",
        "0.0 saved first 1",
        "1.0 started second",
        "1.0 completed second",
        "1.0 saved second 2",
    ];
    assert_eq!(told, expected);
}

#[tokio::test]
async fn an_event_says_who_what_where_and_when() {
    let keeper = Keeper::new();
    let graph = line().checkpointer(keeper.clone()).clock(Arc::new(Ticking::default())).compile().unwrap();
    let [first, second] = told(&graph).await.saves().try_into().unwrap();
    let identity =
        Identity { invocation_id: invocation("one"), correlation_id: "work".into(), session_id: None };
    let times = |it: &CheckpointEvent| (it.started_at, it.at, it.last_saved_at.clone().unwrap());
    let (began, answered, saved) = times(&first);
    assert!(began < answered && saved == began, "{began:?} {answered:?} {saved:?}");
    let expected = CheckpointEvent {
        identity: Arc::new(identity),
        started_at: began,
        at: answered,
        backend: "custom".into(),
        node_name: "first".into(),
        namespace: ["first".into()].into(),
        lineage: NodeLineage::default(),
        step: 0,
        attempt_index: 0,
        completed_node_count: 1,
        last_saved_at: Ok(keeper.saved()[0].last_saved_at),
    };
    assert_eq!(first, expected);
    assert_eq!(times(&second).2, keeper.last().last_saved_at);
}

// An event has the record's time, which never runs backwards, also where the clock does.
#[tokio::test]
async fn a_clock_that_is_set_back_does_not_set_the_record_back() {
    let clock = Arc::new(Ticking::default());
    let set_back = clock.clone();
    let graph = over([int("a")])
        .node("first", sets(json!({"a": 1})))
        .node("second", move |_: Ctx<Snapshot>| {
            set_back.0.store(0, Ordering::Relaxed);
            ready(Ok(StateUpdate::new()))
        })
        .edge("first", "second")
        .edge("second", END)
        .entry("first")
        .clock(clock);
    let [first, second] = told(&kept(graph)).await.saves().try_into().unwrap();
    assert!(second.started_at < first.started_at);
    assert_eq!(second.last_saved_at, first.last_saved_at);
}

// spec: pipeline-utilities §10.3: subgraph-internal nodes; the wrapper is none.
#[tokio::test]
async fn inside_of_a_subgraph_the_path_is_the_inner_nodes() {
    let inner = line().compile().unwrap();
    let outer = over([int("a"), int("b")])
        .subgraph("sub", &inner, Projection::default())
        .edge("sub", END)
        .entry("sub");
    let told = told(&kept(outer)).await.lines();
    let saved: Vec<_> = told.iter().filter(|it| it.contains("saved")).collect();
    assert_eq!(saved, ["0.0 saved sub/first 1", "1.0 saved sub/second 2"]);
}

fn items(count: u64) -> Builder {
    let inner = line().compile().unwrap();
    let list = field("items", FieldShape::Int.list(), json!((0..count).collect::<Vec<_>>()));
    let inner = FanOut::over(&inner).items("items", "a").collect("b", "results").concurrency(1);
    over([list, field("results", FieldShape::Int.list(), json!([]))])
        .fan_out("each", inner)
        .edge("each", END)
        .entry("each")
}

// spec: pipeline-utilities §§10.3, 10.11: an instance's last node and its end are one save, which is the instance's.
#[tokio::test]
async fn inside_of_a_fan_out_the_lineage_says_which_instance() {
    let told = told(&kept(items(2))).await.lines();
    let saved: Vec<_> = told.iter().filter(|it| it.contains("saved")).collect();
    let expected = [
        "1.0 saved each[0]/first 0",
        "0.0 saved each[0] 0",
        "3.0 saved each[1]/first 0",
        "0.0 saved each[1] 0",
        "0.0 saved each 1",
    ];
    assert_eq!(saved, expected);
}

// spec: pipeline-utilities §11.9: branches are saved as one node.
#[tokio::test]
async fn branches_are_told_once() {
    let branches = Branches::new().branch("one", Branch::new().call(sets(json!({"a": 1}))));
    let outer = over([int("a")]).branches("both", branches).edge("both", END).entry("both");
    let told = told(&kept(outer)).await.lines();
    let saved: Vec<_> = told.iter().filter(|it| it.contains("saved")).collect();
    assert_eq!(saved, ["0.0 saved both 1"]);
}

// spec: pipeline-utilities §10.3: "or failure captured"; each attempt of a retried node, and the one that counts.
#[tokio::test]
async fn saves_of_failed_attempts_are_told_with_the_attempt() {
    let graph = over([int("a")])
        .node("only", flaky("provider_unavailable", 1, json!({"a": 1})))
        .node_middleware("only", Retry::new().max_attempts(2))
        .edge("only", END)
        .entry("only");
    let told = told(&kept(graph)).await.lines();
    let expected = [
        "0.0 started only",
        "0.0 completed only",
        "0.0 saved only 0",
        "0.1 started only",
        "0.1 completed only",
        "0.1 saved only 1",
    ];
    assert_eq!(told, expected);
}

// spec: pipeline-utilities §10.10: the save that ends the invocation is told with its category, past every middleware.
#[tokio::test]
async fn a_save_that_fails_is_told_as_such() {
    let keeper = Keeper::failing_at(2);
    let graph = line()
        .node_middleware("second", FailureIsolation::new("isolated", StateUpdate::new()))
        .checkpointer(keeper)
        .compile()
        .unwrap();
    let ledger = told(&graph).await;
    let expected = [
        "0.0 started first",
        "0.0 completed first",
        "0.0 saved first 1",
        "1.0 started second",
        "1.0 completed second",
        "1.0 checkpoint_save_failed second 2",
    ];
    assert_eq!(ledger.lines(), expected);
    let failed = ledger.saves().pop().unwrap().last_saved_at.unwrap_err();
    let EventError { category, derived_category, message } = failed;
    assert_eq!(
        (category.as_ref(), derived_category.as_str()),
        ("checkpoint_save_failed", "checkpoint_save_failed")
    );
    assert!(message.contains("full"), "{message}");
}

// spec: pipeline-utilities §§10.1.1, 10.8: none without a checkpointer, none when they are not wanted; nobody can tell
// by the run.
#[tokio::test]
async fn nothing_is_told_where_nothing_is_saved_or_nobody_wants_to_know() {
    assert_eq!(told(&line().compile().unwrap()).await.saves(), []);
    let keeper = Keeper::new();
    let graph = line().checkpointer(keeper.clone()).checkpoint_events(false).compile().unwrap();
    assert_eq!(told(&graph).await.saves(), []);
    assert_eq!(keeper.saved().len(), 2);
}

// spec: graph-engine §6: events without a phase reach observers of any phase.
#[tokio::test]
async fn observers_of_any_phase_are_told() {
    let graph = kept(line());
    let ledger = Ledger::default();
    let only_ends = Subscription::new(ledger.clone()).limit_to_phases([AttemptPhase::Completed]).unwrap();
    completed(graph.invoke(StateUpdate::new(), InvokeOptions::new().observer(only_ends)).await);
    graph.drain(None).await.unwrap();
    let expected = ["0.0 completed first", "0.0 saved first 1", "1.0 completed second", "1.0 saved second 2"];
    assert_eq!(ledger.lines(), expected);
}

// spec: pipeline-utilities §10.15: a paused record is no checkpoint.
#[tokio::test]
async fn a_suspension_is_no_save() {
    let gate = |cx: Ctx<Snapshot>| async move { cx.suspend(Signal::new("go")).await };
    let graph = over([int("a")]).node("gate", gate).edge("gate", END).entry("gate");
    let graph = kept(graph);
    let ledger = Ledger::default();
    suspended(graph.invoke(StateUpdate::new(), named("one").observer(ledger.clone())).await);
    graph.drain(None).await.unwrap();
    assert_eq!(ledger.lines(), ["0.0 started gate", "0.0 suspended gate"]);
}

// spec: pipeline-utilities §10.8: the backend is named; one that batches keeps nothing by itself.
#[tokio::test]
async fn the_kind_of_store_is_named() {
    let memory: Arc<dyn Checkpointer> = Arc::new(MemoryStore::new());
    let batched: Arc<dyn Checkpointer> =
        Arc::new(BatchedCheckpointer::new(memory.clone(), 3.try_into().unwrap()));
    for (checkpointer, name) in [(memory, "memory"), (batched, "memory"), (Keeper::new(), "custom")] {
        let graph = items(2).checkpointer(checkpointer).compile().unwrap();
        let saves = told(&graph).await.saves();
        let names: Vec<&str> = saves.iter().map(|it| it.backend.as_ref()).collect();
        assert_eq!(names, [name; 5]);
    }
}
