//! Subgraphs: each form of projection, and nesting (graph-engine §2).

use serde_json::{Value, json};
use singletree_engine::{END, FieldShape, FieldSpec, Graph, Projection, Snapshot, StateUpdate};

use crate::rig::{Builder, Recorder, described, fail, field, int, log, over, run, sets, text};

/// A child that records its initial `x` and `y` in `seen`, and then sets `x` to 9 and logs "child".
fn child() -> Graph<Snapshot> {
    let fields = [
        int("x"),
        field("y", FieldShape::Int, json!(5)),
        log("log"),
        field("seen", FieldShape::Any, json!(null)),
    ];
    let look = |cx: singletree_engine::Ctx<Snapshot>| async move {
        let seen = json!([cx.state().get("x"), cx.state().get("y")].map(|it| it.unwrap().to_json().unwrap()));
        Ok(StateUpdate::new().with_json("seen", seen))
    };
    let builder = over(fields).node("look", look).node("act", sets(json!({"x": 9, "log": ["child"]})));
    builder.edge("look", "act").edge("act", END).entry("look").compile().unwrap()
}

fn parent(projection: Projection) -> Builder {
    let fields = [
        field("x", FieldShape::Int, json!(1)),
        int("y"),
        int("z"),
        log("log"),
        field("seen", FieldShape::Any, json!(null)),
    ];
    over(fields).subgraph("sub", &child(), projection).edge("sub", END).entry("sub")
}

#[track_caller]
fn same(found: Value, expected: Value) {
    assert_eq!(found, expected);
}

// spec: graph-engine §2 (R38: by default nothing is projected in)
#[tokio::test]
async fn by_default_nothing_goes_in_and_same_names_come_out() {
    let graph = parent(Projection::by_name()).compile().unwrap();
    let ended = run(&graph, json!({"x": 1, "log": ["p"]})).await;
    same(ended, json!({"x": 9, "y": 5, "z": 0, "log": ["p", "child"], "seen": [0, 5]}));
}

#[tokio::test]
async fn inputs_add_to_the_defaults_and_leave_the_way_out_alone() {
    let graph = parent(Projection::by_name().inputs([("y", "x")])).compile().unwrap();
    same(run(&graph, json!({})).await, json!({"x": 9, "y": 1, "z": 0, "log": ["child"], "seen": [0, 1]}));
}

#[tokio::test]
async fn outputs_replace_the_matching_by_name() {
    let graph = parent(Projection::by_name().outputs([("z", "x"), ("seen", "seen")])).compile().unwrap();
    same(run(&graph, json!({})).await, json!({"x": 1, "y": 0, "z": 9, "log": [], "seen": [0, 5]}));
}

#[tokio::test]
async fn inputs_and_outputs_work_side_by_side() {
    let projection = Projection::by_name().inputs([("x", "y")]).outputs([("y", "x"), ("seen", "seen")]);
    let graph = parent(projection).compile().unwrap();
    same(run(&graph, json!({"y": 7})).await, json!({"x": 1, "y": 9, "z": 0, "log": [], "seen": [7, 5]}));
}

#[tokio::test]
async fn declared_sets_are_the_whole_boundary() {
    let only_in = parent(Projection::by_name().projects_in(["x", "y"])).compile().unwrap();
    same(run(&only_in, json!({})).await, json!({"x": 1, "y": 0, "z": 0, "log": [], "seen": null}));
    let only_out = parent(Projection::by_name().projects_out(["seen", "log"])).compile().unwrap();
    same(run(&only_out, json!({})).await, json!({"x": 1, "y": 0, "z": 0, "log": ["child"], "seen": [0, 5]}));
    let both = Projection::by_name().projects_in(["x"]).projects_out(["seen"]);
    let both = parent(both).compile().unwrap();
    same(run(&both, json!({"x": 3})).await, json!({"x": 3, "y": 0, "z": 0, "log": [], "seen": [3, 5]}));
}

