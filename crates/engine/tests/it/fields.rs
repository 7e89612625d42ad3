//! Typed fields: the values that each Rust type reads, writes, accepts and refuses.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use singletree_engine::{
    Ctx, DeclaredState, END, FieldShape, Graph, InvokeOptions, JsonField, NodeResult, Reducer, RunOutcome,
    SharedList, StateUpdate, format_error_chain,
};
use singletree_macros::State;

use crate::rig::{map, session, update};
use crate::sessions::Watched;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
struct Point {
    x: f64,
    tags: Vec<String>,
}

#[derive(Debug, PartialEq, State)]
#[state(engine = singletree_engine, version = "7")]
struct Everything {
    flag: bool,
    small: i32,
    count: u64,
    real: f64,
    name: String,
    maybe: Option<f64>,
    maybe_list: Option<Vec<String>>,
    any: Value,
    maybe_any: Option<Value>,
    record: Map<String, Value>,
    scores: BTreeMap<String, f64>,
    floats: Vec<f64>,
    nested: Vec<Vec<i64>>,
    point: JsonField<Point>,
    points: JsonField<Vec<Point>>,
    #[state(append)]
    long: SharedList<Point>,
}

async fn idle(_: Ctx<Everything>) -> NodeResult<Everything> {
    Ok(Everything::update())
}

fn graph() -> Graph<Everything> {
    Graph::<Everything>::builder().node("a", idle).edge("a", END).entry("a").compile().unwrap()
}

async fn run(initial: StateUpdate) -> Result<Everything, singletree_engine::Error> {
    match graph().invoke(initial, InvokeOptions::new()).await? {
        RunOutcome::Completed(done) => Ok(done.state),
        RunOutcome::Suspended(_) => panic!("it does not suspend"),
    }
}

fn point(x: f64) -> Point {
    Point { x, tags: vec!["t".into()] }
}

fn whole() -> StateUpdate {
    let update = Everything::update().flag(true).small(-1).count(u64::MAX).real(1.5).name("n").maybe(2.5);
    let update = update.maybe_list(vec!["a".to_owned()]).any(json!([1, {"a": 2}])).maybe_any(json!([1]));
    let update = update.record(map(json!({"k": null}))).scores(BTreeMap::from([("s".into(), 0.5)]));
    let update = update.floats(vec![1.0]).nested(vec![vec![1], vec![]]).point(JsonField(point(1.0)));
    update.points(JsonField(vec![point(2.0)])).long([point(3.0)]).into()
}

#[tokio::test]
async fn what_is_written_is_read_typed_and_from_a_store() {
    let typed = run(whole()).await.unwrap();
    assert_eq!(
        (typed.count, typed.maybe, typed.maybe_list.clone()),
        (u64::MAX, Some(2.5), Some(vec!["a".to_owned()]))
    );
    assert_eq!((typed.points.0.len(), typed.long.last().map(|it| it.x)), (1, Some(3.0)));
    let store = Watched::new();
    let build = || {
        Graph::<Everything>::builder().node("a", idle).edge("a", END).entry("a").session_store(store.clone())
    };
    for initial in [whole(), StateUpdate::new()] {
        let options = InvokeOptions::new().session(session("s"));
        let RunOutcome::Completed(done) = build().compile().unwrap().invoke(initial, options).await.unwrap()
        else {
            panic!("it completes");
        };
        assert_eq!(done.state, typed);
    }
    assert_eq!(store.stored("s").await.map(|it| it.0), Some("7".to_owned()));
}

#[tokio::test]
async fn defaults_are_what_the_types_say() {
    let fresh = run(StateUpdate::new()).await.unwrap();
    assert_eq!((fresh.maybe, fresh.maybe_list, fresh.any, fresh.maybe_any), (None, None, json!(null), None));
    assert_eq!((fresh.point.0, fresh.long.len()), (Point::default(), 0));
    let schema = Everything::schema();
    assert_eq!(
        *schema.find_field("maybe_list").unwrap().shape(),
        FieldShape::Optional(Box::new(FieldShape::Str.list()))
    );
    assert_eq!(schema.find_field("long").unwrap().effective_reducer().name(), Reducer::Append.name());
}

