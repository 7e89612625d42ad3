//! Fan-outs in fan-outs and subgraphs: lineages and observers (graph-engine §6).

use std::sync::Arc;
use std::task::{Context, Waker};

use serde_json::json;
use singletree_engine::{
    Ctx, CursorFrame, END, ErrorPolicy, FanOut, FieldShape, FramePosition, Graph, InvokeOptions, Item,
    LineageBoundary, MemberProgress, NodeLineage, Projection, Reducer, RunMonitor, RunStart, Snapshot,
    StateUpdate,
};

use crate::fan_out::{around, each, ints, number, tenfold};
use crate::fan_out_pauses::Memory;
use crate::rig::{Recorder, completed, field, int, observed, over, run, state, update};

/// A graph whose items are lists, each worked on by a fan-out of its own.
fn nested(leaf: &Graph<Snapshot>) -> Graph<Snapshot> {
    let inner = FanOut::over(leaf).items("part", "n").collect("out", "outs");
    let mid = over([ints("part"), ints("outs")]).fan_out("inner", inner).edge("inner", END).entry("inner");
    let mid = mid.compile().unwrap();
    let outer =
        FanOut::over(&mid).items("parts", "part").collect("outs", "all").error_policy(ErrorPolicy::Collect);
    let lists = |name| field(name, FieldShape::Int.list().list(), json!([])).reducer(Reducer::Append);
    let builder =
        over([lists("parts"), lists("all")]).fan_out("outer", outer).edge("outer", END).entry("outer");
    builder.compile().unwrap()
}

// spec: graph-engine §6: the lineage tells nodes apart whose namespace and innermost index are the same.
#[tokio::test]
async fn nested_fan_outs_are_told_apart_by_their_lineage() {
    let graph = nested(&tenfold());
    let (outcome, seen) = observed(&graph, json!({"parts": [[1, 2], [3]]})).await;
    assert_eq!(completed(outcome)["all"], json!([[10, 20], [30]]));
    let started: Vec<_> = seen.told().into_iter().filter(|it| it.contains("started")).collect();
    let expected = [
        "0.0 started outer",
        "1.0 started outer[0]/inner",
        "2.0 started outer[0]/inner[0]/work",
        "3.0 started outer[0]/inner[1]/work",
        "4.0 started outer[1]/inner",
        "5.0 started outer[1]/inner[0]/work",
    ];
    assert_eq!(started, expected);
    let seen = seen.seen();
    let leaf = seen.iter().find(|it| it["step"] == 3).unwrap();
    assert_eq!(leaf["namespace"], json!(["outer", "inner", "work"]));
    assert_eq!(leaf["lineage"], json!([{"instance": 0}, {"instance": 1}]));
    assert_eq!(leaf["parents"].as_array().unwrap().len(), 2);
    assert_eq!(leaf["parents"][1], json!({"part": [1, 2], "outs": []}));
    // The config is on the fan-out's own events alone.
    let told: Vec<_> =
        seen.iter().filter(|it| it.get("fan_out").is_some()).map(|it| it["node"].clone()).collect();
    assert_eq!(told, ["outer", "inner", "inner", "inner", "inner", "outer"]);
}

// spec: graph-engine §6: scalars are the innermost; chains are aligned with the namespace.
#[test]
fn scalars_and_chains_are_read_off_the_lineage() {
    let lineage = NodeLineage::new([
        LineageBoundary::Instance(2),
        LineageBoundary::Subgraph,
        LineageBoundary::Branch("left".into()),
        LineageBoundary::Instance(0),
        LineageBoundary::Subgraph,
    ]);
    assert_eq!((lineage.fan_out_index(), lineage.branch_name()), (Some(0), Some("left")));
    let indexes: Vec<_> = lineage.fan_out_index_chain().collect();
    assert_eq!(indexes, [Some(2), None, None, Some(0), None]);
    let branches: Vec<_> = lineage.branch_name_chain().collect();
    assert_eq!(branches, [None, None, Some("left"), None, None]);
    let stored = json!([{"instance": 2}, "subgraph", {"branch": "left"}, {"instance": 0}, "subgraph"]);
    assert_eq!(serde_json::to_value(&lineage).unwrap(), stored);
    assert_eq!(serde_json::from_value::<NodeLineage>(stored).unwrap(), lineage);
    assert_eq!(NodeLineage::default().fan_out_index(), None);
}

