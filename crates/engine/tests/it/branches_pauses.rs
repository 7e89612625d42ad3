//! Suspending inside branches (suspension §8.3), cancelling them, and the records that a crash inside of one leaves
//! (D7).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::json;
use singletree_durable::BoxFuture;
use singletree_engine::{
    Branch, Branches, Ctx, END, ErrorPolicy, FailureIsolation, FanOut, InvokeOptions, Item, NodeResult,
    Projection, Retry, RunMonitor, RunOutcome, RunStart, Signal, Snapshot, StateUpdate, suspend_invocation,
};

use crate::branches::{all, call, forking, graph};
use crate::fan_out::{ints, number};
use crate::fan_out_pauses::{Memory, pause};
use crate::rig::{Recorder, completed, int, map, observed, over, run, state, update};

/// Suspends unless `c` says that it was answered.
async fn ask(cx: Ctx<Snapshot>, completed: bool) -> NodeResult<Snapshot> {
    if number(&cx, "c") == 0 {
        let signal = Signal::new("go").with("kind", "approval").mark_node_completed(completed);
        return cx.suspend(signal).await;
    }
    Ok(update(json!({"b": 10 * number(&cx, "c")})))
}

/// A branch that asks, as a function or as a graph.
fn asking(completed: bool, function: bool) -> Branch<Snapshot> {
    if function {
        return Branch::new().call(move |cx| ask(cx, completed));
    }
    let inner = over([int("c"), int("b")]).node("work", move |cx| ask(cx, completed)).edge("work", END);
    Branch::new().subgraph(&inner.entry("work").compile().unwrap()).input("c", "c").output("b", "b")
}

/// Branches around one that asks.
fn around_asking(branch: Branch<Snapshot>) -> Branches<Snapshot> {
    Branches::new()
        .branch("first", graph(1, "a"))
        .branch("ask", branch)
        .branch("last", call(json!({"log": ["last"]})))
}

// spec: suspension §8.3: the node suspends; contributions made so far count (R18), the rest is cancelled.
#[tokio::test]
async fn a_branch_that_suspends_suspends_the_node() {
    for (function, leaf) in [(true, "ask"), (false, "work")] {
        let graph = forking(around_asking(asking(true, function))).compile().unwrap();
        let (paused, seen) = pause(&graph, json!({"log": ["before"]})).await;
        let descriptor = json!({"signal_id": "go", "metadata": {"kind": "approval", "branch_name": "ask"}});
        assert_eq!(serde_json::to_value(&paused.descriptor).unwrap(), descriptor);
        assert_eq!((paused.node_name.as_ref(), paused.namespace.join("/")), ("fork", "fork".into()));
        let told = [
            "0.0 started fork".to_owned(),
            "1.0 started fork[first]/work".into(),
            "1.0 completed fork[first]/work ok".into(),
            format!("2.0 started fork[ask]/{leaf}"),
            format!("2.0 suspended fork[ask]/{leaf}"),
            "0.0 suspended fork".into(),
        ];
        assert_eq!(seen.told(), told);
        let seen = seen.seen();
        assert_eq!(seen[4]["descriptor"]["metadata"], json!({"kind": "approval"}));
        assert_eq!((&seen[5]["descriptor"], &seen[5]["branches"]["branch_count"]), (&descriptor, &json!(3)));
        let resumed =
            graph.resume(&paused.identity.invocation_id, map(json!({"c": 4})), InvokeOptions::new()).await;
        assert_eq!(completed(resumed), all(json!({"a": 1, "c": 4, "log": ["before"]})));
    }
}

