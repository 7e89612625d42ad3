//! Events about the lifecycle of invocations and inner runs, for observers that ask for them.

use std::sync::{Arc, Mutex};

use serde_json::json;
use singletree_durable::{BoxError, BoxFuture};
use singletree_engine::{
    Branch, Branches, Ctx, END, Graph, GraphEvent, InvocationChange, InvokeOptions, NodeError, Observer,
    Projection, Signal, Snapshot, StateUpdate, Subscription, UnitChange,
};

use crate::fan_out::{around as outer, each};
use crate::rig::{int, over, sets, update};

#[derive(Clone, Default)]
struct Lifecycles(Arc<Mutex<Vec<String>>>);

impl Observer for Lifecycles {
    fn observe_event<'a>(&'a self, event: &'a GraphEvent) -> BoxFuture<'a, Result<(), BoxError>> {
        let told = match event {
            GraphEvent::Node(event) => format!("{} {}", event.phase.as_str(), event.namespace.join("/")),
            GraphEvent::Invocation(event) => match &event.change {
                InvocationChange::Started { entry_node, resumed, state, label: None } => {
                    format!("invocation at {entry_node} resumed {resumed} state {}", state.is_some())
                }
                InvocationChange::Started { .. } => panic!("nobody named it"),
                InvocationChange::Completed(_) => "invocation completed".into(),
                InvocationChange::Suspended(descriptor) => {
                    format!("invocation waits for {}", descriptor.signal_id)
                }
                InvocationChange::Failed { error, at_boundary, .. } => {
                    format!("invocation failed {} boundary {at_boundary}", error.category)
                }
            },
            GraphEvent::Unit(event) => {
                let unit =
                    format!("{}{:?}.{}", event.namespace.join("/"), event.lineage, event.attempt_index);
                match &event.change {
                    UnitChange::Entered { graph_name, entry_node } => {
                        format!("{unit} entered {graph_name:?} {entry_node:?}")
                    }
                    UnitChange::Completed => format!("{unit} completed"),
                    UnitChange::Failed(error) => format!("{unit} failed {}", error.category),
                }
            }
            other => panic!("{other:?}"),
        };
        self.0.lock().unwrap().push(told);
        Box::pin(async { Ok(()) })
    }
}

async fn told(graph: &Graph<Snapshot>, initial: serde_json::Value) -> Vec<String> {
    let seen = Lifecycles::default();
    let options = InvokeOptions::new().observer(Subscription::new(seen.clone()).with_lifecycle());
    drop(graph.invoke(update(initial), options).await);
    graph.drain(None).await.unwrap();
    seen.0.lock().unwrap().clone()
}

fn fails() -> Graph<Snapshot> {
    let node = |_: Ctx<Snapshot>| async { Err(NodeError::new("boom")) };
    over([int("v")]).name("inner").node("step", node).edge("step", END).entry("step").compile().unwrap()
}

fn works() -> Graph<Snapshot> {
    let builder = over([int("v")]).node("step", sets(json!({"v": 1})));
    builder.edge("step", END).entry("step").compile().unwrap()
}

#[tokio::test]
async fn a_subgraph_is_told_from_its_entry_to_the_merge_of_its_update() {
    let around = |inner: &Graph<Snapshot>| {
        let builder = over([int("v")]).subgraph("sub", inner, Projection::by_name());
        builder.edge("sub", END).entry("sub").compile().unwrap()
    };
    assert_eq!(
        told(&around(&works()), json!({})).await,
        [
            "invocation at sub resumed false state true",
            "sub[Subgraph].0 entered None Some(\"step\")",
            "started sub/step",
            "completed sub/step",
            "sub[Subgraph].0 completed",
            "invocation completed",
        ]
    );
    assert_eq!(
        told(&around(&fails()), json!({})).await,
        [
            "invocation at sub resumed false state true",
            "sub[Subgraph].0 entered Some(\"inner\") Some(\"step\")",
            "started sub/step",
            "completed sub/step",
            "sub[Subgraph].0 failed node_exception",
            "invocation failed node_exception boundary false",
        ]
    );
}

#[tokio::test]
async fn members_of_containers_are_told_each() {
    let node = |cx: Ctx<Snapshot>| async move {
        let n = crate::fan_out::number(&cx, "n");
        if n == 2 { Err(NodeError::new("two")) } else { Ok(update(json!({"out": n}))) }
    };
    let inner =
        over([int("n"), int("out")]).node("work", node).edge("work", END).entry("work").compile().unwrap();
    let graph = outer(each(&inner).concurrency(1)).compile().unwrap();
    assert_eq!(
        told(&graph, json!({"items": [1, 2, 3]})).await,
        [
            "invocation at each resumed false state true",
            "started each",
            "each[Instance(0)].0 entered None Some(\"work\")",
            "started each/work",
            "completed each/work",
            "each[Instance(0)].0 completed",
            "each[Instance(1)].0 entered None Some(\"work\")",
            "started each/work",
            "completed each/work",
            "each[Instance(1)].0 failed node_exception",
            "completed each",
            "invocation failed node_exception boundary false",
        ]
    );
    let call = |_: Ctx<Snapshot>| async { Ok(update(json!({"v": 1}))) };
    let branches = Branches::new().branch("alone", Branch::new().call(call));
    let graph =
        over([int("v")]).branches("both", branches).edge("both", END).entry("both").compile().unwrap();
    assert_eq!(
        told(&graph, json!({})).await,
        [
            "invocation at both resumed false state true",
            "started both",
            "both[Branch(\"alone\")].0 entered None None",
            "started both/alone",
            "completed both/alone",
            "both[Branch(\"alone\")].0 completed",
            "completed both",
            "invocation completed",
        ]
    );
}

// spec: observability §4.2: what fails at the boundary has no node to be told at; it is told all the same.
#[tokio::test]
async fn an_invocation_that_cannot_begin_or_that_waits_is_told() {
    assert_eq!(
        told(&works(), json!({"v": "text"})).await,
        [
            "invocation at step resumed false state false",
            "invocation failed state_validation_error boundary true",
        ]
    );
    let waits = |cx: Ctx<Snapshot>| async move { cx.suspend(Signal::new("approval")).await };
    let graph = over([int("v")]).node("ask", waits).edge("ask", END).entry("ask").compile().unwrap();
    let expected = [
        "invocation at ask resumed false state true",
        "started ask",
        "suspended ask",
        "invocation waits for approval",
    ];
    assert_eq!(told(&graph, json!({})).await, expected);
}

// An observer that asks for no more sees the specification's events alone, and a drain counts no others.
#[tokio::test]
async fn others_see_nothing_of_lifecycles() {
    let seen = Lifecycles::default();
    let graph = works();
    graph.attach_observer(seen.clone());
    graph.invoke(StateUpdate::new(), InvokeOptions::new()).await.unwrap();
    graph.drain(None).await.unwrap();
    assert_eq!(*seen.0.lock().unwrap(), ["started step", "completed step"]);
}
