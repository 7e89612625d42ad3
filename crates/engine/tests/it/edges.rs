//! Edges: static, conditional, fallible, and those that lead nowhere (graph-engine §2–§4).

use serde_json::{Value, json};
use singletree_engine::{END, Graph, IntoTarget, Snapshot, Target};

use crate::rig::{Builder, described, fail, int, log, over, run, sets};

fn two() -> Builder {
    let builder = over([int("v"), log("log")]);
    builder.node("a", sets(json!({"v": 1, "log": ["a"]}))).node("b", sets(json!({"log": ["b"]}))).entry("a")
}

fn choosing<R: IntoTarget>(choose: impl Fn(&Snapshot) -> R + Send + Sync + 'static) -> Graph<Snapshot> {
    two().conditional_edge("a", choose).edge("b", END).compile().unwrap()
}

fn value(state: &Snapshot) -> Value {
    state.get("v").unwrap().to_json().unwrap()
}

// spec: graph-engine §3
#[tokio::test]
async fn static_edges_are_followed_to_the_end() {
    let graph = two().edge("a", "b").edge("b", END).compile().unwrap();
    assert_eq!(run(&graph, json!({})).await, json!({"v": 1, "log": ["a", "b"]}));
}

// spec: graph-engine §3 step 4
#[tokio::test]
async fn a_conditional_edge_sees_the_state_after_the_update() {
    let graph = choosing(|it| if value(it) == 1 { Target::from("b") } else { Target::End });
    assert_eq!(run(&graph, json!({})).await["log"], json!(["a", "b"]));
    let graph = choosing(|it| if value(it) == 0 { Target::from("b") } else { Target::End });
    assert_eq!(run(&graph, json!({})).await["log"], json!(["a"]));
}

// spec: graph-engine §2
#[tokio::test]
async fn a_node_may_be_called_end() {
    let builder = over([log("log")]).node("a", sets(json!({}))).node("END", sets(json!({"log": ["END"]})));
    let graph = builder.conditional_edge("a", |_: &Snapshot| "END").edge("END", END).entry("a");
    assert_eq!(run(&graph.compile().unwrap(), json!({})).await, json!({"log": ["END"]}));
}

// spec: graph-engine §4
#[tokio::test]
async fn an_edge_that_fails_or_panics_is_an_edge_exception_after_the_update() {
    let after = Some(json!({"v": 1, "log": ["a"]}));
    let failing = choosing(|_| Err::<Target, _>("no way"));
    let error = fail(&failing, json!({})).await;
    assert_eq!(described(&error), ("edge_exception", Some("a".into()), after.clone()));
    assert_eq!(singletree_engine::format_error_chain(&error), "the edge of node 'a' failed: no way");
    let panicking = choosing(|_| -> Target { panic!("lost") });
    let error = fail(&panicking, json!({})).await;
    assert_eq!(described(&error), ("edge_exception", Some("a".into()), after));
    assert_eq!(singletree_engine::format_error_chain(&error), "the edge of node 'a' failed: panicked: lost");
}

// spec: graph-engine §4; R20
#[tokio::test]
async fn an_edge_to_nowhere_is_a_routing_error_after_the_update() {
    let after = Some(json!({"v": 1, "log": ["a"]}));
    let error = fail(&choosing(|_| "ghost"), json!({})).await;
    assert_eq!(described(&error), ("routing_error", Some("a".into()), after.clone()));
    assert_eq!(error.to_string(), "node 'a' routes to 'ghost', which is not a node");
    let dead_end = over([int("v"), log("log")]).node("a", sets(json!({"v": 1, "log": ["a"]}))).entry("a");
    let error = fail(&dead_end.compile().unwrap(), json!({})).await;
    assert_eq!(described(&error), ("routing_error", Some("a".into()), after));
}
