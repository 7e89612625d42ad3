//! The identity of an invocation, its caller's metadata, and where both can be read (graph-engine §3, sessions §3).

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use singletree_durable::{BoxError, BoxFuture};
use singletree_engine::{
    Ctx, END, Graph, GraphEvent, Identity, InvokeOptions, Observer, RunOutcome, Snapshot, StateUpdate,
    current_identity, current_metadata,
};

use crate::rig::{Builder, Counting, completed, int, invocation, over, session, sets};

fn one() -> Builder {
    over([int("v")]).node("a", sets(json!({}))).edge("a", END).entry("a")
}

async fn identity(graph: &Graph<Snapshot>, options: InvokeOptions) -> Identity {
    graph.invoke(StateUpdate::new(), options).await.unwrap().identity().clone()
}

#[tokio::test]
async fn given_ids_are_used_and_missing_ones_are_made() {
    let graph = one().ids(Arc::new(Counting::default())).compile().unwrap();
    let given = InvokeOptions::new().invocation(invocation("mine")).correlation("corr").session(session("s"));
    let expected = Identity {
        invocation_id: invocation("mine"),
        correlation_id: "corr".into(),
        session_id: Some(session("s")),
    };
    assert_eq!(identity(&graph, given).await, expected);
    let made = identity(&graph, InvokeOptions::new()).await;
    assert_eq!(made.invocation_id, invocation("00000000-0000-4000-8000-000000000000"));
    assert_eq!(
        (made.correlation_id.as_str(), made.session_id),
        ("00000000-0000-4000-8000-000000000001", None)
    );
}

#[tokio::test]
async fn ids_that_nobody_gives_are_random_uuids() {
    let graph = one().compile().unwrap();
    let (first, second) =
        (identity(&graph, InvokeOptions::new()).await, identity(&graph, InvokeOptions::new()).await);
    assert_ne!(first.invocation_id, second.invocation_id);
    assert_eq!(first.invocation_id.as_str().as_bytes()[14], b'4');
}

#[derive(Clone, Default)]
struct Looks(Arc<Mutex<Vec<Value>>>);

impl Looks {
    fn look(&self, at: &str) {
        let identity = current_identity().map(|it| it.session_id.as_ref().map(ToString::to_string));
        let metadata = Value::Object((*current_metadata()).clone());
        self.0.lock().unwrap().push(json!([at, identity, metadata]));
    }
}

impl Observer for Looks {
    fn observe_event<'a>(&'a self, _: &'a GraphEvent) -> BoxFuture<'a, Result<(), BoxError>> {
        self.look("observer");
        Box::pin(async { Ok(()) })
    }
}

// spec: sessions §3, observability §3.4: readable in nodes, observers and functions called by them; reset afterwards.
#[tokio::test]
async fn the_running_invocation_can_be_read_where_it_runs_and_nowhere_else() {
    let looks = Looks::default();
    let (in_node, in_edge) = (looks.clone(), looks.clone());
    let node = move |cx: Ctx<Snapshot>| {
        let looks = in_node.clone();
        async move {
            tokio::task::yield_now().await;
            looks.look("node");
            assert_eq!(cx.caller_metadata().get("k"), Some(&json!([1, 2])));
            Ok(StateUpdate::new())
        }
    };
    let choose = move |_: &Snapshot| {
        in_edge.look("edge");
        END
    };
    let graph = over([int("v")]).node("a", node).conditional_edge("a", choose).entry("a").compile().unwrap();
    graph.attach_observer(looks.clone());
    looks.look("before");
    let options = InvokeOptions::new().session(session("s")).metadata("k", json!([1, 2]));
    completed(graph.invoke(StateUpdate::new(), options).await);
    looks.look("after");
    graph.drain(None).await.unwrap();
    let mut seen = looks.0.lock().unwrap().clone();
    seen.sort_by_key(ToString::to_string);
    let inside = json!({"k": [1, 2]});
    assert_eq!(
        Value::Array(seen),
        json!([
            ["after", null, {}],
            ["before", null, {}],
            ["edge", "s", inside],
            ["node", "s", inside],
            ["observer", "s", inside],
            ["observer", "s", inside],
        ])
    );
}

// spec: graph-engine §3: an invocation inside a node is another one.
#[tokio::test]
async fn an_invocation_inside_a_node_does_not_show_the_outer_one() {
    let looks = Looks::default();
    let inside = looks.clone();
    let choose = move |_: &Snapshot| {
        inside.look("inner");
        END
    };
    let inner = over([int("v")])
        .node("a", sets(json!({})))
        .conditional_edge("a", choose)
        .entry("a")
        .compile()
        .unwrap();
    let invokes = move |_| {
        let inner = inner.clone();
        async move {
            inner.invoke(StateUpdate::new(), InvokeOptions::new().session(session("inner"))).await?;
            Ok(StateUpdate::new())
        }
    };
    let outer = over([int("v")]).node("a", invokes).edge("a", END).entry("a").compile().unwrap();
    completed(outer.invoke(StateUpdate::new(), InvokeOptions::new().session(session("outer"))).await);
    assert_eq!(*looks.0.lock().unwrap(), [json!(["inner", "inner", {}])]);
}

// spec: observability §3.4
#[tokio::test]
async fn metadata_is_checked_before_anything_else_is_done() {
    let never = |_| async { panic!("a node ran") };
    let graph = over([int("v")]).node("a", never).edge("a", END).entry("a").compile().unwrap();
    for (key, value) in [
        ("", json!(1)),
        ("openarmature.x", json!(1)),
        ("gen_ai.system", json!(1)),
        ("invocation_id", json!(1)),
        ("step", json!(1)),
        ("k", json!(null)),
        ("k", json!({"a": 1})),
        ("k", json!([1, "a"])),
        ("k", json!([1, 1.5])),
        ("k", json!([[1]])),
        ("k", json!([null])),
    ] {
        let refused =
            graph.invoke(StateUpdate::new(), InvokeOptions::new().metadata(key, value.clone())).await;
        assert_eq!(refused.unwrap_err().category(), "invalid_argument", "{key}: {value}");
    }
    let graph = one().compile().unwrap();
    for value in
        [json!("a"), json!(1), json!(1.5), json!(true), json!([]), json!(["a", "b"]), json!([1.5, 2.5])]
    {
        let options = InvokeOptions::new().metadata("openarmature", value.clone()).metadata("steps", value);
        assert!(matches!(graph.invoke(StateUpdate::new(), options).await, Ok(RunOutcome::Completed(_))));
    }
}