// Numbers that JSON cannot hold are refused with the field named, and never stored as null.
#[tokio::test]
async fn numbers_that_json_cannot_hold_are_refused() {
    let update = Everything::update;
    let cases: [(&str, StateUpdate); 7] = [
        ("real", update().real(f64::NAN).into()),
        ("maybe", update().maybe(f64::INFINITY).into()),
        ("scores", update().scores(BTreeMap::from([("s".into(), f64::NEG_INFINITY)])).into()),
        ("floats", update().floats(vec![1.0, f64::NAN]).into()),
        ("point", update().point(JsonField(point(f64::NAN))).into()),
        ("points", update().points(JsonField(vec![point(f64::NAN)])).into()),
        ("long", update().long([point(f64::NAN)]).into()),
    ];
    for (field, bad) in cases {
        let error = run(bad).await.unwrap_err();
        assert_eq!(error.category(), "state_validation_error");
        assert!(
            format_error_chain(&error).contains(&format!("field '{field}': ")),
            "{}",
            format_error_chain(&error)
        );
        assert!(format_error_chain(&error).contains("is no JSON number"), "{}", format_error_chain(&error));
    }
    // The same from a node, where the place is named, too.
    let node = |_: Ctx<Everything>| async { Ok(Everything::update().long([point(1.0), point(f64::NAN)])) };
    let graph = Graph::<Everything>::builder().node("a", node).edge("a", END).entry("a").compile().unwrap();
    let error = graph.invoke(StateUpdate::new(), InvokeOptions::new()).await.unwrap_err();
    assert_eq!(
        format_error_chain(&error),
        "the state is not valid after node 'a': field 'long': element 1: NaN is no JSON number"
    );
}

#[tokio::test]
async fn values_of_other_types_are_refused_with_the_field_named() {
    for (bad, field) in [
        (json!({"flag": 1}), "flag"),
        (json!({"small": 3_000_000_000_u64}), "small"),
        (json!({"count": -1}), "count"),
        (json!({"real": "1"}), "real"),
        (json!({"name": null}), "name"),
        (json!({"maybe": "x"}), "maybe"),
        (json!({"maybe_list": ["a", 1]}), "maybe_list"),
        (json!({"maybe_list": "a"}), "maybe_list"),
        (json!({"record": []}), "record"),
        (json!({"scores": {"s": "x"}}), "scores"),
        (json!({"floats": [1, "x"]}), "floats"),
        (json!({"nested": [[1], 2]}), "nested"),
        (json!({"point": {"x": 1}}), "point"),
        (json!({"points": [{"x": 1}]}), "points"),
        (json!({"long": [{"x": "x", "tags": []}]}), "long"),
    ] {
        let error = run(update(bad)).await.unwrap_err();
        assert_eq!(error.category(), "state_validation_error");
        assert!(
            format_error_chain(&error).contains(&format!("field '{field}': ")),
            "{}",
            format_error_chain(&error)
        );
    }
    let fine =
        run(update(json!({"maybe": null, "maybe_list": null, "real": 1, "points": []}))).await.unwrap();
    assert_eq!((fine.maybe, fine.maybe_list, fine.real), (None, None, 1.0));
}

// A typed list crosses into a subgraph of the same type unchanged and shared.
#[tokio::test]
async fn a_long_list_crosses_into_a_subgraph_shared() {
    let looks = |cx: Ctx<Everything>| async move {
        let first = cx.state().long.get(0).unwrap();
        assert_eq!(Arc::strong_count(&first), 2, "one in the list, one here");
        Ok(Everything::update().long([point(2.0)]))
    };
    let inner = Graph::<Everything>::builder().node("a", looks).edge("a", END).entry("a").compile().unwrap();
    let projection = singletree_engine::Projection::by_name().projects_in(["long"]).projects_out(["count"]);
    let outer =
        Graph::<Everything>::builder().subgraph("sub", &inner, projection).edge("sub", END).entry("sub");
    let initial = Everything::update().long([point(1.0)]);
    let ended = outer.compile().unwrap().invoke(initial, InvokeOptions::new()).await.unwrap();
    assert_eq!(ended.state().long.len(), 1);
}

/// A type that leaves out a field that it needs to be read.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Forgetful {
    #[serde(skip_serializing)]
    needed: u64,
}

#[derive(Debug, State)]
#[state(engine = singletree_engine)]
struct Memory {
    known: JsonField<Option<Forgetful>>,
    #[state(append)]
    all: SharedList<Forgetful>,
}

// Such a type works until another process reads the stored value.
#[tokio::test]
async fn a_type_that_does_not_read_what_it_writes_is_found_at_its_first_write() {
    type Written = fn() -> MemoryUpdate;
    assert_eq!(Forgetful { needed: 1 }.needed, 1);
    let writes: [Written; 2] = [
        || Memory::update().known(JsonField(Some(Forgetful { needed: 1 }))),
        || Memory::update().all([Forgetful { needed: 1 }]),
    ];
    for write in writes {
        let builder = Graph::<Memory>::builder().node("a", move |_: Ctx<Memory>| async move { Ok(write()) });
        let graph = builder.edge("a", END).entry("a").compile().unwrap();
        let failed = graph.invoke(StateUpdate::new(), InvokeOptions::new()).await.unwrap_err();
        assert_eq!(failed.category(), "state_validation_error");
        let told = format_error_chain(&failed);
        assert!(told.contains("its type does not read what it writes"), "{told}");
    }
}