// spec: suspension §8.3: without the mark all branches start anew, conditions included, with the payload.
#[tokio::test]
async fn branches_that_are_not_marked_completed_run_again() {
    for function in [true, false] {
        let asking = asking(false, function).when(|state| state.get("a").unwrap().to_json().unwrap() == 0);
        let graph = forking(around_asking(asking)).compile().unwrap();
        let (paused, _) = pause(&graph, json!({})).await;
        let id = &paused.identity.invocation_id;
        let seen = Recorder::default();
        let options = InvokeOptions::new().observer(seen.clone());
        let resumed = graph.resume(id, map(json!({"c": 4})), options).await;
        assert_eq!(completed(resumed), all(json!({"a": 1, "b": 40, "c": 4, "log": ["last"]})));
        graph.drain(None).await.unwrap();
        assert_eq!(seen.told()[..2], ["3.0 started fork", "4.0 started fork[first]/work"]);
        assert_eq!(seen.told().len(), 8);

        let (paused, _) = pause(&graph, json!({})).await;
        let id = &paused.identity.invocation_id;
        let resumed = graph.resume(id, map(json!({"a": 7})), InvokeOptions::new()).await;
        assert_eq!(completed(resumed), all(json!({"a": 1, "log": ["last"]})));
    }
}

// spec: suspension §§8.1, 8.3: inside a subgraph, the node in it suspends; the subgraph is gone on with inside.
#[tokio::test]
async fn branches_in_a_subgraph_are_gone_on_with_inside_of_it() {
    let inner = forking(around_asking(asking(false, true))).compile().unwrap();
    let graph = over([int("a"), int("b"), int("c")])
        .subgraph("sub", &inner, Projection::by_name().inputs([("c", "c")]))
        .edge("sub", END)
        .entry("sub")
        .middleware(Retry::new())
        .compile()
        .unwrap();
    let (paused, _) = pause(&graph, json!({})).await;
    assert_eq!((paused.namespace.join("/"), paused.outermost_node_name()), ("sub/fork".into(), "sub"));
    let resumed =
        graph.resume(&paused.identity.invocation_id, map(json!({"c": 2})), InvokeOptions::new()).await;
    assert_eq!(completed(resumed), json!({"a": 1, "b": 20, "c": 2}));
}

// spec: suspension §§8.2, 8.3: of nested containers the outermost suspends, and says all names on the way.
#[tokio::test]
async fn of_nested_containers_the_outermost_suspends() {
    let inner = forking(around_asking(asking(true, true))).compile().unwrap();
    let fan = FanOut::over(&inner).items("items", "map").collect("a", "results");
    let items = crate::rig::field("items", singletree_engine::FieldShape::Any.list(), json!([]));
    let mid = over([items, ints("results")])
        .fan_out("each", fan)
        .edge("each", END)
        .entry("each")
        .compile()
        .unwrap();
    let items = crate::rig::field("items", singletree_engine::FieldShape::Any.list(), json!([{}, {}]));
    let branches = Branches::new()
        .branch("plain", call(json!({"n": 3})))
        .branch("fan", Branch::new().subgraph(&mid).input("items", "items").output("results", "results"));
    let graph = over([items, ints("results"), int("n")])
        .branches("outer", branches)
        .edge("outer", END)
        .entry("outer");
    let (paused, seen) = pause(&graph.compile().unwrap(), json!({})).await;
    let metadata = json!({
        "kind": "approval", "fan_out_index": 0, "branch_name": "ask", "branch_name_chain": ["fan", "ask"],
    });
    assert_eq!((paused.node_name.as_ref(), paused.descriptor.metadata), ("outer", Some(metadata.clone())));
    assert_eq!(state(&paused.state)["n"], 3);
    let told: Vec<_> = seen.told().into_iter().filter(|it| it.contains("suspended")).collect();
    let paths: Vec<_> = told.iter().map(|it| it.rsplit(' ').next().unwrap()).collect();
    assert_eq!(
        paths,
        ["outer[fan]/each[0]/fork[ask]/ask", "outer[fan]/each[0]/fork", "outer[fan]/each", "outer"]
    );
    let seen = seen.seen();
    let told = |back: usize| seen[seen.len() - back]["descriptor"]["metadata"].clone();
    let at = |index: bool| match index {
        true => json!({"kind": "approval", "branch_name": "ask", "fan_out_index": 0}),
        false => json!({"kind": "approval", "branch_name": "ask"}),
    };
    assert_eq!([told(3), told(2), told(1)], [at(false), at(true), metadata]);
}

