//! The warning `projection_reducer_round_trip`: its three shapes, and no more (graph-engine §2).

use serde_json::{Value, json};
use singletree_engine::{
    CustomReducer, END, FieldContent, FieldShape, Graph, GraphWarningKind, KeyExtractor, Projection, Reducer,
    ReducerFault, Snapshot,
};
use std::sync::Arc;

use crate::rig::{field, over, sets};

struct Classified(Option<bool>);

impl CustomReducer for Classified {
    fn name(&self) -> &'static str {
        "classified"
    }
    fn reduce_update(&self, _: &FieldContent, update: FieldContent) -> Result<FieldContent, ReducerFault> {
        Ok(update)
    }
    fn is_round_trip_idempotent(&self) -> Option<bool> {
        self.0
    }
}

fn child() -> Graph<Snapshot> {
    let any = |name| field(name, FieldShape::Any, json!([]));
    over([any("f"), any("g")]).node("n", sets(json!({}))).edge("n", END).entry("n").compile().unwrap()
}

/// The fields that the compiler warns of, with this reducer of parent field `f`.
fn warned(reducer: Reducer, default: Value, projection: Projection) -> Vec<Option<String>> {
    let builder = over([field("f", FieldShape::Any, default).reducer(reducer)]);
    let graph =
        builder.subgraph("sub", &child(), projection).edge("sub", END).entry("sub").compile().unwrap();
    assert!(graph.warnings().iter().all(|it| it.kind == GraphWarningKind::ProjectionReducerRoundTrip));
    assert_eq!(GraphWarningKind::ProjectionReducerRoundTrip.category(), "projection_reducer_round_trip");
    graph.warnings().iter().map(|it| it.field.clone()).collect()
}

fn of_append(projection: Projection) -> usize {
    warned(Reducer::Append, json!([]), projection).len()
}

#[test]
fn a_round_trip_is_seen_in_each_of_its_three_shapes() {
    for projection in [
        Projection::by_name().projects_in(["f"]).projects_out(["f"]),
        Projection::by_name().inputs([("g", "f")]).outputs([("f", "g")]),
        Projection::by_name().inputs([("f", "f")]),
    ] {
        assert_eq!(warned(Reducer::Append, json!([]), projection), [Some("f".to_owned())]);
    }
}

#[test]
fn what_is_no_round_trip_is_not_warned_of() {
    for projection in [
        Projection::by_name(),
        Projection::by_name().projects_in(["f"]),
        Projection::by_name().projects_out(["f"]),
        Projection::by_name().projects_in(["f"]).projects_out([]),
        // In by one field of the child, out by another.
        Projection::by_name().inputs([("g", "f")]).outputs([("f", "f")]),
        Projection::by_name().inputs([("g", "f")]),
        Projection::by_name().inputs([("f", "f")]).outputs([]),
        Projection::by_name().outputs([("f", "f")]),
    ] {
        assert_eq!(of_append(projection.clone()), 0, "{projection:?}");
    }
}

#[test]
fn only_reducers_that_merge_twice_are_warned_of() {
    let by_key = || Some(KeyExtractor::field("id"));
    for (reducer, default, warns) in [
        (Reducer::Append, json!([]), true),
        (Reducer::ConcatFlatten, json!([]), true),
        (Reducer::BoundedAppend(2), json!([]), true),
        (Reducer::MergeAll, json!({}), true),
        (Reducer::Custom(Arc::new(Classified(Some(false)))), json!(0), true),
        (Reducer::LastWriteWins, json!(0), false),
        (Reducer::Merge, json!({}), false),
        (Reducer::DedupeAppend(None), json!([]), false),
        (Reducer::MergeByKey(by_key()), json!([]), false),
        (Reducer::Custom(Arc::new(Classified(Some(true)))), json!(0), false),
        (Reducer::Custom(Arc::new(Classified(None))), json!(0), false),
    ] {
        let name = format!("{reducer:?}");
        let projection = Projection::by_name().projects_in(["f"]).projects_out(["f"]);
        assert_eq!(!warned(reducer, default, projection).is_empty(), warns, "{name}");
    }
}
