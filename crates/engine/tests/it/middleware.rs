//! Middleware: chains, their order and places, their permitted actions (pipeline-utilities §§2–5).

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use singletree_durable::BoxFuture;
use singletree_engine::{
    Ctx, END, Error, GraphProblem, GraphProblemKind, Middleware, MiddlewareSite, Next, NodeError, NodeResult,
    Projection, Signal, Snapshot, StateUpdate, around, suspend_invocation,
};

use crate::rig::{
    Builder, Recorder, completed, described, fail, flaky, int, log, map, observed, over, run, sets,
    suspended, update,
};

/// Puts a marker before and after whatever the update has in `log`.
struct Marks(&'static str);

impl Middleware for Marks {
    fn call<'a>(
        &'a self,
        state: &'a Snapshot,
        mut next: Next<'a>,
    ) -> BoxFuture<'a, Result<StateUpdate, NodeError>> {
        Box::pin(async move {
            let inner = next.run(state).await?;
            let mut log = vec![json!(format!("{}.in", self.0))];
            let mut rest = StateUpdate::new();
            for (name, slot) in inner.iter_entries() {
                match slot.as_list() {
                    Some(list) => log.extend(list.iter().map(|it| it.json().unwrap().clone())),
                    None => rest = rest.with(name.to_owned(), slot.clone()),
                }
            }
            log.push(json!(format!("{}.out", self.0)));
            Ok(rest.with_json("log", log.into()))
        })
    }
}

fn one(
    body: impl Fn(Ctx<Snapshot>) -> std::future::Ready<NodeResult<Snapshot>> + Send + Sync + 'static,
) -> Builder {
    over([int("v"), log("log")]).node("a", body).edge("a", END).entry("a")
}

// spec: pipeline-utilities §§2, 3: outermost first, the graph's outside of the node's.
#[tokio::test]
async fn chains_run_outside_in_and_back() {
    let graph = one(sets(json!({"log": ["a"]})))
        .node_middleware("a", Marks("n1"))
        .middleware(Marks("g1"))
        .node_middleware("a", Marks("n2"))
        .middleware(Marks("g2"))
        .compile()
        .unwrap();
    let expected = ["g1.in", "g2.in", "n1.in", "n2.in", "a", "n2.out", "n1.out", "g2.out", "g1.out"];
    assert_eq!(run(&graph, json!({})).await["log"], json!(expected));
}

// spec: pipeline-utilities §4: a parent's middleware sees a subgraph once, a child's sees its own nodes only.
#[tokio::test]
async fn middleware_does_not_cross_a_subgraphs_boundary() {
    let inner = over([log("log")])
        .node("x", sets(json!({"log": ["x"]})))
        .node("y", sets(json!({"log": ["y"]})))
        .edge("x", "y")
        .edge("y", END)
        .entry("x")
        .middleware(Marks("in"))
        .compile()
        .unwrap();
    let graph = over([log("log")])
        .node("a", sets(json!({"log": ["a"]})))
        .subgraph("s", &inner, Projection::by_name())
        .edge("a", "s")
        .edge("s", END)
        .entry("a")
        .middleware(Marks("out"))
        .compile()
        .unwrap();
    let expected =
        ["out.in", "a", "out.out", "out.in", "in.in", "x", "in.out", "in.in", "y", "in.out", "out.out"];
    assert_eq!(run(&graph, json!({})).await["log"], json!(expected));
}

// spec: pipeline-utilities §2: a state handed inwards is not the state that the update is merged into.
#[tokio::test]
async fn a_state_handed_inwards_is_seen_by_the_node_and_its_events_alone() {
    let doubled = |cx: Ctx<Snapshot>| {
        let v = cx.snapshot().get("v").unwrap().to_json().unwrap();
        std::future::ready(Ok(update(json!({"log": [v.to_string()]}))))
    };
    let shift = around(|state: Arc<Snapshot>, mut next| {
        Box::pin(async move { next.run(&state.with_replaced_fields(update(json!({"v": 7})))?).await })
    });
    let graph = one(doubled).node_middleware("a", shift).compile().unwrap();
    let (outcome, seen) = observed(&graph, json!({"v": 1})).await;
    assert_eq!(completed(outcome), json!({"v": 1, "log": ["7"]}));
    let seen = seen.seen();
    assert_eq!([&seen[0]["pre"]["v"], &seen[1]["pre"]["v"], &seen[1]["post"]["v"]], [7, 7, 1]);
}

