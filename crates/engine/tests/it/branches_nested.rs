//! Branches in fan-outs, fan-outs in branches, subgraphs around both: lineages, observers, progress (graph-engine §6).

use std::sync::Arc;
use std::task::{Context, Waker};

use serde_json::json;
use singletree_engine::{
    Branch, Branches, CursorFrame, END, FanOut, FramePosition, InvokeOptions, LineageBoundary,
    MemberProgress, NodeLineage, Projection, RunMonitor, RunStart, Snapshot, StateUpdate,
};

use crate::branches::{all, call, forking, graph, setting};
use crate::fan_out::{around, each, ints, number, tenfold};
use crate::fan_out_pauses::Memory;
use crate::rig::{Recorder, completed, int, observed, over, run, update};

// spec: graph-engine §6: index and branch name are independent, and both may be there.
#[tokio::test]
async fn a_fan_out_in_a_branch_has_both_names() {
    let fanning = around(each(&tenfold())).compile().unwrap();
    let branches = Branches::new()
        .branch("with", Branch::new().subgraph(&fanning).input("items", "items").output("results", "results"))
        .branch("plain", call(json!({"a": 1})));
    let fields = [ints("items"), ints("results"), int("a")];
    let graph = over(fields).branches("fork", branches).edge("fork", END).entry("fork").compile().unwrap();
    let (outcome, seen) = observed(&graph, json!({"items": [1, 2]})).await;
    assert_eq!(completed(outcome), json!({"items": [1, 2], "results": [10, 20], "a": 1}));
    let started: Vec<_> = seen.told().into_iter().filter(|it| it.contains("started")).collect();
    let expected = [
        "0.0 started fork",
        "1.0 started fork[with]/each",
        "2.0 started fork[plain]/plain",
        "3.0 started fork[with]/each[0]/work",
        "4.0 started fork[with]/each[1]/work",
    ];
    assert_eq!(sorted(&started), sorted(&expected));
    let seen = seen.seen();
    let leaf = seen.iter().find(|it| it["node"] == "work").unwrap();
    assert_eq!(leaf["namespace"], json!(["fork", "each", "work"]));
    assert_eq!(leaf["lineage"], json!([{"branch": "with"}, {"instance": 0}]));
    assert_eq!(leaf["parents"].as_array().unwrap().len(), 2);
    // The configurations are each on their node's own events alone.
    let told = |key: &str| {
        seen.iter().filter(|it| it.get(key).is_some()).map(|it| it["node"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(told("branches"), ["fork", "fork"]);
    assert_eq!(told("fan_out"), ["each", "each"]);
}

/// Without the numbers, which depend on how branches take turns.
fn sorted<T: AsRef<str>>(lines: &[T]) -> Vec<&str> {
    let mut lines: Vec<_> =
        lines.iter().filter_map(|it| it.as_ref().split_once(' ')).map(|(_, it)| it).collect();
    lines.sort_unstable();
    lines
}

// spec: graph-engine §6: the chains tell branches apart whose innermost names are the same.
#[tokio::test]
async fn branches_in_the_instances_of_a_fan_out_are_told_apart() {
    let sum = |cx: singletree_engine::Ctx<Snapshot>| async move {
        Ok(update(json!({"out": number(&cx, "n") + 1})))
    };
    let branches = Branches::new()
        .branch("sum", Branch::new().call(sum))
        .branch("sub", Branch::new().subgraph(&tenfold()).input("n", "n").output("base", "out"));
    let inner =
        over([int("n"), int("base"), int("out")]).branches("fork", branches).edge("fork", END).entry("fork");
    let fan = each(&inner.compile().unwrap()).extra_output("more", "base");
    let (outcome, seen) = observed(&around(fan).compile().unwrap(), json!({"items": [3, 4]})).await;
    let done = completed(outcome);
    assert_eq!((&done["results"], &done["more"]), (&json!([4, 5]), &json!([30, 40])));
    let lineages: Vec<_> = seen
        .seen()
        .into_iter()
        .filter(|it| it["phase"] == "started" && it["namespace"].as_array().unwrap().len() == 3)
        .map(|it| (it["node"].as_str().unwrap().to_owned(), it["lineage"].clone()))
        .collect();
    let of = |node: &str, index: u64, branch: &str| {
        (node.to_owned(), json!([{"instance": index}, {"branch": branch}]))
    };
    let expected = [of("sum", 0, "sum"), of("work", 0, "sub"), of("sum", 1, "sum"), of("work", 1, "sub")];
    assert_eq!(lineages, expected);
}

// A subgraph around branches, branches in branches, and the same node names in several of them.
#[tokio::test]
async fn branches_nest_in_subgraphs_and_in_each_other() {
    let leaf = |value: i64| setting([int("out")], json!({"out": value}));
    let inner = Branches::new()
        .branch("left", Branch::new().subgraph(&leaf(1)).output("a", "out"))
        .branch("right", Branch::new().subgraph(&leaf(2)).output("b", "out"));
    let inner = forking(inner).compile().unwrap();
    let outer = Branches::new()
        .branch("left", Branch::new().subgraph(&inner).output("a", "a").output("b", "b"))
        .branch("right", Branch::new().subgraph(&leaf(3)).output("c", "out"));
    let outer = forking(outer).compile().unwrap();
    let graph = over([int("a"), int("b"), int("c")])
        .subgraph("sub", &outer, Projection::by_name())
        .edge("sub", END)
        .entry("sub")
        .compile()
        .unwrap();
    let (outcome, seen) = observed(&graph, json!({})).await;
    assert_eq!(completed(outcome), json!({"a": 1, "b": 2, "c": 3}));
    let lineages: Vec<_> = seen
        .seen()
        .into_iter()
        .filter(|it| it["phase"] == "started" && it["node"] == "work")
        .map(|it| (it["namespace"].as_array().unwrap().len(), it["lineage"].clone()))
        .collect();
    let branch = |it: &str| json!({"branch": it});
    let expected = [
        (4, json!(["subgraph", branch("left"), branch("left")])),
        (4, json!(["subgraph", branch("left"), branch("right")])),
        (3, json!(["subgraph", branch("right")])),
    ];
    assert_eq!(lineages, expected);
}

// spec: graph-engine §6 (R24): a function's event is the branch's: its name, its path, the parent's state.
#[tokio::test]
async fn a_functions_events_are_those_of_a_node_called_as_the_branch() {
    let (outcome, seen) = observed(
        &forking(
            Branches::new().branch("x", call(json!({"log": ["x"]}))).branch("y", call(json!({"log": ["y"]}))),
        )
        .compile()
        .unwrap(),
        json!({"log": ["w"]}),
    )
    .await;
    completed(outcome);
    let event = seen.seen().into_iter().find(|it| it["node"] == "y" && it["phase"] == "completed").unwrap();
    let expected = json!({
        "by": "", "phase": "completed", "node": "y", "namespace": ["fork", "y"], "step": 2, "attempt": 0,
        "pre": all(json!({"log": ["w"]})),
        // Its own contribution alone: siblings' updates are merged later.
        "post": all(json!({"log": ["w", "y"]})),
        "parents": [all(json!({"log": ["w"]}))],
        "lineage": [{"branch": "y"}],
    });
    assert_eq!(event, expected);
}

// spec: graph-engine §6: observers of a branch's graph see its nodes, after those of the graph around it, which see a
// function's events once.
#[tokio::test]
async fn observers_of_a_branchs_graph_see_its_nodes() {
    let (leaf, seen) = (setting([int("out")], json!({"out": 1})), Recorder::default());
    let branches = Branches::new()
        .branch("graph", Branch::new().subgraph(&leaf).output("a", "out"))
        .branch("call", call(json!({"b": 1})));
    let graph = forking(branches).compile().unwrap();
    leaf.attach_observer(seen.named("inner"));
    graph.attach_observer(seen.named("outer"));
    run(&graph, json!({})).await;
    graph.drain(None).await.unwrap();
    let expected = [
        "outer 0 started fork",
        "outer 1 started fork/work",
        "inner 1 started fork/work",
        "outer 1 completed fork/work",
        "inner 1 completed fork/work",
        "outer 2 started fork/call",
        "outer 2 completed fork/call",
        "outer 0 completed fork",
    ];
    assert_eq!(seen.lines(), expected);
}

// The progress that a checkpoint would read: how far each dispatched branch is.
#[tokio::test]
async fn progress_says_how_far_each_branch_is() {
    let stuck = || |_: singletree_engine::Ctx<Snapshot>| async { std::future::pending().await };
    let inner = over([int("out")]).node("work", stuck()).edge("work", END).entry("work").compile().unwrap();
    let branches = Branches::new()
        .branch("done", graph(5, "a"))
        .branch("skipped", call(json!({})).when(|_| false))
        .branch("graph", Branch::new().subgraph(&inner))
        .branch("call", Branch::new().call(stuck()));
    let compiled = forking(branches).compile().unwrap();
    let watch = RunMonitor::default();
    let start = RunStart::Fresh { initial: StateUpdate::new(), hook: None };
    let mut running =
        Box::pin(compiled.invoke_with_port(Arc::new(Memory::default()), start, InvokeOptions::new(), &watch));
    assert!(running.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let progress = watch.capture_progress().unwrap();
    let container = &progress.containers[0];
    assert_eq!((container.namespace.join("/"), &container.lineage), ("fork".into(), &NodeLineage::default()));
    let frame = |node: &str| vec![CursorFrame { node: node.into(), at: FramePosition::Before, attempt: 0 }];
    let members: Vec<_> = container
        .members
        .iter()
        .map(|(boundary, progress)| {
            let LineageBoundary::Branch(name) = boundary else { panic!("{boundary:?} is a branch") };
            match progress {
                MemberProgress::Contributed(update) => (name.as_ref(), Err(update.clone())),
                MemberProgress::InFlight { frames, .. } => (name.as_ref(), Ok(frames.clone())),
                other => panic!("{other:?}"),
            }
        })
        .collect();
    let done = Err(update(json!({"out": 5})));
    assert_eq!(members, [("done", done), ("graph", Ok(frame("work"))), ("call", Ok(frame("call")))]);
}

// A fan-out and branches in one graph keep their records apart.
#[tokio::test]
async fn a_container_leaves_no_record_behind() {
    let branches = Branches::new().branch("x", graph(2, "base"));
    let fields = [ints("items"), ints("results"), int("base")];
    let graph = over(fields)
        .branches("fork", branches)
        .fan_out(
            "each",
            FanOut::over(&tenfold()).items("items", "n").input("base", "base").collect("out", "results"),
        )
        .edge("fork", "each")
        .edge("each", END)
        .entry("fork")
        .compile()
        .unwrap();
    assert_eq!(run(&graph, json!({"items": [1]})).await, json!({"items": [1], "results": [12], "base": 2}));
}
