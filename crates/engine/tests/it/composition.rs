//! Pauses at every site, in every depth, with and without middleware and a checkpointer (suspension §8).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use singletree_durable::{BoxFuture, Checkpointer, MemoryStore, TenantId};
use singletree_engine::{
    Branch, Branches, Ctx, END, FailureIsolation, FanOut, FieldShape, FieldSpec, Graph, InvokeOptions, Next,
    NodeResult, Projection, Retry, RetryBackoff, Signal, Snapshot, StateUpdate, around,
};

use crate::fan_out::{ints, number};
use crate::rig::{Builder, Recorder, completed, field, int, log, map, over, sets, suspended, update};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Site {
    Node,
    FanOut,
    Branches,
}

/// One combination of features that the specification allows together.
#[derive(Debug, Clone, Copy)]
struct Combination {
    site: Site,
    /// Whether the node counts as completed.
    completes: bool,
    /// How many subgraphs are around it.
    depth: usize,
    wrapped: bool,
    saved: bool,
}

fn combinations() -> Vec<Combination> {
    let mut all = Vec::new();
    for site in [Site::Node, Site::FanOut, Site::Branches] {
        for bits in 0..8 {
            let [completes, wrapped, saved] = [1, 2, 4].map(|bit| bits & bit != 0);
            all.extend((0..3).map(|depth| Combination { site, completes, depth, wrapped, saved }));
        }
    }
    all
}

impl Combination {
    /// The expected final state: a node that counts as completed has only the contributions made before the pause.
    fn ends_with(self) -> Value {
        let results = match (self.site, self.completes) {
            (Site::Node, true) => json!([]),
            (Site::Node, false) => json!([20]),
            (Site::FanOut | Site::Branches, true) => json!([10]),
            (Site::FanOut | Site::Branches, false) => json!([10, 20, 30]),
        };
        let mut log = vec!["pre"; self.depth];
        log.extend(["head", "tail"]);
        log.extend(vec!["post"; self.depth]);
        json!({"ok": true, "log": log, "items": [1, 2, 3], "results": results})
    }
}

/// Counts calls of middleware callbacks, which must not see a pause.
#[derive(Clone, Default)]
struct Heard(Arc<AtomicU64>);

impl Heard {
    fn note(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn retry(&self) -> Retry {
        let heard = self.clone();
        Retry::new().backoff(RetryBackoff::Constant(std::time::Duration::ZERO)).classifier(move |_, _| {
            heard.note();
            true
        })
    }

    fn isolation(&self) -> FailureIsolation {
        let heard = self.clone();
        FailureIsolation::from_function("caught", move |_| {
            heard.note();
            Ok(StateUpdate::new())
        })
    }
}

fn fields() -> Vec<FieldSpec> {
    let items = field("items", FieldShape::Int.list(), json!([1, 2, 3]));
    vec![field("ok", FieldShape::Bool, json!(false)), log("log"), items, ints("results")]
}

fn is_ok(cx: &Ctx<Snapshot>) -> bool {
    cx.snapshot().get("ok").unwrap().to_json().unwrap() == true
}

/// A body that suspends unless it may go on.
fn gate(
    value: Value,
    completes: bool,
) -> impl Fn(Ctx<Snapshot>) -> BoxFuture<'static, NodeResult<Snapshot>> + Send + Sync {
    move |cx| {
        let value = value.clone();
        Box::pin(async move {
            if is_ok(&cx) {
                return Ok(update(value));
            }
            cx.suspend(Signal::new("s").mark_node_completed(completes)).await
        })
    }
}

impl Combination {
    fn fan_out(self, heard: &Heard) -> FanOut<Snapshot> {
        let gate = Arc::new(gate(json!({"out": 20}), self.completes));
        let work = move |cx: Ctx<Snapshot>| {
            let gate = gate.clone();
            async move {
                match number(&cx, "n") {
                    2 => gate(cx).await,
                    n => Ok(update(json!({"out": 10 * n}))),
                }
            }
        };
        let inner =
            over([int("n"), field("ok", FieldShape::Bool, json!(false)), int("out")]).node("work", work);
        let inner = if self.wrapped { inner.node_middleware("work", heard.retry()) } else { inner };
        let inner = inner.edge("work", END).entry("work").compile().unwrap();
        let fan = FanOut::over(&inner).items("items", "n").input("ok", "ok").collect("out", "results");
        let fan = fan.concurrency(1);
        if self.wrapped { fan.instance_middleware(heard.isolation()) } else { fan }
    }