// spec: pipeline-utilities §2: no call of next, no body, no events; the update counts.
#[tokio::test]
async fn a_short_circuit_skips_the_node_and_merges_its_own_update() {
    let short = || around(|_: Arc<Snapshot>, _| Box::pin(async { Ok(update(json!({"log": ["short"]}))) }));
    let graph = one(sets(json!({"log": ["a"]}))).node_middleware("a", short()).compile().unwrap();
    let (outcome, seen) = observed(&graph, json!({})).await;
    assert_eq!(completed(outcome), json!({"v": 0, "log": ["short"]}));
    assert_eq!(seen.told(), [""; 0]);

    // A cycle of subgraphs that are never entered has a bound all the same.
    let inner = one(sets(json!({}))).compile().unwrap();
    let limits = singletree_engine::Limits { steps: 5, ..Default::default() };
    let graph = over([log("log")])
        .subgraph("s", &inner, Projection::by_name())
        .node_middleware("s", short())
        .edge("s", "s")
        .entry("s")
        .limits(limits)
        .compile()
        .unwrap();
    assert_eq!(fail(&graph, json!({})).await.category(), "invocation_limit_exceeded");
}

// spec: pipeline-utilities §5: a recovered failure is told as the success that it became (R5).
#[tokio::test]
async fn a_recovered_failure_is_told_as_what_it_became() {
    let recover = around(|state: Arc<Snapshot>, mut next| {
        Box::pin(async move { Ok(next.run(&state).await.unwrap_or_else(|_| update(json!({"v": 9})))) })
    });
    let graph = one(flaky("x", 1, json!({}))).node_middleware("a", recover).compile().unwrap();
    let (outcome, seen) = observed(&graph, json!({})).await;
    assert_eq!(completed(outcome), json!({"v": 9, "log": []}));
    assert_eq!(seen.told(), ["0.0 started a", "0.0 completed a ok"]);
}

// spec: pipeline-utilities §5: an error of a middleware is the node's; the state before the merge is recoverable.
#[tokio::test]
async fn what_a_middleware_fails_with_is_the_nodes_failure() {
    type Call = fn(&'static str) -> Result<(), NodeError>;
    let cases: [(Call, &str, &str); 2] = [
        (|what| Err(NodeError::new(what).with_category("open")), "open", "node 'a' failed: circuit"),
        (|what| panic!("{what}"), "node_exception", "node 'a' failed: panicked: circuit"),
    ];
    for (call, derived, message) in cases {
        let breaks = move || {
            around(move |state: Arc<Snapshot>, mut next: Next<'_>| {
                Box::pin(async move {
                    let update = next.run(&state).await?;
                    call("circuit")?;
                    Ok(update)
                })
            })
        };
        let graph = one(sets(json!({"v": 1}))).node_middleware("a", breaks()).compile().unwrap();
        let (outcome, seen) = observed(&graph, json!({})).await;
        let error = outcome.unwrap_err();
        let expected = ("node_exception", Some("a".into()), Some(json!({"v": 0, "log": []})));
        assert_eq!(described(&error), expected);
        assert_eq!(
            (error.derived_category(), singletree_engine::format_error_chain(&error).as_str()),
            (derived, message)
        );
        assert_eq!(seen.told(), ["0.0 started a", "0.0 completed a node_exception"]);
    }
}

// spec: pipeline-utilities §5; R5: each call of next is an attempt with a pair of events, told when it is dealt with.
#[tokio::test]
async fn each_call_of_next_is_an_attempt() {
    let twice = around(|state: Arc<Snapshot>, mut next: Next<'_>| {
        Box::pin(async move {
            let first = next.run(&state).await;
            drop(first);
            next.run(&state).await
        })
    });
    // A failure first: it is told as a failure once it is called again.
    let graph = one(flaky("x", 1, json!({"v": 5}))).node_middleware("a", twice).compile().unwrap();
    let (outcome, seen) = observed(&graph, json!({})).await;
    assert_eq!(completed(outcome)["v"], 5);
    let pairs = ["0.0 started a", "0.0 completed a node_exception", "0.1 started a", "0.1 completed a ok"];
    assert_eq!(seen.told(), pairs);

    // A success first: its event has the graph's state with the update merged, not the state handed inwards.
    let twice = around(|state: Arc<Snapshot>, mut next: Next<'_>| {
        Box::pin(async move {
            let inward = state.with_replaced_fields(update(json!({"v": 7})))?;
            drop(next.run(&inward).await);
            drop(next.run(&inward).await);
            Ok(update(json!({"v": 3})))
        })
    });
    let graph = one(sets(json!({"log": ["a"]}))).node_middleware("a", twice).compile().unwrap();
    let (outcome, seen) = observed(&graph, json!({"v": 1})).await;
    assert_eq!(completed(outcome), json!({"v": 3, "log": []}));
    let posts: Vec<_> = seen.seen().iter().filter_map(|it| it.get("post").cloned()).collect();
    assert_eq!(posts, [json!({"v": 1, "log": ["a"]}), json!({"v": 3, "log": []})]);
}

