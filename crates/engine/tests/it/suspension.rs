//! Suspension: pausing, resuming, payloads (suspension §3–§9).

use std::sync::{Arc, Mutex};

use serde_json::{Map, Value, json};
use singletree_durable::{BoxError, BoxFuture, InvocationId};
use singletree_engine::{
    Ctx, END, Error, FieldShape, FieldSpec, Graph, InvokeOptions, NodeResult, Projection, RunOutcome, Signal,
    Snapshot, StateUpdate, format_error_chain, suspend_invocation,
};

use crate::rig::{
    Builder, Counting, Recorder, completed, field, int, invocation, log, map, over, sets, state, suspended,
    update,
};

fn bool_field(name: &'static str) -> FieldSpec {
    field(name, FieldShape::Bool, json!(false))
}

/// A node that suspends for this signal.
pub(crate) fn waits(
    signal: Signal,
) -> impl Fn(Ctx<Snapshot>) -> BoxFuture<'static, NodeResult<Snapshot>> + Send + Sync {
    move |cx| {
        let signal = signal.clone();
        Box::pin(async move { cx.suspend(signal).await })
    }
}

/// before -> gate (suspends) -> after, all noted in "log".
pub(crate) fn gated(signal: Signal) -> Builder {
    over([bool_field("ok"), int("n"), log("log")])
        .node("before", sets(json!({"log": ["before"]})))
        .node("gate", waits(signal))
        .node("after", sets(json!({"log": ["after"]})))
        .edge("before", "gate")
        .edge("gate", "after")
        .edge("after", END)
        .entry("before")
}

pub(crate) async fn pause(graph: &Graph<Snapshot>) -> InvocationId {
    suspended(graph.invoke(StateUpdate::new(), InvokeOptions::new()).await).identity.invocation_id
}

pub(crate) async fn resume(
    graph: &Graph<Snapshot>,
    id: &InvocationId,
    payload: Value,
) -> Result<RunOutcome<Snapshot>, Error> {
    graph.resume(id, map(payload), InvokeOptions::new()).await
}

// spec: suspension §4, §5
#[tokio::test]
async fn a_pause_tells_who_waits_where_for_what() {
    let metadata = json!({"kind": "review", "deep": [1, {"x": null}]});
    let graph = gated(Signal::new("sig-1").metadata(metadata.clone())).ids(Arc::new(Counting::default()));
    let graph = graph.compile().unwrap();
    let seen = Recorder::default();
    graph.attach_observer(seen.clone());
    let options = InvokeOptions::new().correlation("corr");
    let paused = suspended(graph.invoke(update(json!({"n": 3})), options).await);
    assert_eq!(paused.identity.correlation_id, "corr");
    assert_eq!(state(&paused.state), json!({"ok": false, "n": 3, "log": ["before"]}));
    assert_eq!(
        (paused.node_name.as_ref(), paused.outermost_node_name(), paused.namespace.len()),
        ("gate", "gate", 1)
    );
    assert_eq!(paused.descriptor.signal_id, "sig-1");
    assert_eq!(paused.descriptor.metadata.as_ref(), Some(&metadata));
    graph.drain(None).await.unwrap();
    assert_eq!(
        seen.lines(),
        ["0 started before", "0 completed before", "1 started gate", "1 suspended gate"]
    );
    let last = &seen.seen()[3];
    assert_eq!(last["descriptor"], json!({"signal_id": "sig-1", "metadata": metadata}));
    assert_eq!((&last["post"], &last["error"]), (&Value::Null, &Value::Null));
    // The invocation goes on as itself, whatever the caller would call it.
    let options = InvokeOptions::new().invocation(invocation("other")).correlation("other");
    let done = graph.resume(&paused.identity.invocation_id, Map::new(), options).await.unwrap();
    assert_eq!(done.identity(), &paused.identity);
    graph.drain(None).await.unwrap();
    assert_eq!(seen.lines()[4..], ["2 started after", "2 completed after"]);
}

// spec: suspension §6: a payload overwrites; reducers are not consulted, undeclared fields are dropped.
#[tokio::test]
async fn a_payload_overwrites_fields() {
    let graph = gated(Signal::new("s")).compile().unwrap();
    let id = pause(&graph).await;
    let ended = resume(&graph, &id, json!({"ok": true, "log": ["new"], "extra": 1})).await;
    assert_eq!(completed(ended), json!({"ok": true, "n": 0, "log": ["new", "after"]}));
}