// spec: graph-engine §6: a plain subgraph fills its place in the chains with nothing.
#[tokio::test]
async fn a_subgraph_around_or_inside_a_fan_out_keeps_the_chains_aligned() {
    let wrapped = over([int("n"), int("out"), int("base")])
        .subgraph("sub", &tenfold(), Projection::by_name().inputs([("n", "n")]))
        .edge("sub", END)
        .entry("sub")
        .compile()
        .unwrap();
    let inside = around(each(&wrapped)).compile().unwrap();
    let fields = [ints("items"), ints("results"), int("count"), int("base"), ints("more")];
    let graph = over(fields)
        .subgraph(
            "all",
            &inside,
            Projection::by_name().inputs([("items", "items")]).outputs([("results", "results")]),
        )
        .edge("all", END)
        .entry("all")
        .compile()
        .unwrap();
    let (outcome, seen) = observed(&graph, json!({"items": [4]})).await;
    assert_eq!(completed(outcome)["results"], json!([40]));
    let seen = seen.seen();
    assert_eq!(seen[0].get("lineage"), None);
    assert_eq!(seen[1]["namespace"], json!(["all", "each", "sub", "work"]));
    assert_eq!(seen[1]["lineage"], json!(["subgraph", {"instance": 0}, "subgraph"]));
}

// spec: graph-engine §6: observers of the inner graph see its instances, after those of the graphs around it.
#[tokio::test]
async fn observers_of_an_inner_graph_see_its_instances() {
    let (leaf, seen) = (tenfold(), Recorder::default());
    let graph = around(each(&leaf)).compile().unwrap();
    leaf.attach_observer(seen.named("inner"));
    graph.attach_observer(seen.named("outer"));
    run(&graph, json!({"items": [1]})).await;
    graph.drain(None).await.unwrap();
    let expected = [
        "outer 0 started each",
        "outer 1 started each/work",
        "inner 1 started each/work",
        "outer 1 completed each/work",
        "inner 1 completed each/work",
        "outer 0 completed each",
    ];
    assert_eq!(seen.lines(), expected);
}

// D7: facts of concurrent instances are apart, and those of a node that completed are gone.
#[tokio::test]
async fn facts_of_instances_are_apart() {
    let first = |cx: Ctx<Snapshot>| async move {
        let fact = Item::from_json(json!(number(&cx, "n")));
        cx.record("effect", fact.clone()).await?;
        tokio::task::yield_now().await;
        assert_eq!(cx.records(), [("effect".to_owned(), fact)].into());
        Ok(StateUpdate::new())
    };
    let then = |cx: Ctx<Snapshot>| async move {
        assert_eq!(cx.records(), Default::default());
        Ok(update(json!({"out": 1})))
    };
    let inner = over([int("n"), int("out")]).node("a", first).node("b", then).edge("a", "b").edge("b", END);
    let graph = around(each(&inner.entry("a").compile().unwrap())).compile().unwrap();
    assert_eq!(run(&graph, json!({"items": [1, 2, 3]})).await["results"], json!([1, 1, 1]));
}

// ADR 0003: where each inner run stands is data, also after the run was dropped.
#[tokio::test]
async fn a_watch_tells_where_each_instance_stands() {
    let halting = |cx: Ctx<Snapshot>| async move {
        if number(&cx, "n") == 1 {
            std::future::pending::<()>().await;
        }
        Ok(update(json!({"out": 5})))
    };
    let leaf =
        over([int("n"), int("out")]).node("work", halting).edge("work", END).entry("work").compile().unwrap();
    let graph = around(each(&leaf).concurrency(2)).compile().unwrap();
    let (watch, port) = (RunMonitor::default(), Arc::new(Memory::default()));
    let start = RunStart::Fresh { initial: update(json!({"items": [0, 1, 1, 2]})), hook: None };
    let mut running = Box::pin(graph.invoke_with_port(port, start, InvokeOptions::new(), &watch));
    assert!(running.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let progress = watch.capture_progress().unwrap();
    assert_eq!(
        progress.cursor.frames,
        [CursorFrame { node: "each".into(), at: FramePosition::Before, attempt: 0 }]
    );
    let [container] = &progress.containers[..] else { panic!("one runs") };
    assert_eq!((container.namespace.join("/"), &container.lineage), ("each".into(), &NodeLineage::default()));
    let member = |(boundary, progress): &(LineageBoundary, MemberProgress)| {
        let progress = match progress {
            MemberProgress::NotStarted => json!("not started"),
            MemberProgress::InFlight { frames, states, .. } => {
                json!([frames, states.iter().map(state).collect::<Vec<_>>()])
            }
            MemberProgress::Contributed(update) => {
                json!(update.iter_entries().map(|(name, _)| name).collect::<Vec<_>>())
            }
            MemberProgress::Failed(record) => record.json().unwrap().clone(),
        };
        json!([boundary, progress])
    };
    let here = json!([[{"node": "work", "at": "before"}], [{"n": 1, "out": 0}]]);
    let expected = [
        json!([{"instance": 0}, ["out"]]),
        json!([{"instance": 1}, here]),
        json!([{"instance": 2}, here]),
        json!([{"instance": 3}, "not started"]),
    ];
    assert_eq!(container.members.iter().map(member).collect::<Vec<_>>(), expected);
    drop(running);
    // Dropped instances do not run.
    assert_eq!(watch.capture_progress().unwrap().containers, []);
}
