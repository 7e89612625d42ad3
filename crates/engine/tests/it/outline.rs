//! Compiled graphs as plain data.

use std::sync::Arc;

use serde_json::json;
use singletree_durable::BoxFuture;
use singletree_engine::{
    Branch, Branches, END, ErrorPolicy, FailureIsolation, FanOut, FieldShape, Graph, GraphOutline,
    Middleware, Next, NodeError, Projection, Retry, Snapshot, StateUpdate, around,
};

use crate::rig::{field, int, over, sets};

/// A middleware of a user's own, generic to have a long type name.
struct Limit<T>(T);

impl<T: Send + Sync> Middleware for Limit<T> {
    fn call<'a>(
        &'a self,
        state: &'a Snapshot,
        mut next: Next<'a>,
    ) -> BoxFuture<'a, Result<StateUpdate, NodeError>> {
        let _ = &self.0;
        Box::pin(async move { next.run(state).await })
    }
}

fn inner() -> Graph<Snapshot> {
    over([int("n")]).node("work", sets(json!({}))).edge("work", END).entry("work").compile().unwrap()
}

fn passes() -> impl Middleware {
    around(|state: Arc<Snapshot>, mut next| Box::pin(async move { next.run(&state).await }))
}

fn whole() -> Graph<Snapshot> {
    let list = field("items", FieldShape::Int.list(), json!([]));
    let each = FanOut::over(&inner()).items("items", "n").instance_middleware(Retry::new()).unbounded();
    let counted = FanOut::over(&inner())
        .count_by(|_| Ok::<_, std::convert::Infallible>(2))
        .error_policy(ErrorPolicy::Collect);
    let branches = Branches::new()
        .branch("graph", Branch::new().subgraph(&inner()).when(|_| true))
        .branch("call", Branch::new().call(sets(json!({}))).middleware(passes()));
    over([int("n"), list])
        .node("first", sets(json!({})))
        .subgraph("below", &inner(), Projection::by_name())
        .fan_out("each", each)
        .fan_out("counted", counted)
        .branches("fork", branches)
        .node("END", sets(json!({})))
        .middleware(Arc::new(Limit("x")))
        .node_middleware("first", FailureIsolation::new("first failed", StateUpdate::new()))
        .conditional_edge_to("first", ["below".into(), "END".into(), END.into()], |_| END)
        .edge("below", "each")
        .conditional_edge("each", |_| END)
        .edge("counted", "END")
        .edge("fork", "counted")
        .edge("END", END)
        .entry("first")
        .compile()
        .unwrap()
}

#[test]
fn an_outline_tells_nodes_edges_and_what_is_nested() {
    let graph = whole();
    let (inner, outline) = (inner().outline(), graph.outline());
    let end = json!({"edge": "always", "to": "end"});
    let inner_json = json!({
        "state": inner.state, "digest": inner.digest, "entry": "work",
        "nodes": [{"name": "work", "kind": "function", "next": end}],
    });
    let to = |node: &str| json!({"edge": "always", "to": {"node": node}});
    let expected = json!({
        "state": outline.state,
        "digest": graph.digest(),
        "entry": "first",
        "nodes": [
            {
                "name": "first", "kind": "function", "middleware": ["Limit", "FailureIsolation"],
                "next": {"edge": "one_of", "targets": [{"node": "below"}, {"node": "END"}, "end"]},
            },
            {"name": "below", "kind": "subgraph", "graph": inner_json, "middleware": ["Limit"], "next": to("each")},
            {
                "name": "each", "kind": "fan_out", "over": {"items": "items"}, "concurrency": "unbounded",
                "error_policy": "fail_fast", "instance_middleware": ["Retry"], "graph": inner_json,
                "middleware": ["Limit"], "next": {"edge": "by_function"},
            },
            {
                "name": "counted", "kind": "fan_out", "over": {"count": "by_function"},
                "concurrency": {"fixed": 10}, "error_policy": "collect", "graph": inner_json,
                "middleware": ["Limit"], "next": to("END"),
            },
            {
                "name": "fork", "kind": "branches", "error_policy": "fail_fast",
                "branches": [
                    {"name": "graph", "conditional": true, "graph": inner_json},
                    {"name": "call", "conditional": false, "middleware": ["around"]},
                ],
                "middleware": ["Limit"], "next": to("counted"),
            },
            {"name": "END", "kind": "function", "middleware": ["Limit"], "next": end},
        ],
    });
    let written = serde_json::to_value(&outline).unwrap();
    assert_eq!(written, expected);
    assert_eq!(serde_json::from_value::<GraphOutline>(written).unwrap(), outline);
}

// spec: graph-engine §2: a sink that is not END compiles, and fails when a run gets there.
#[test]
fn a_node_without_an_edge_leads_nowhere() {
    let graph = over([int("n")]).node("only", sets(json!({}))).entry("only").compile().unwrap();
    assert_eq!(serde_json::to_value(&graph.outline().nodes[0].next).unwrap(), json!({"edge": "nowhere"}));
}
