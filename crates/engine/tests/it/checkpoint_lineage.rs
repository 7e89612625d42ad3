//! Checkpoints of fan-outs inside of fan-outs: the enclosing instance of each entry (pipeline-utilities §10.11).

use serde_json::{Value, json};
use singletree_durable::CheckpointRecord;
use singletree_engine::{Ctx, END, FanOut, FieldShape, InvokeOptions, Projection, Snapshot};

use crate::checkpoint::Keeper;
use crate::fan_out::{ints, number};
use crate::rig::{Builder, field, int, over, sets, update};

/// A fan-out "rows" over graphs that each have a fan-out "cells", behind a subgraph.
fn table(yields: bool) -> Builder {
    let work = move |cx: Ctx<Snapshot>| async move {
        if yields {
            tokio::task::yield_now().await;
        }
        Ok(update(json!({"out": 10 * number(&cx, "n")})))
    };
    let cell = over([int("n"), int("out")]).node("work", work).edge("work", END).entry("work");
    let cells =
        FanOut::over(&cell.compile().unwrap()).concurrency(1).items("items", "n").collect("out", "results");
    let fields = || [ints("items"), ints("results")];
    let row = over(fields()).fan_out("cells", cells).edge("cells", END).entry("cells").compile().unwrap();
    let crossing = Projection::by_name().inputs([("items", "items")]).outputs([("results", "results")]);
    let row = over(fields()).subgraph("sub", &row, crossing).edge("sub", END).entry("sub").compile().unwrap();
    let rows = FanOut::over(&row).concurrency(2).items("rows", "items").collect("results", "all");
    over([
        field("rows", FieldShape::Int.list().list(), json!([])),
        field("all", FieldShape::Int.list().list(), json!([])),
    ])
    .node("first", sets(json!({})))
    .fan_out("rows", rows)
    .edge("first", "rows")
    .edge("rows", END)
    .entry("first")
}

/// An entry in short: whose it is, and the states of its instances.
fn short(entry: &Value) -> Value {
    let enclosing: Vec<_> = entry["enclosing_fan_out_lineage"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| json!([it["namespace"], it["fan_out_node_name"], it["fan_out_index"]]))
        .collect();
    let states: Vec<_> =
        entry["instances"].as_array().unwrap().iter().map(|it| it["state"].clone()).collect();
    json!([entry["namespace"], entry["fan_out_node_name"], enclosing, states])
}

/// Runs it over two rows and returns the progress of each save.
async fn saved(make: impl Fn() -> Builder) -> Vec<Value> {
    let keeper = Keeper::new();
    let graph = make().checkpointer(keeper.clone()).compile().unwrap();
    let given = update(json!({"rows": [[1, 2], [3, 4]]}));
    graph.invoke(given, InvokeOptions::new()).await.unwrap();
    let progress = |it: &CheckpointRecord| {
        let progress = serde_json::to_value(&it.fan_out_progress).unwrap();
        progress.as_array().map_or_else(|| json!([]), |it| it.iter().map(short).collect())
    };
    keeper.saved().iter().map(progress).collect()
}

// spec: pipeline-utilities §10.11: one entry for each execution that is under way, keyed by the enclosing instances.
#[tokio::test]
async fn an_inner_fan_out_is_saved_with_the_instances_around_it() {
    let outer = |states: [&str; 2]| json!([[], "rows", [], states]);
    let inner = |row: u64, states: [&str; 2]| json!([["rows", "sub"], "cells", [[[], "rows", row]], states]);
    let (c, f, n) = ("completed", "in_flight", "not_started");
    let expected = [
        json!([]),
        json!([outer([f, n]), inner(0, [c, n])]),
        json!([outer([f, n]), inner(0, [c, c])]),
        json!([outer([f, n])]),
        json!([outer([c, n])]),
        json!([outer([c, f]), inner(1, [c, n])]),
        json!([outer([c, f]), inner(1, [c, c])]),
        json!([outer([c, f])]),
        json!([outer([c, c])]),
        // A fan-out whose result is merged has no progress any more.
        json!([]),
    ];
    assert_eq!(saved(|| table(false)).await, expected);
}

// Two executions of one node that are under way at once are two entries.
#[tokio::test]
async fn executions_side_by_side_are_told_apart() {
    let saved = saved(|| table(true)).await;
    let side_by_side = saved.iter().filter(|it| it.as_array().unwrap().len() == 3).collect::<Vec<_>>();
    assert!(!side_by_side.is_empty(), "{saved:#?}");
    for entries in side_by_side {
        let whose: Vec<_> = (1..3).map(|at| [entries[at][0].clone(), entries[at][2].clone()]).collect();
        let of = |row: u64| [json!(["rows", "sub"]), json!([[[], "rows", row]])];
        assert_eq!(whose, [of(0), of(1)]);
    }
}
