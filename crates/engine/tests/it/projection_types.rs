//! Declared types on both sides of a boundary must not contradict each other (graph-engine §2, pipeline-utilities §9).

use serde_json::{Value, json};
use singletree_engine::{
    Branch, Branches, END, FanOut, FieldShape, FieldSpec, Graph, Projection, Reducer, Snapshot,
};

use crate::rig::{Builder, field, over, sets};

fn of(shape: FieldShape) -> FieldSpec {
    FieldSpec::required("there", shape)
}

fn child(field: FieldSpec) -> Graph<Snapshot> {
    over([field]).node("x", sets(json!({}))).edge("x", END).entry("x").compile().unwrap()
}

fn dict(shape: FieldShape) -> FieldShape {
    FieldShape::Dict(Box::new(shape))
}

fn maybe(shape: FieldShape) -> FieldShape {
    FieldShape::Optional(Box::new(shape))
}

fn record(name: &str) -> FieldShape {
    FieldShape::Record(name.into())
}

/// Returns the error message of a graph that does not compile.
#[track_caller]
fn refused(builder: Builder) -> Option<String> {
    let error = builder.compile().err()?;
    assert_eq!(error.category(), "mapping_references_undeclared_field");
    Some(error.to_string())
}

fn single(builder: Builder) -> Builder {
    builder.edge("a", END).entry("a")
}

fn copying(from: &FieldShape, to: &FieldShape) -> Builder {
    let projection = Projection::by_name().inputs([("there", "here")]).outputs([]);
    let here = FieldSpec::required("here", from.clone());
    single(over([here]).subgraph("a", &child(of(to.clone())), projection))
}

// spec: graph-engine §2 (compatible types of mapped pairs)
#[test]
fn what_is_copied_in_must_be_what_the_other_side_declares() {
    use FieldShape::{Any, Bool, Float, Int, Str};
    let message = || record("message");
    for (from, to, fits) in [
        (Int, Int, true),
        (Int, Float, true),
        (Float, Int, false),
        (Int, Bool, false),
        (Bool, Int, false),
        (Str, Int, false),
        (Any, Int, true),
        (Int, Any, true),
        (maybe(Int), Int, true),
        (Int, maybe(Int), true),
        (maybe(Str), Int, false),
        (Str, maybe(Int), false),
        (Int.list(), Int.list(), true),
        (Int.list(), Str.list(), false),
        (Any.list(), Str.list(), true),
        (Int, Int.list(), false),
        (Int.list(), Int, false),
        (Int.list().list(), Int.list(), false),
        (dict(Int), dict(Str), false),
        (dict(Int), message(), true),
        (message(), record("other"), true),
        (message(), Str, false),
        (message().list(), message().list(), true),
    ] {
        let found = refused(copying(&from, &to));
        assert_eq!(found.is_none(), fits, "{from} into {to}: {found:?}");
    }
    let why = refused(copying(&Str, &Int)).unwrap();
    let expected = "node 'a' projects field 'here' into field 'there': string where int is taken";
    assert!(why.contains(expected), "{why}");
}