// spec: graph-engine §6: wrappers have no events, steps are one sequence, parent states are those at entry.
#[tokio::test]
async fn nesting_two_deep_keeps_one_sequence_of_steps() {
    let inner = child();
    let middle = over([int("x"), log("log")]).node("before", sets(json!({"log": ["middle"]})));
    let middle = middle.subgraph("inner", &inner, Projection::by_name()).edge("before", "inner");
    let middle = middle.edge("inner", END).entry("before").compile().unwrap();
    let outer = over([int("x"), log("log")]).node("first", sets(json!({"x": 2})));
    let outer =
        outer.subgraph("middle", &middle, Projection::by_name()).node("last", sets(json!({"log": ["last"]})));
    let outer = outer.edge("first", "middle").edge("middle", "last").edge("last", END).entry("first");
    let outer = outer.compile().unwrap();
    let seen = Recorder::default();
    outer.attach_observer(seen.clone());
    same(run(&outer, json!({})).await, json!({"x": 9, "log": ["middle", "child", "last"]}));
    outer.drain(None).await.unwrap();
    assert_eq!(
        seen.lines(),
        [
            "0 started first",
            "0 completed first",
            "1 started middle/before",
            "1 completed middle/before",
            "2 started middle/inner/look",
            "2 completed middle/inner/look",
            "3 started middle/inner/act",
            "3 completed middle/inner/act",
            "4 started last",
            "4 completed last",
        ]
    );
    let look = &seen.seen()[4];
    assert_eq!(look["parents"], json!([{"x": 2, "log": []}, {"x": 0, "log": ["middle"]}]));
    assert_eq!(look["pre"], json!({"x": 0, "y": 5, "log": [], "seen": null}));
}

// spec: graph-engine §4: the error is the inner node's; the recoverable state is the inner graph's.
#[tokio::test]
async fn an_error_inside_is_told_as_it_is() {
    let boom = |_| async { Err(singletree_engine::NodeError::new("boom")) };
    let inner = over([int("i")]).node("boom", boom).edge("boom", END).entry("boom").compile().unwrap();
    let outer = over([int("o")]).subgraph("sub", &inner, Projection::by_name()).edge("sub", END).entry("sub");
    let error = fail(&outer.compile().unwrap(), json!({})).await;
    assert_eq!(described(&error), ("node_exception", Some("boom".into()), Some(json!({"i": 0}))));
    let path: Vec<_> = error.node_location().unwrap().namespace.iter().map(AsRef::as_ref).collect();
    assert_eq!(path, ["sub", "boom"]);
}

#[tokio::test]
async fn what_crosses_is_checked_against_the_other_sides_schema() {
    let child = over([field("numbers", FieldShape::Int.list(), json!([]))]).node("a", sets(json!({})));
    let child = child.edge("a", END).entry("a").compile().unwrap();
    // A shape that allows anything can only be checked by its values.
    let words = field("words", FieldShape::Any.list(), json!(["one"]));
    let projection = Projection::by_name().inputs([("numbers", "words")]).outputs([]);
    let outer = over([words]).subgraph("sub", &child, projection).edge("sub", END).entry("sub");
    let error = fail(&outer.compile().unwrap(), json!({})).await;
    assert_eq!(
        described(&error),
        ("state_validation_error", Some("sub".into()), Some(json!({"words": ["one"]})))
    );
    assert!(
        singletree_engine::format_error_chain(&error)
            .contains("field 'numbers': element 0: expected int, found a string")
    );
}

#[tokio::test]
async fn a_required_field_of_the_child_needs_a_crossing() {
    let child = over([FieldSpec::required("must", FieldShape::Str)]).node("a", sets(json!({})));
    let child = child.edge("a", END).entry("a").compile().unwrap();
    let build =
        |projection| over([text("word")]).subgraph("sub", &child, projection).edge("sub", END).entry("sub");
    let error = fail(&build(Projection::by_name()).compile().unwrap(), json!({})).await;
    assert_eq!(error.category(), "state_validation_error");
    let crossing = build(Projection::by_name().inputs([("must", "word")])).compile().unwrap();
    assert_eq!(run(&crossing, json!({"word": "w"})).await, json!({"word": "w"}));
}

// spec: graph-engine §4: the parent's reducer names the wrapper as the producer.
#[tokio::test]
async fn what_comes_out_passes_the_parents_reducer() {
    let outer = over([log("log")]);
    let projection = Projection::by_name().outputs([("log", "seen")]);
    let child = over([field("seen", FieldShape::Any, json!(9))]).node("a", sets(json!({})));
    let child = child.edge("a", END).entry("a").compile().unwrap();
    let outer = outer.subgraph("sub", &child, projection).edge("sub", END).entry("sub").compile().unwrap();
    let error = fail(&outer, json!({"log": ["p"]})).await;
    assert_eq!(described(&error), ("reducer_error", Some("sub".into()), Some(json!({"log": ["p"]}))));
}