// A time limit drops the inner part of the chain: its attempt is reported once, when the chain ends or tries again.
#[tokio::test(start_paused = true)]
async fn an_attempt_that_is_given_up_is_told_once() {
    let limit = |again: bool| {
        around(move |state: Arc<Snapshot>, mut next: Next<'_>| {
            Box::pin(async move {
                let limit = Duration::from_secs(1);
                match tokio::time::timeout(limit, next.run(&state)).await {
                    Ok(returned) => returned,
                    Err(_) if again => Ok(tokio::time::timeout(limit, next.run(&state)).await??),
                    Err(late) => Err(late.into()),
                }
            })
        })
    };
    let slow = |cx: Ctx<Snapshot>| async move {
        if cx.attempt_index() == 0 {
            std::future::pending::<()>().await;
        }
        Ok(update(json!({"v": 1})))
    };
    let graph = |again| {
        let builder = over([int("v")]).node("a", slow).edge("a", END).entry("a");
        builder.node_middleware("a", limit(again)).compile().unwrap()
    };
    let (outcome, seen) = observed(&graph(false), json!({})).await;
    assert_eq!(outcome.unwrap_err().category(), "node_exception");
    assert_eq!(seen.told(), ["0.0 started a", "0.0 completed a node_exception"]);
    let (outcome, seen) = observed(&graph(true), json!({})).await;
    assert_eq!(completed(outcome), json!({"v": 1}));
    let pairs = ["0.0 started a", "0.0 completed a node_exception", "0.1 started a", "0.1 completed a ok"];
    assert_eq!(seen.told(), pairs);
}

// spec: graph-engine §3: merge and edge are outside of the chain, and their failure is the attempt's.
#[tokio::test]
async fn no_middleware_catches_what_merge_and_edge_fail_with() {
    let graph = one(sets(json!({"v": "no number"}))).node_middleware("a", recovering()).compile().unwrap();
    let (outcome, seen) = observed(&graph, json!({})).await;
    assert_eq!(outcome.unwrap_err().category(), "state_validation_error");
    assert_eq!(seen.told(), ["0.0 started a", "0.0 completed a state_validation_error"]);

    let builder = over([int("v")]).node("a", sets(json!({"v": 2}))).entry("a");
    let edge = |_: &Snapshot| Err::<&str, _>("lost");
    let graph = builder.conditional_edge("a", edge).node_middleware("a", recovering()).compile().unwrap();
    let error = fail(&graph, json!({})).await;
    assert_eq!(described(&error), ("edge_exception", Some("a".into()), Some(json!({"v": 2}))));
}

fn recovering() -> impl Middleware {
    around(|state: Arc<Snapshot>, mut next: Next<'_>| {
        Box::pin(async move { Ok(next.run(&state).await.unwrap_or_default()) })
    })
}

// spec: pipeline-utilities §4; graph-engine §4: the inner node's failure leaves a subgraph's chain as it came.
#[tokio::test]
async fn a_failure_inside_a_subgraph_passes_its_chain_unchanged() {
    let inner = one(flaky("provider_unavailable", 9, json!({}))).compile().unwrap();
    let outer = || {
        let builder = over([int("v"), log("log")]).subgraph("s", &inner, Projection::by_name());
        builder.edge("s", END).entry("s")
    };
    let graph = outer().middleware(Marks("m")).compile().unwrap();
    let error = fail(&graph, json!({"v": 4})).await;
    assert_eq!(described(&error), ("node_exception", Some("a".into()), Some(json!({"v": 0, "log": []}))));
    assert_eq!(error.derived_category(), "provider_unavailable");
    // An error that a middleware makes of it is the subgraph node's.
    let wraps = around(|state: Arc<Snapshot>, mut next: Next<'_>| {
        Box::pin(async move {
            next.run(&state).await.map_err(|it| NodeError::new("inside").with_category("mine").caused_by(it))
        })
    });
    let error = fail(&outer().middleware(wraps).compile().unwrap(), json!({"v": 4})).await;
    assert_eq!(described(&error), ("node_exception", Some("s".into()), Some(json!({"v": 4, "log": []}))));
    assert_eq!(error.derived_category(), "mine");
}

