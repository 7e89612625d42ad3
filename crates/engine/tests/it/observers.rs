//! Observers: order, phases, failures, bounds (graph-engine §6, INV-10).

use std::future::pending;
use std::sync::{Arc, Mutex};

use serde_json::json;
use singletree_durable::{BoxError, BoxFuture};
use singletree_engine::{
    AttemptPhase, END, Graph, GraphEvent, InvokeOptions, Limits, NodeError, Observer, ObserverFailure,
    Projection, Snapshot, StateUpdate, Subscription,
};

use crate::rig::{Builder, Recorder, completed, fail, int, log, over, run, sets};

fn line() -> Builder {
    let builder =
        over([int("v"), log("log")]).node("a", sets(json!({"v": 1}))).node("b", sets(json!({"log": ["b"]})));
    builder.edge("a", "b").edge("b", END).entry("a")
}

/// Mishaps, as they are told.
fn heard() -> (Arc<Mutex<Vec<String>>>, impl Fn(ObserverFailure) + Send + Sync + 'static) {
    let book = Arc::new(Mutex::new(Vec::new()));
    let writes = book.clone();
    (book, move |mishap| {
        let told = match mishap {
            ObserverFailure::Observer { error } => format!("observer: {error}"),
            ObserverFailure::Backlog { max, .. } => format!("backlog of {max}"),
            other => format!("{other:?}"),
        };
        writes.lock().unwrap().push(told);
    })
}

// spec: graph-engine §6
#[tokio::test]
async fn events_say_exactly_what_happened() {
    let seen = Recorder::default();
    let graph = line().compile().unwrap();
    graph.attach_observer(seen.clone());
    run(&graph, json!({})).await;
    graph.drain(None).await.unwrap();
    let (zero, one) = (json!({"v": 0, "log": []}), json!({"v": 1, "log": []}));
    let event = |node: &str, step: u64, phase: &str, pre: &serde_json::Value| json!({"by": "", "phase": phase, "node": node, "namespace": [node], "step": step, "attempt": 0, "pre": pre, "parents": []});
    let mut expected = [
        event("a", 0, "started", &zero),
        event("a", 0, "completed", &zero),
        event("b", 1, "started", &one),
        event("b", 1, "completed", &one),
    ];
    expected[1]["post"] = one;
    expected[3]["post"] = json!({"v": 1, "log": ["b"]});
    assert_eq!(seen.seen(), expected);
}

// spec: graph-engine §6: the completed event of a node carries the failure of its merge or its edge.
#[tokio::test]
async fn every_failure_lands_on_the_nodes_completed_event() {
    type Finish = fn(Builder) -> Builder;
    let cases: [(Finish, &str); 5] = [
        (
            |it| it.node("a", |_| async { Err::<StateUpdate, _>(NodeError::new("x")) }).edge("a", END),
            "node_exception",
        ),
        (|it| it.node("a", sets(json!({"log": 1}))).edge("a", END), "reducer_error"),
        (|it| it.node("a", sets(json!({"v": "x"}))).edge("a", END), "state_validation_error"),
        (|it| it.node("a", sets(json!({}))).conditional_edge("a", |_: &Snapshot| "ghost"), "routing_error"),
        (
            |it| it.node("a", sets(json!({}))).conditional_edge("a", |_: &Snapshot| Err::<&str, _>("x")),
            "edge_exception",
        ),
    ];
    for (finish, category) in cases {
        let seen = Recorder::default();
        let graph = finish(over([int("v"), log("log")])).entry("a").compile().unwrap();
        graph.attach_observer(seen.clone());
        assert_eq!(fail(&graph, json!({})).await.category(), category);
        graph.drain(None).await.unwrap();
        assert_eq!(seen.lines(), ["0 started a", "0 completed a"]);
        assert_eq!((&seen.seen()[1]["error"], &seen.seen()[1]["post"]), (&json!(category), &json!(null)));
    }
}

// spec: graph-engine §6: outermost graph, …, owning graph, then the invocation's own; registration order within one.
#[tokio::test]
async fn observers_are_called_from_the_outside_in() {
    let book = Recorder::default();
    let inner = over([log("log")])
        .node("n", sets(json!({"log": ["n"]})))
        .edge("n", END)
        .entry("n")
        .compile()
        .unwrap();
    let outer =
        over([log("log")]).node("first", sets(json!({}))).subgraph("sub", &inner, Projection::by_name());
    let outer = outer.edge("first", "sub").edge("sub", END).entry("first").compile().unwrap();
    inner.attach_observer(book.named("inner"));
    outer.attach_observer(book.named("outer1"));
    outer.attach_observer(book.named("outer2"));
    let options = InvokeOptions::new().observer(book.named("own1")).observer(book.named("own2"));
    completed(outer.invoke(StateUpdate::new(), options).await);
    outer.drain(None).await.unwrap();
    let each =
        |event: &str, names: &[&str]| names.iter().map(|it| format!("{it} {event}")).collect::<Vec<_>>();
    let outside = ["outer1", "outer2", "own1", "own2"];
    let inside = ["outer1", "outer2", "inner", "own1", "own2"];
    let expected = [
        each("0 started first", &outside),
        each("0 completed first", &outside),
        each("1 started sub/n", &inside),
        each("1 completed sub/n", &inside),
    ];
    assert_eq!(book.lines(), expected.concat());
    // Attached to the subgraph, it also sees the subgraph run by itself.
    let before = book.seen().len();
    run(&inner, json!({})).await;
    inner.drain(None).await.unwrap();
    assert_eq!(book.lines()[before..], ["inner 0 started n", "inner 0 completed n"]);
}

