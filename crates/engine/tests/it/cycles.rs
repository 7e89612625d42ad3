//! Going on in a cycle: a place is not a set of nodes (R30; pipeline-utilities §10.4, suspension §7).

use serde_json::json;
use singletree_engine::{Ctx, END, Graph, InvokeOptions, Projection, Signal, Snapshot, StateUpdate, Target};

use crate::fan_out::number;
use crate::rig::{completed, field, int, log, map, over, sets, suspended, update};

/// Goes round until `n` is `rounds`: each time one node adds, and one waits for a signal.
fn rounds(rounds: i64, completes: bool) -> Graph<Snapshot> {
    let add = |cx: Ctx<Snapshot>| {
        let n = number(&cx, "n");
        std::future::ready(Ok(update(json!({"n": n + 1, "log": [format!("add {}", n + 1)]}))))
    };
    let ask = move |cx: Ctx<Snapshot>| async move {
        if number(&cx, "go") == number(&cx, "n") {
            return Ok(update(json!({"log": ["went on"]})));
        }
        cx.suspend(Signal::new("s").mark_node_completed(completes)).await
    };
    let again = move |state: &Snapshot| -> Target {
        let n = state.get("n").unwrap().to_json().unwrap();
        if n == json!(rounds) { END.into() } else { "add".into() }
    };
    over([int("n"), int("go"), log("log")])
        .node("add", add)
        .node("ask", ask)
        .edge("add", "ask")
        .conditional_edge_to("ask", ["add".into(), END.into()], again)
        .entry("add")
        .compile()
        .unwrap()
}

#[tokio::test]
async fn a_pause_in_a_cycle_goes_on_in_its_round() {
    for (completes, expected) in [
        (true, json!(["add 1", "add 2", "add 3"])),
        (false, json!(["add 1", "went on", "add 2", "went on", "add 3", "went on"])),
    ] {
        for depth in 0..3 {
            let graph = (0..depth).fold(rounds(3, completes), |inner, _| {
                let crossing = Projection::by_name().outputs([("log", "log")]);
                let outer =
                    over([int("n"), field("go", singletree_engine::FieldShape::Int, json!(0)), log("log")]);
                let outer = outer.node("pre", sets(json!({}))).subgraph("sub", &inner, crossing);
                outer.edge("pre", "sub").edge("sub", END).entry("pre").compile().unwrap()
            });
            let paused = suspended(graph.invoke(StateUpdate::new(), InvokeOptions::new()).await);
            let id = paused.identity.invocation_id;
            for round in 1..3 {
                let next = graph.resume(&id, map(json!({"go": round})), InvokeOptions::new()).await;
                assert_eq!(suspended(next).identity.invocation_id, id);
            }
            let ended = graph.resume(&id, map(json!({"go": 3})), InvokeOptions::new()).await;
            assert_eq!(completed(ended)["log"], expected, "{completes} {depth}");
        }
    }
}