// spec: suspension §8.4: the code before the call of next has run, the code after it never does.
#[tokio::test]
async fn a_pause_drops_the_chain_where_it_stands() {
    let book = Recorder::default();
    let notes: Arc<std::sync::Mutex<Vec<&str>>> = Arc::default();
    let writes = notes.clone();
    let wraps = around(move |state: Arc<Snapshot>, mut next: Next<'_>| {
        let writes = writes.clone();
        Box::pin(async move {
            writes.lock().unwrap().push("before");
            let returned = next.run(&state).await;
            writes.lock().unwrap().push("after");
            Ok(returned.unwrap_or_default())
        })
    });
    let waits = |cx: Ctx<Snapshot>| async move { cx.suspend(Signal::new("go")).await };
    let graph = over([int("v")])
        .node("a", waits)
        .edge("a", END)
        .entry("a")
        .middleware(wraps)
        .middleware(singletree_engine::Retry::new())
        .middleware(singletree_engine::FailureIsolation::new("never", StateUpdate::new()))
        .compile()
        .unwrap();
    graph.attach_observer(book.clone());
    let paused = suspended(graph.invoke(StateUpdate::new(), Default::default()).await);
    assert_eq!(*notes.lock().unwrap(), ["before"]);
    // Gone on with after the node: its chain is over (suspension §3).
    let resumed =
        graph.resume(&paused.identity.invocation_id, map(json!({"v": 3})), Default::default()).await;
    assert_eq!(completed(resumed), json!({"v": 3}));
    assert_eq!(*notes.lock().unwrap(), ["before"]);
    graph.drain(None).await.unwrap();
    assert_eq!(book.told(), ["0.0 started a", "0.0 suspended a"]);
}

// spec: suspension §§3, 8.4, 9: a middleware cannot suspend, and nobody between it and the caller can make it undone.
#[tokio::test]
async fn a_middleware_that_suspends_ends_the_invocation() {
    for after in [false, true] {
        let asks = around(move |state: Arc<Snapshot>, mut next: Next<'_>| {
            Box::pin(async move {
                if after {
                    drop(next.run(&state).await);
                }
                drop(suspend_invocation(Signal::new("no")).await);
                next.run(&state).await
            })
        });
        let graph = one(sets(json!({"v": 1})))
            .middleware(recovering())
            .middleware(singletree_engine::FailureIsolation::new("never", StateUpdate::new()))
            .middleware(asks)
            .compile()
            .unwrap();
        let (outcome, seen) = observed(&graph, json!({})).await;
        let error = outcome.unwrap_err();
        assert_eq!(error.category(), "suspension_in_unsupported_context");
        let told = ["0.0 started a", "0.0 completed a suspension_in_unsupported_context"];
        assert_eq!(seen.told(), if after { &told[..] } else { &[] });
    }
}

/// A middleware that stands nowhere.
struct Nowhere;

impl Middleware for Nowhere {
    fn call<'a>(
        &'a self,
        state: &'a Snapshot,
        mut next: Next<'a>,
    ) -> BoxFuture<'a, Result<StateUpdate, NodeError>> {
        Box::pin(async move { next.run(state).await })
    }

    fn bind_to_site(&self, site: &MiddlewareSite<'_>) -> Result<Option<Arc<dyn Middleware>>, GraphProblem> {
        let message = format!("not at {}", site.surrounded_name());
        Err(GraphProblem { kind: GraphProblemKind::InvalidDeclaration, message })
    }
}

#[test]
fn middleware_that_stands_where_it_cannot_does_not_compile() {
    let graph = one(sets(json!({}))).middleware(Nowhere).node_middleware("b", Marks("m"));
    let Err(Error::Compile { problems }) = graph.compile() else { panic!("it does not compile") };
    let told: Vec<_> = problems.iter().map(|it| (it.kind, it.message.as_str())).collect();
    let expected = [
        (GraphProblemKind::InvalidDeclaration, "a middleware stands around node 'b', which is not declared"),
        (GraphProblemKind::InvalidDeclaration, "not at a"),
    ];
    assert_eq!(told, expected);
}