// spec: suspension §§8.3, 9; R28: under collect a branch cannot suspend, and nobody makes that a success.
#[tokio::test]
async fn a_branch_of_a_collecting_node_cannot_suspend() {
    for (function, leaf) in [(true, "ask"), (false, "work")] {
        let isolate = || FailureIsolation::new("never", StateUpdate::new());
        let branches = around_asking(asking(true, function).middleware(isolate()))
            .error_policy(ErrorPolicy::Collect)
            .errors_field("errors");
        let graph = forking(branches).middleware(isolate()).compile().unwrap();
        let (outcome, seen) = observed(&graph, json!({})).await;
        assert_eq!(outcome.unwrap_err().category(), "suspension_in_unsupported_context");
        let told = seen.told();
        let ends = [
            format!("2.0 completed fork[ask]/{leaf} suspension_in_unsupported_context"),
            "0.0 completed fork suspension_in_unsupported_context".into(),
        ];
        assert_eq!(told[told.len() - 2..], ends);
        assert!(!told.iter().any(|it| it.contains("isolated") || it.contains("last")), "{told:?}");
    }
}

// spec: suspension §8.4: a pause is nothing that a branch's middleware could count, catch or see the end of.
#[tokio::test]
async fn a_pause_passes_the_middleware_of_its_branch() {
    for function in [true, false] {
        let notes: Arc<Mutex<Vec<&str>>> = Arc::default();
        let note = notes.clone();
        let around =
            singletree_engine::around(move |state: Arc<Snapshot>, mut next: singletree_engine::Next<'_>| {
                let note = note.clone();
                Box::pin(async move {
                    note.lock().unwrap().push("in");
                    let returned = next.run(&state).await;
                    note.lock().unwrap().push("out");
                    returned
                })
            });
        let branch = asking(true, function)
            .middleware(FailureIsolation::new("never", StateUpdate::new()))
            .middleware(Retry::new())
            .middleware(around);
        let (paused, seen) = pause(&forking(around_asking(branch)).compile().unwrap(), json!({})).await;
        assert_eq!((paused.node_name.as_ref(), &notes.lock().unwrap()[..]), ("fork", &["in"][..]));
        assert_eq!(seen.told().len(), 6);
    }
}

// spec: suspension §9: neither can the middleware of a branch.
#[tokio::test]
async fn the_middleware_of_a_branch_cannot_suspend() {
    let asks = || {
        singletree_engine::around(|_: Arc<Snapshot>, _: singletree_engine::Next<'_>| {
            Box::pin(async { Err(suspend_invocation(Signal::new("go")).await) })
        })
    };
    for branch in [graph(1, "a"), call(json!({"a": 1}))] {
        let branches = Branches::new().branch("x", branch.middleware(asks()));
        let (outcome, seen) = observed(&forking(branches).compile().unwrap(), json!({})).await;
        assert_eq!(outcome.unwrap_err().category(), "suspension_in_unsupported_context");
        let told = ["0.0 started fork", "0.0 completed fork suspension_in_unsupported_context"];
        assert_eq!(seen.told(), told);
    }
}

// A pause that cannot be recorded is the branch's to handle, and the siblings go on.
#[tokio::test]
async fn a_refused_pause_goes_on_with_all_branches() {
    let work = |cx: Ctx<Snapshot>| async move {
        let refused = Signal::new("go").on_deadline(map(json!({"nowhere": 1})));
        let error = cx.suspend(refused).await.expect_err("a deadline sets declared fields");
        assert_eq!(error.category(), Some("suspension_resume_payload_invalid"));
        Ok(update(json!({"b": -1})))
    };
    let compiled = forking(around_asking(Branch::new().call(work))).compile().unwrap();
    assert_eq!(run(&compiled, json!({})).await, all(json!({"a": 1, "b": -1, "log": ["last"]})));
}