// A field that goes out is an update: the reducer decides which type it takes.
#[test]
fn what_is_merged_back_must_be_what_the_reducer_takes() {
    use FieldShape::{Int, Str};
    struct Odd;
    impl singletree_engine::CustomReducer for Odd {
        fn name(&self) -> &'static str {
            "odd"
        }
        fn reduce_update(
            &self,
            prior: &singletree_engine::FieldContent,
            _: singletree_engine::FieldContent,
        ) -> Result<singletree_engine::FieldContent, singletree_engine::ReducerFault> {
            Ok(prior.clone())
        }
        fn is_round_trip_idempotent(&self) -> Option<bool> {
            None
        }
    }
    let odd = || Reducer::Custom(std::sync::Arc::new(Odd));
    let keyed = || Reducer::DedupeAppend(None);
    let cases: [(Reducer, FieldShape, Value, FieldShape, bool); 12] = [
        (Reducer::LastWriteWins, Int, json!(0), Int, true),
        (Reducer::LastWriteWins, Int, json!(0), Str, false),
        (Reducer::Append, Int.list(), json!([]), Int.list(), true),
        (Reducer::Append, Int.list(), json!([]), Int, false),
        (keyed(), Int.list(), json!([]), Str.list(), false),
        (Reducer::BoundedAppend(2), Int.list(), json!([]), Int.list(), true),
        (Reducer::ConcatFlatten, Int.list(), json!([]), Int.list().list(), true),
        (Reducer::ConcatFlatten, Int.list(), json!([]), Int.list(), false),
        (Reducer::Merge, dict(Int), json!({}), dict(Int), true),
        (Reducer::MergeAll, dict(Int), json!({}), dict(Int).list(), true),
        (Reducer::MergeAll, dict(Int), json!({}), dict(Int), false),
        (odd(), Int, json!(0), Str, true),
    ];
    for (reducer, here, default, there, fits) in cases {
        let name = reducer.name().to_owned();
        let here = field("here", here, default).reducer(reducer);
        let child = child(FieldSpec::new("there", there.clone(), default_of(&there)));
        let node = Projection::by_name().outputs([("here", "there")]);
        let found = refused(single(over([here.clone()]).subgraph("a", &child, node)));
        assert_eq!(found.is_none(), fits, "{name} of {there}: {found:?}");
        // A branch's contribution passes the reducer in the same way.
        let branches = Branches::new().branch("b", Branch::new().subgraph(&child).output("here", "there"));
        let found = refused(single(over([here]).branches("a", branches)));
        assert_eq!(found.is_none(), fits, "branch: {name} of {there}: {found:?}");
    }
}

fn default_of(shape: &FieldShape) -> singletree_engine::FieldContent {
    singletree_engine::FieldContent::from_json(match shape {
        FieldShape::List(_) => json!([]),
        FieldShape::Dict(_) => json!({}),
        FieldShape::Str => json!(""),
        _ => json!(0),
    })
}

// Sets name pairs as well; fields that have the same name by chance are no declaration.
#[test]
fn sets_are_checked_and_matching_names_are_not() {
    let child = child(field("f", FieldShape::Str, json!("")));
    let around =
        |projection| single(over([field("f", FieldShape::Int, json!(0))]).subgraph("a", &child, projection));
    assert!(refused(around(Projection::by_name().projects_in(["f"]))).is_some());
    assert!(refused(around(Projection::by_name().projects_out(["f"]))).is_some());
    assert_eq!(refused(around(Projection::by_name())), None);
}

// spec: pipeline-utilities §9, §11: inputs and items as above; the outputs of instances are a list.
#[test]
fn containers_check_what_goes_into_their_members() {
    let inner = || {
        let fields = [field("n", FieldShape::Int, json!(0)), field("s", FieldShape::Str, json!(""))];
        over(fields).node("x", sets(json!({}))).edge("x", END).entry("x").compile().unwrap()
    };
    let fields = || {
        [
            field("numbers", FieldShape::Int.list(), json!([])).reducer(Reducer::Append),
            field("word", FieldShape::Str, json!("")),
            field("map", dict(FieldShape::Int), json!({})).reducer(Reducer::Merge),
        ]
    };
    let fan = |fan: FanOut<Snapshot>| refused(single(over(fields()).fan_out("a", fan)));
    let over_inner = || FanOut::over(&inner());
    assert_eq!(fan(over_inner().items("numbers", "n").collect("n", "numbers").input("s", "word")), None);
    assert!(fan(over_inner().items("numbers", "s")).is_some());
    assert!(fan(over_inner().count(1).input("n", "word")).is_some());
    assert!(fan(over_inner().count(1).collect("n", "word")).is_some());
    assert!(fan(over_inner().count(1).extra_output("map", "n")).is_some());
    let branch = |branch: Branch<Snapshot>| {
        refused(single(over(fields()).branches("a", Branches::new().branch("b", branch))))
    };
    assert_eq!(branch(Branch::new().subgraph(&inner()).input("s", "word")), None);
    assert!(branch(Branch::new().subgraph(&inner()).input("n", "word")).unwrap().contains("branch 'b'"));
}