// spec: suspension §3: the node runs again with the payload; its attempt is the same, its step is a new one.
#[tokio::test]
async fn a_node_that_is_not_completed_runs_again() {
    let gate = |cx: Ctx<Snapshot>| async move {
        if cx.state().get("ok").unwrap().to_json()? == json!(true) {
            return Ok(update(json!({"log": ["opened"]})));
        }
        cx.suspend(Signal::new("s").mark_node_completed(false)).await
    };
    let graph = over([bool_field("ok"), log("log")]).node("gate", gate).edge("gate", END).entry("gate");
    let graph = graph.compile().unwrap();
    let seen = Recorder::default();
    graph.attach_observer(seen.clone());
    let id = pause(&graph).await;
    // Still not ok: it suspends again, as often as it likes.
    for _ in 0..2 {
        assert_eq!(suspended(resume(&graph, &id, json!({})).await).identity.invocation_id, id);
    }
    assert_eq!(
        completed(resume(&graph, &id, json!({"ok": true})).await),
        json!({"ok": true, "log": ["opened"]})
    );
    graph.drain(None).await.unwrap();
    let expected: Vec<_> = (0..4)
        .flat_map(|step| {
            [
                format!("{step} started gate"),
                format!("{step} {} gate", if step < 3 { "suspended" } else { "completed" }),
            ]
        })
        .collect();
    assert_eq!(seen.lines(), expected);
    assert!(seen.seen().iter().all(|it| it["attempt"] == 0));
}

// spec: suspension §6, §9: a payload that does not fit is refused, and the record stays suspended.
#[tokio::test]
async fn a_payload_that_does_not_fit_leaves_the_record_suspended() {
    let graph = gated(Signal::new("s")).compile().unwrap();
    let id = pause(&graph).await;
    for payload in [
        json!({"n": "not_an_int"}),
        json!({"ok": 1}),
        json!({"log": [1]}),
        json!({"log": "x"}),
        json!({"n": null}),
    ] {
        let error = resume(&graph, &id, payload).await.unwrap_err();
        assert_eq!(error.category(), "suspension_resume_payload_invalid");
    }
    assert_eq!(completed(resume(&graph, &id, json!({"n": 5})).await)["n"], 5);
}

// spec: suspension §7, §9
#[tokio::test]
async fn only_a_suspended_invocation_can_be_resumed() {
    let graph = gated(Signal::new("s")).compile().unwrap();
    let unknown = resume(&graph, &invocation("unknown"), json!({})).await.unwrap_err();
    assert_eq!(unknown.category(), "suspension_record_invalid");
    let id = pause(&graph).await;
    completed(resume(&graph, &id, json!({})).await);
    let again = resume(&graph, &id, json!({})).await.unwrap_err();
    assert_eq!(again.category(), "suspension_record_invalid");
    assert_eq!(
        again.to_string(),
        format!("invocation '{id}' cannot be resumed: it is not suspended but completed")
    );
    let plain = over([]).node("a", sets(json!({}))).edge("a", END).entry("a").compile().unwrap();
    let done = plain
        .invoke(StateUpdate::new(), InvokeOptions::new())
        .await
        .unwrap()
        .identity()
        .invocation_id
        .clone();
    assert_eq!(resume(&plain, &done, json!({})).await.unwrap_err().category(), "suspension_record_invalid");
}

#[tokio::test]
async fn an_invocation_that_failed_after_its_pause_is_over() {
    let fails = |_| async { Err::<StateUpdate, _>(singletree_engine::NodeError::new("x")) };
    let graph = over([]).node("gate", waits(Signal::new("s"))).node("after", fails).edge("gate", "after");
    let graph = graph.edge("after", END).entry("gate").compile().unwrap();
    let id = pause(&graph).await;
    assert_eq!(resume(&graph, &id, json!({})).await.unwrap_err().category(), "node_exception");
    let again = resume(&graph, &id, json!({})).await.unwrap_err();
    assert!(again.to_string().ends_with("it is not suspended but errored"), "{again}");
}

// INV-7: of two at once, one gets it.
#[tokio::test]
async fn of_two_resumes_at_once_one_wins() {
    let slow = |_| async {
        tokio::task::yield_now().await;
        Ok(StateUpdate::new())
    };
    let graph =
        over([int("n")]).node("gate", waits(Signal::new("s"))).node("after", slow).edge("gate", "after");
    let graph = graph.edge("after", END).entry("gate").compile().unwrap();
    let id = pause(&graph).await;
    let both = tokio::join!(resume(&graph, &id, json!({"n": 1})), resume(&graph, &id, json!({"n": 2})));
    assert_eq!(completed(both.0), json!({"n": 1}));
    assert_eq!(both.1.unwrap_err().category(), "suspension_record_invalid");
}