    fn branches(self, heard: &Heard) -> Branches<Snapshot> {
        let sets = |value| Branch::new().call(sets(json!({"results": [value]})));
        let gate = Branch::new().call(gate(json!({"results": [20]}), self.completes));
        let gate =
            if self.wrapped { gate.middleware(heard.isolation()).middleware(heard.retry()) } else { gate };
        Branches::new().branch("a", sets(10)).branch("b", gate).branch("c", sets(30))
    }

    /// head -> site -> tail.
    fn core(self, heard: &Heard) -> Builder {
        let builder = over(fields()).node("head", sets(json!({"log": ["head"]})));
        let builder = match self.site {
            Site::Node => builder.node("site", gate(json!({"results": [20]}), self.completes)),
            Site::FanOut => builder.fan_out("site", self.fan_out(heard)),
            Site::Branches => builder.branches("site", self.branches(heard)),
        };
        let builder = builder.node("tail", sets(json!({"log": ["tail"]})));
        let builder = builder.edge("head", "site").edge("site", "tail").edge("tail", END).entry("head");
        self.wrap(builder, "site", heard)
    }

    fn wrap(self, builder: Builder, node: &'static str, heard: &Heard) -> Builder {
        if !self.wrapped {
            return builder;
        }
        let passes = around(|state: Arc<Snapshot>, mut next: Next<'_>| -> BoxFuture<'_, _> {
            Box::pin(async move { next.run(&state).await })
        });
        builder
            .middleware(passes)
            .node_middleware(node, heard.isolation())
            .node_middleware(node, heard.retry())
    }

    /// The graph, as each process makes it for itself.
    fn graph(self, store: &MemoryStore, heard: &Heard) -> Graph<Snapshot> {
        let mut builder = self.core(heard);
        for _ in 0..self.depth {
            let crossing = Projection::by_name().inputs([("ok", "ok")]);
            let crossing = crossing.outputs([("log", "log"), ("results", "results")]);
            let outer = over(fields())
                .node("pre", sets(json!({"log": ["pre"]})))
                .subgraph("sub", &builder.compile().unwrap(), crossing)
                .node("post", sets(json!({"log": ["post"]})));
            let outer = outer.edge("pre", "sub").edge("sub", "post").edge("post", END).entry("pre");
            builder = self.wrap(outer, "sub", heard);
        }
        let builder = builder.paused_store(Arc::new(store.clone()));
        let builder = if self.saved { builder.checkpointer(Arc::new(store.clone())) } else { builder };
        builder.compile().unwrap()
    }
}

// spec: suspension §8.1–§8.5; pipeline-utilities §10
#[tokio::test]
async fn a_pause_ends_the_same_wherever_it_is_and_whatever_is_around_it() {
    for combination in combinations() {
        let (store, heard) = (MemoryStore::new(), Heard::default());
        let graph = combination.graph(&store, &heard);
        let paused = suspended(graph.invoke(StateUpdate::new(), InvokeOptions::new()).await);
        assert_eq!(paused.node_name.as_ref(), "site", "{combination:?}");
        let path = [vec!["sub"; combination.depth], vec!["site"]].concat();
        assert_eq!(paused.namespace.iter().map(AsRef::as_ref).collect::<Vec<_>>(), path, "{combination:?}");
        let metadata = paused.descriptor.metadata.clone().unwrap_or_default();
        let member = [metadata["fan_out_index"].clone(), metadata["branch_name"].clone()];
        let expected = match combination.site {
            Site::Node => [Value::Null, Value::Null],
            Site::FanOut => [json!(1), Value::Null],
            Site::Branches => [Value::Null, json!("b")],
        };
        assert_eq!(member, expected, "{combination:?}");
        // Another process goes on, from the record alone.
        let other = combination.graph(&store, &heard);
        let seen = Recorder::default();
        other.attach_observer(seen.clone());
        let id = &paused.identity.invocation_id;
        let ended = other.resume(id, map(json!({"ok": true, "extra": 1})), InvokeOptions::new()).await;
        assert_eq!(completed(ended), combination.ends_with(), "{combination:?}");
        assert_eq!(heard.0.load(Ordering::Relaxed), 0, "{combination:?}");
        other.drain(None).await.unwrap();
        let begun = seen.told().iter().filter(|it| it.contains("started")).count();
        let closed = seen.told().iter().filter(|it| it.contains("completed")).count();
        assert_eq!(begun, closed, "{combination:?}: {:?}", seen.told());
        let again = other.resume(id, map(json!({"ok": true})), InvokeOptions::new()).await.unwrap_err();
        assert_eq!(again.category(), "suspension_record_invalid", "{combination:?}");
    }
}