// spec: graph-engine §6; R4
#[tokio::test]
async fn phases_filter_and_no_phase_is_refused() {
    let book = Recorder::default();
    let graph = line().compile().unwrap();
    graph.attach_observer(
        Subscription::new(book.named("end")).limit_to_phases([AttemptPhase::Completed]).unwrap(),
    );
    graph.attach_observer(
        Subscription::new(book.named("begin")).limit_to_phases([AttemptPhase::Started]).unwrap(),
    );
    run(&graph, json!({})).await;
    graph.drain(None).await.unwrap();
    assert_eq!(
        book.lines(),
        ["begin 0 started a", "end 0 completed a", "begin 1 started b", "end 1 completed b"]
    );
    let refused = Subscription::new(book).limit_to_phases([]).unwrap_err();
    assert_eq!(refused.category(), "invalid_argument");
}

struct Never;

impl Observer for Never {
    fn observe_event<'a>(&'a self, _: &'a GraphEvent) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(pending())
    }
}

// spec: graph-engine §6
#[tokio::test]
async fn a_stuck_observer_does_not_delay_the_run() {
    let graph = line().compile().unwrap();
    graph.attach_observer(Never);
    assert_eq!(run(&graph, json!({})).await, json!({"v": 1, "log": ["b"]}));
}

struct Failing(bool);

impl Observer for Failing {
    fn observe_event<'a>(&'a self, event: &'a GraphEvent) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(async move {
            let GraphEvent::Node(event) = event else { panic!("a node event") };
            if event.step > 0 {
                return Ok(());
            }
            if self.0 { panic!("{}", event.phase.as_str()) } else { Err(event.phase.as_str().into()) }
        })
    }
}

// spec: graph-engine §6
#[tokio::test]
async fn a_failing_observer_harms_nobody_and_is_told_of() {
    for (panics, prefix) in [(false, ""), (true, "panicked: ")] {
        let (book, hear) = heard();
        let seen = Recorder::default();
        let graph = line().on_mishap(hear).compile().unwrap();
        graph.attach_observer(Failing(panics));
        graph.attach_observer(seen.clone());
        assert_eq!(run(&graph, json!({})).await["v"], 1);
        graph.drain(None).await.unwrap();
        assert_eq!(seen.seen().len(), 4);
        let expected = ["started", "completed"].map(|it| format!("observer: {prefix}{it}"));
        assert_eq!(*book.lock().unwrap(), expected);
    }
}

#[tokio::test]
async fn a_listener_for_mishaps_that_panics_harms_nobody() {
    let seen = Recorder::default();
    let limits = Limits { observer_backlog: 3, ..Limits::default() };
    let graph = line().limits(limits).on_mishap(|_| panic!("ears hurt")).compile().unwrap();
    graph.attach_observer(Failing(false));
    graph.attach_observer(seen.clone());
    assert_eq!(run(&graph, json!({})).await["v"], 1);
    let summary = graph.drain(None).await.unwrap();
    assert_eq!((summary.undelivered_count, seen.seen().len()), (1, 3));
}

// INV-10
#[tokio::test]
async fn beyond_the_backlog_delivery_stops_with_one_mishap() {
    let (book, hear) = heard();
    let seen = Recorder::default();
    let limits = Limits { observer_backlog: 2, ..Limits::default() };
    // A node that drains does not wait for events that will not come: of five events two were taken.
    let drains = |cx: singletree_engine::Ctx<Snapshot>| async move {
        let left = cx.drain_events(None).await.undelivered_count;
        Ok(StateUpdate::new().with_json("v", left.into()))
    };
    let three =
        over([int("v"), log("log")]).node("a", sets(json!({}))).node("b", sets(json!({}))).node("c", drains);
    let three = three.edge("a", "b").edge("b", "c").edge("c", END).entry("a").limits(limits);
    let three = three.on_mishap(hear).compile().unwrap();
    three.attach_observer(seen.clone());
    assert_eq!(run(&three, json!({})).await["v"], 3);
    let summary = three.drain(None).await.unwrap();
    assert_eq!((summary.undelivered_count, summary.timeout_reached), (4, false));
    assert_eq!(seen.lines(), ["0 started a", "0 completed a"]);
    assert_eq!(*book.lock().unwrap(), ["backlog of 2"]);
    // The next invocation has a queue of its own.
    run(&three, json!({})).await;
    three.drain(None).await.unwrap();
    assert_eq!(seen.lines()[2..], ["0 started a", "0 completed a"]);
}

// spec: graph-engine §6
#[tokio::test]
async fn the_set_of_observers_is_fixed_when_an_invocation_begins() {
    let (late, early) = (Recorder::default(), Recorder::default());
    let slot: Arc<Mutex<Option<Graph<Snapshot>>>> = Arc::default();
    let (inside, joins) = (slot.clone(), late.clone());
    let id = Arc::new(Mutex::new(None));
    let leaves = id.clone();
    let meddle = move |_| {
        let graph = inside.lock().unwrap().clone().unwrap();
        graph.attach_observer(joins.clone());
        if let Some(id) = leaves.lock().unwrap().take() {
            assert!(graph.detach_observer(id));
            assert!(!graph.detach_observer(id));
        }
        async { Ok(StateUpdate::new()) }
    };
    let graph = over([int("v")]).node("a", meddle).edge("a", END).entry("a").compile().unwrap();
    *slot.lock().unwrap() = Some(graph.clone());
    *id.lock().unwrap() = Some(graph.attach_observer(early.clone()));
    run(&graph, json!({})).await;
    graph.drain(None).await.unwrap();
    assert_eq!((early.seen().len(), late.seen().len()), (2, 0));
    run(&graph, json!({})).await;
    graph.drain(None).await.unwrap();
    assert_eq!((early.seen().len(), late.seen().len()), (2, 2));
}