/// "inner" (suspends, then "tail") inside as many subgraphs as `depth` says; each level has "log" and projects it out.
fn nested(depth: usize, completed: bool) -> Graph<Snapshot> {
    let gate = move |cx: Ctx<Snapshot>| async move {
        if !completed && cx.state().get("ok").unwrap().to_json()? == json!(true) {
            return Ok(update(json!({"log": ["again"]})));
        }
        cx.suspend(Signal::new("s").mark_node_completed(completed)).await
    };
    let inner =
        over([bool_field("ok"), log("log")]).node("head", sets(json!({"log": ["head"]}))).node("gate", gate);
    let inner = inner.node("tail", sets(json!({"log": ["tail"]}))).edge("head", "gate").edge("gate", "tail");
    let mut graph = inner.edge("tail", END).entry("head").compile().unwrap();
    for _ in 0..depth {
        let around = over([bool_field("ok"), log("log")]).node("pre", sets(json!({"log": ["pre"]})));
        let around = around.subgraph("sub", &graph, Projection::by_name().projects_out(["log"]));
        let around =
            around.node("post", sets(json!({"log": ["post"]}))).edge("pre", "sub").edge("sub", "post");
        graph = around.edge("post", END).entry("pre").compile().unwrap();
    }
    graph
}

// spec: suspension §8.1; R15, R17
#[tokio::test]
async fn a_pause_inside_subgraphs_resumes_inside_them() {
    for (depth, completes, expected) in [
        (1, true, json!(["pre", "head", "tail", "post"])),
        (1, false, json!(["pre", "head", "again", "tail", "post"])),
        (2, true, json!(["pre", "pre", "head", "tail", "post", "post"])),
        (2, false, json!(["pre", "pre", "head", "again", "tail", "post", "post"])),
    ] {
        let graph = nested(depth, completes);
        let seen = Recorder::default();
        graph.attach_observer(seen.clone());
        let paused = suspended(graph.invoke(StateUpdate::new(), InvokeOptions::new()).await);
        assert_eq!((paused.node_name.as_ref(), paused.outermost_node_name()), ("gate", "sub"));
        assert_eq!(paused.namespace.len(), depth + 1);
        assert_eq!(state(&paused.state), json!({"ok": false, "log": ["pre"]}));
        graph.drain(None).await.unwrap();
        let before = seen.seen().len();
        // The payload reaches the outermost graph and the one that waits.
        let ended = completed(resume(&graph, &paused.identity.invocation_id, json!({"ok": true})).await);
        assert_eq!(ended, json!({"ok": true, "log": expected}), "{depth} {completes}");
        graph.drain(None).await.unwrap();
        let first = &seen.seen()[before];
        let path = [vec!["sub"; depth], vec![if completes { "tail" } else { "gate" }]].concat();
        assert_eq!((&first["namespace"], &first["pre"]["ok"]), (&json!(path), &json!(true)));
        assert_eq!(first["step"], depth + 2);
        assert_eq!(first["parents"][0], json!({"ok": true, "log": ["pre"]}));
    }
}

// spec: suspension §3: calling it is the node's last act, even when the node does not wait for it.
#[tokio::test]
async fn what_a_node_returns_after_asking_is_void() {
    let impatient = |cx: Ctx<Snapshot>| async move {
        let asking = std::pin::pin!(cx.suspend(Signal::new("s")));
        tokio::select! {
            biased;
            ended = asking => ended,
            () = std::future::ready(()) => Ok(update(json!({"log": ["void"]}))),
        }
    };
    let graph = over([log("log")]).node("gate", impatient).node("after", sets(json!({"log": ["after"]})));
    let graph = graph.edge("gate", "after").edge("after", END).entry("gate").compile().unwrap();
    let paused = suspended(graph.invoke(StateUpdate::new(), InvokeOptions::new()).await);
    assert_eq!((paused.node_name.as_ref(), state(&paused.state)), ("gate", json!({"log": []})));
    assert_eq!(
        completed(resume(&graph, &paused.identity.invocation_id, json!({})).await),
        json!({"log": ["after"]})
    );
}