// spec: pipeline-utilities §10.4; suspension §8.5: the checkpoint from before the pause leads to a pause of its own,
// the one from after its resume to the end.
#[tokio::test]
async fn checkpoints_around_a_pause_lead_where_it_led() {
    for combination in combinations().into_iter().filter(|it| it.saved) {
        let (store, heard) = (MemoryStore::new(), Heard::default());
        let graph = combination.graph(&store, &heard);
        let paused = suspended(graph.invoke(StateUpdate::new(), InvokeOptions::new()).await);
        let id = &paused.identity.invocation_id;
        let recovered = graph.recover(id, InvokeOptions::new()).await;
        let recovered = suspended(recovered).identity.invocation_id;
        assert_ne!(&recovered, id);
        for id in [id, &recovered] {
            let ended = graph.resume(id, map(json!({"ok": true})), InvokeOptions::new()).await;
            assert_eq!(completed(ended), combination.ends_with(), "{combination:?}");
            let saved = Checkpointer::load(&store, &TenantId::single(), id).await.unwrap().unwrap();
            let last = saved.completed_positions.last().unwrap();
            let node = if combination.depth == 0 { "tail" } else { "post" };
            assert_eq!((last.node_name.as_str(), last.namespace.len()), (node, 0), "{combination:?}");
            let again = graph.recover(id, InvokeOptions::new()).await;
            assert_eq!(completed(again), combination.ends_with(), "{combination:?}");
        }
        assert_eq!(heard.0.load(Ordering::Relaxed), 0, "{combination:?}");
    }
}

// spec: suspension §6 (R17): the outermost state and the suspended frame's take the fields that they declare; other
// fields are dropped, also those that only a graph between them declares.
#[tokio::test]
async fn a_payload_reaches_the_frames_that_declare_its_fields() {
    let shows = |names: &'static [&'static str]| {
        move |cx: Ctx<Snapshot>| {
            let told = names.iter().map(|it| format!("{it} {}", number(&cx, it)));
            std::future::ready(NodeResult::<Snapshot>::Ok(update(json!({"log": told.collect::<Vec<_>>()}))))
        }
    };
    let crossing = || Projection::by_name().outputs([("log", "log")]);
    let inner = over([int("inner"), int("both"), log("log")])
        .node("gate", |cx: Ctx<Snapshot>| async move { cx.suspend(Signal::new("s")).await })
        .node("show", shows(&["inner", "both"]));
    let inner = inner.edge("gate", "show").edge("show", END).entry("gate").compile().unwrap();
    let middle = over([int("middle"), log("log")])
        .subgraph("sub", &inner, crossing())
        .node("show", shows(&["middle"]));
    let middle = middle.edge("sub", "show").edge("show", END).entry("sub").compile().unwrap();
    let outer = over([int("outer"), int("both"), log("log")])
        .subgraph("sub", &middle, crossing())
        .node("show", shows(&["outer", "both"]));
    let graph = outer.edge("sub", "show").edge("show", END).entry("sub").compile().unwrap();
    let paused = suspended(graph.invoke(StateUpdate::new(), InvokeOptions::new()).await);
    let payload = json!({"inner": 1, "middle": 2, "outer": 3, "both": 4, "nobody": 5});
    let ended = graph.resume(&paused.identity.invocation_id, map(payload), InvokeOptions::new()).await;
    let log = json!(["inner 1", "both 4", "middle 0", "outer 3", "both 4"]);
    assert_eq!(completed(ended), json!({"outer": 3, "both": 4, "log": log}));
}