// Dropping the run drops every branch where it is.
#[tokio::test]
async fn cancelling_the_run_cancels_its_branches() {
    struct Dropped(Arc<Mutex<u32>>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            *self.0.lock().unwrap() += 1;
        }
    }
    let dropped: Arc<Mutex<u32>> = Arc::default();
    let stuck = || {
        let dropped = dropped.clone();
        move |_: Ctx<Snapshot>| {
            let mark = Dropped(dropped.clone());
            async move {
                std::future::pending::<()>().await;
                drop(mark);
                Ok(StateUpdate::new())
            }
        }
    };
    let inner = over([int("x")]).node("work", stuck()).edge("work", END).entry("work").compile().unwrap();
    let branches = Branches::new()
        .branch("x", Branch::new().call(stuck()))
        .branch("y", Branch::new().subgraph(&inner))
        .branch("z", Branch::new().call(stuck()).middleware(Retry::new()));
    let graph = forking(branches).compile().unwrap();
    let running = graph.invoke(StateUpdate::new(), InvokeOptions::new());
    assert!(tokio::time::timeout(std::time::Duration::from_millis(20), running).await.is_err());
    assert_eq!(*dropped.lock().unwrap(), 3);
}

// D7; spec: pipeline-utilities §11.9: after a crash all branches run again, and each finds its own facts.
#[tokio::test]
async fn after_a_crash_each_branch_finds_its_facts() {
    fn working(
        stuck: bool,
        fact: u64,
    ) -> impl Fn(Ctx<Snapshot>) -> BoxFuture<'static, NodeResult<Snapshot>> + Send + Sync {
        move |cx: Ctx<Snapshot>| {
            Box::pin(async move {
                if cx.is_recovering() {
                    let known = BTreeMap::from([("done".to_owned(), Item::from_json(fact.into()))]);
                    assert_eq!(cx.records(), if stuck { BTreeMap::new() } else { known });
                    return Ok(update(json!({"a": fact})));
                }
                if stuck {
                    std::future::pending::<()>().await;
                }
                cx.record("done", Item::from_json(fact.into())).await?;
                Ok(update(json!({"a": fact})))
            })
        }
    }
    let inner =
        over([int("a")]).node("work", working(false, 1)).edge("work", END).entry("work").compile().unwrap();
    let branches = Branches::new()
        .branch("graph", Branch::new().subgraph(&inner).output("b", "a"))
        .branch("call", Branch::new().call(working(false, 2)))
        .branch("stuck", Branch::new().call(working(true, 3)));
    let graph = over([int("a"), int("b")])
        .node("first", |_: Ctx<Snapshot>| async { Ok(StateUpdate::new()) })
        .branches("fork", branches)
        .edge("first", "fork")
        .edge("fork", END)
        .entry("first")
        .compile()
        .unwrap();
    let (port, watch) = (Arc::new(Memory::default()), RunMonitor::default());
    let start = RunStart::Fresh { initial: StateUpdate::new(), hook: None };
    let running = graph.invoke_with_port(port.clone(), start, InvokeOptions::new(), &watch);
    assert!(tokio::time::timeout(std::time::Duration::from_millis(20), running).await.is_err());
    let facts = port.facts.lock().unwrap().clone();
    assert_eq!(facts.keys().collect::<Vec<_>>(), ["fork[call]/call#0:done", "fork[graph]/work#0:done"]);
    port.recall(facts);
    let outcome = graph
        .invoke_with_port(port, RunStart::Recover, InvokeOptions::new(), &RunMonitor::default())
        .await
        .unwrap();
    let RunOutcome::Completed(done) = outcome else { panic!("it completes") };
    assert_eq!(state(&done.state), json!({"a": 3, "b": 1}));
}