// A task that outlives its node cannot suspend a node that runs later.
#[tokio::test]
async fn a_task_left_behind_cannot_suspend_a_later_node() {
    let told = Arc::new(Mutex::new(None));
    let tells = told.clone();
    let leaves = move |cx: Ctx<Snapshot>| {
        let tells = tells.clone();
        async move {
            tokio::spawn(async move {
                tokio::task::yield_now().await;
                let error = cx.suspend(Signal::new("late")).await.unwrap_err();
                *tells.lock().unwrap() = error.category().map(str::to_owned);
            });
            Ok(StateUpdate::new())
        }
    };
    let lingers = |_| async {
        for _ in 0..5 {
            tokio::task::yield_now().await;
        }
        Ok(StateUpdate::new())
    };
    let graph = over([]).node("leaves", leaves).node("lingers", lingers).edge("leaves", "lingers");
    let graph = graph.edge("lingers", END).entry("leaves").compile().unwrap();
    completed(graph.invoke(StateUpdate::new(), InvokeOptions::new()).await);
    assert_eq!(told.lock().unwrap().as_deref(), Some("suspension_in_unsupported_context"));
}

#[derive(Clone, Default)]
struct Suspends(Arc<Mutex<Vec<String>>>);

impl singletree_engine::Observer for Suspends {
    fn observe_event<'a>(
        &'a self,
        _: &'a singletree_engine::GraphEvent,
    ) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(async {
            let error = suspend_invocation(Signal::new("s")).await;
            self.0.lock().unwrap().push(error.to_string());
            Ok(())
        })
    }
}

// spec: suspension §3, §9
#[tokio::test]
async fn only_a_nodes_body_can_suspend() {
    let error = suspend_invocation(Signal::new("s")).await;
    assert_eq!(error.category(), Some("suspension_in_unsupported_context"));
    let graph = over([]).node("a", sets(json!({}))).edge("a", END).entry("a").compile().unwrap();
    let tried = Suspends::default();
    graph.attach_observer(tried.clone());
    completed(graph.invoke(StateUpdate::new(), InvokeOptions::new()).await);
    graph.drain(None).await.unwrap();
    let refused = "suspend was called inside an invocation, but not in a node's body";
    assert_eq!(*tried.0.lock().unwrap(), [refused, refused]);
}

#[tokio::test]
async fn a_function_without_the_context_can_suspend_its_node() {
    let ambient = |_| async { Err::<StateUpdate, _>(suspend_invocation(Signal::new("ambient")).await) };
    let graph = over([]).node("a", ambient).edge("a", END).entry("a").compile().unwrap();
    let paused = suspended(graph.invoke(StateUpdate::new(), InvokeOptions::new()).await);
    assert_eq!(paused.descriptor.signal_id, "ambient");
}

// D2: the fields that a deadline sets must be declared, and the values of their types.
#[tokio::test]
async fn a_deadline_sets_only_what_it_can() {
    for (fields, why) in [
        (json!({"ghost": 1}), Some("field 'ghost': is named by on_deadline, but not declared")),
        (json!({"n": "x"}), Some("field 'n': expected int, found a string")),
        (json!({"n": 1, "ok": true}), None),
    ] {
        let graph = gated(Signal::new("s").on_deadline(map(fields))).compile().unwrap();
        match (graph.invoke(StateUpdate::new(), InvokeOptions::new()).await, why) {
            (Ok(RunOutcome::Suspended(_)), None) => {}
            (Err(error), Some(why)) => {
                assert_eq!(error.derived_category(), "suspension_resume_payload_invalid");
                assert!(format_error_chain(&error).contains(why), "{}", format_error_chain(&error));
            }
            (found, _) => panic!("{found:?}"),
        }
    }
}

// spec: suspension §8.1: the edge of a completed suspending node sees the payload.
#[tokio::test]
async fn a_conditional_edge_decides_on_the_answer() {
    let choose =
        |it: &Snapshot| if it.get("ok").unwrap().to_json().unwrap() == json!(true) { "yes" } else { "no" };
    let build = over([bool_field("ok"), log("log")]).node("gate", waits(Signal::new("s")));
    let build = build.node("yes", sets(json!({"log": ["yes"]}))).node("no", sets(json!({"log": ["no"]})));
    let graph = build.conditional_edge("gate", choose).edge("yes", END).edge("no", END).entry("gate");
    let graph = graph.compile().unwrap();
    for (ok, word) in [(true, "yes"), (false, "no")] {
        let id = pause(&graph).await;
        assert_eq!(completed(resume(&graph, &id, json!({"ok": ok})).await)["log"], json!([word]));
    }
}
