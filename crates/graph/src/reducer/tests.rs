//! Each canonical reducer, as the specification's prose says (graph-engine §2).

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{KeyExtractor, Reducer};
use crate::FieldContent;

fn reduce(reducer: &Reducer, prior: Value, update: Value) -> Result<Value, String> {
    let merged = reducer.reduce_update(&FieldContent::from_json(prior), FieldContent::from_json(update));
    merged.map(|it| it.to_json().unwrap()).map_err(|it| it.message)
}

#[track_caller]
fn check(reducer: &Reducer, cases: &[(Value, Value, Value)]) {
    for (prior, update, expected) in cases {
        let merged = reduce(reducer, prior.clone(), update.clone());
        assert_eq!(merged.as_ref(), Ok(expected), "{reducer:?}: {prior} with {update}");
    }
}

#[track_caller]
fn refuse(reducer: &Reducer, cases: &[(Value, Value, &str)]) {
    for (prior, update, why) in cases {
        let message = reduce(reducer, prior.clone(), update.clone()).unwrap_err();
        assert!(message.contains(why), "{reducer:?}: {prior} with {update}: {message}");
    }
}

// spec: graph-engine §2
#[test]
fn last_write_wins_replaces_whatever_was_there() {
    check(
        &Reducer::LastWriteWins,
        &[(json!(1), json!("x"), json!("x")), (json!([1]), json!(null), json!(null))],
    );
}

// spec: graph-engine §2
#[test]
fn append_adds_at_the_end_and_wants_lists() {
    check(
        &Reducer::Append,
        &[(json!([1]), json!([2, [3]]), json!([1, 2, [3]])), (json!([1]), json!([]), json!([1]))],
    );
    refuse(
        &Reducer::Append,
        &[(json!([1]), json!(2), "update is not a list"), (json!(1), json!([2]), "prior is not")],
    );
}

// spec: graph-engine §2
#[test]
fn merge_is_shallow_and_wants_maps() {
    check(
        &Reducer::Merge,
        &[(json!({"a": {"x": 1}, "b": 1}), json!({"a": {"y": 2}}), json!({"a": {"y": 2}, "b": 1}))],
    );
    refuse(
        &Reducer::Merge,
        &[(json!({}), json!([]), "not a map"), (json!(1), json!({}), "prior is not a map")],
    );
}

// spec: graph-engine §2
#[test]
fn concat_flatten_flattens_one_level_and_never_guesses() {
    let reducer = Reducer::ConcatFlatten;
    check(
        &reducer,
        &[
            (json!([1]), json!([[2], [], [3, [4]]]), json!([1, 2, 3, [4]])),
            (json!([1]), json!([]), json!([1])),
        ],
    );
    refuse(
        &reducer,
        &[(json!([]), json!([[1], 2]), "not a list but a whole number (2)"), (json!([]), json!(1), "list")],
    );
}

// spec: graph-engine §2
#[test]
fn merge_all_folds_maps_and_never_guesses() {
    let reducer = Reducer::MergeAll;
    check(
        &reducer,
        &[
            (json!({"k": 0, "z": 9}), json!([{"k": 1}, {}, {"k": 2}]), json!({"k": 2, "z": 9})),
            (json!({"k": 0}), json!([]), json!({"k": 0})),
        ],
    );
    refuse(
        &reducer,
        &[(json!({}), json!({"k": 1}), "update is not a list"), (json!({}), json!([1]), "not a map")],
    );
}

// spec: graph-engine §2
#[test]
fn bounded_append_drops_from_the_front_and_leaves_an_untouched_prior_alone() {
    check(
        &Reducer::BoundedAppend(3),
        &[
            (json!([1, 2]), json!([3, 4]), json!([2, 3, 4])),
            (json!([1]), json!([2, 3, 4, 5]), json!([3, 4, 5])),
            (json!([1, 2, 3, 4, 5]), json!([]), json!([1, 2, 3, 4, 5])),
        ],
    );
    assert!(Reducer::BoundedAppend(0).configuration_problem().is_some());
    assert!(Reducer::BoundedAppend(-1).configuration_problem().is_some());
    assert!(Reducer::BoundedAppend(1).configuration_problem().is_none());
}

// spec: graph-engine §2
#[test]
fn dedupe_append_keeps_the_first_and_never_touches_the_prior() {
    check(
        &Reducer::DedupeAppend(None),
        &[
            (json!([1, 1, 2]), json!([2, 3, 3]), json!([1, 1, 2, 3])),
            (json!([1]), json!([1.0, true, "1"]), json!([1, true, "1"])),
        ],
    );
    let by_id = Reducer::DedupeAppend(Some(KeyExtractor::field("id")));
    check(
        &by_id,
        &[(
            json!([{"id": 1, "v": "a"}]),
            json!([{"id": 1, "v": "b"}, {"id": 2}]),
            json!([{"id": 1, "v": "a"}, {"id": 2}]),
        )],
    );
    refuse(&by_id, &[(json!([]), json!([{"x": 1}]), "no field 'id'")]);
    refuse(&Reducer::DedupeAppend(None), &[(json!([]), json!([[1]]), "not hashable")]);
}

// spec: graph-engine §2
#[test]
fn merge_by_key_replaces_the_last_of_equal_keys_in_place() {
    let by_id = Reducer::MergeByKey(Some(KeyExtractor::field("id")));
    check(
        &by_id,
        &[
            (
                json!([{"id": 1, "v": "a"}, {"id": 1, "v": "b"}, {"id": 2}]),
                json!([{"id": 1, "v": "c"}, {"id": 3, "v": 1}, {"id": 3, "v": 2}]),
                json!([{"id": 1, "v": "a"}, {"id": 1, "v": "c"}, {"id": 2}, {"id": 3, "v": 2}]),
            ),
            (json!([{"id": 1}, {"id": 1}]), json!([]), json!([{"id": 1}, {"id": 1}])),
        ],
    );
    refuse(&by_id, &[(json!([]), json!([{"id": {}}]), "not hashable")]);
    assert!(Reducer::MergeByKey(None).configuration_problem().is_some());
}

proptest! {
    // spec: graph-engine §2: re-applying a merged value is a no-op exactly for the reducers called idempotent.
    #[test]
    fn round_trips_change_nothing_where_the_reducer_says_so(
        prior in prop::collection::vec(0i64..20, 0..8),
        update in prop::collection::vec(0i64..20, 1..8),
    ) {
        let records = |it: &[i64]| json!(it.iter().map(|id| json!({"id": id})).collect::<Vec<_>>());
        for (reducer, prior, update) in [
            (Reducer::LastWriteWins, json!(prior), json!(update)),
            (Reducer::DedupeAppend(None), json!(prior), json!(update)),
            (Reducer::MergeByKey(Some(KeyExtractor::field("id"))), records(&prior), records(&update)),
        ] {
            prop_assert!(!reducer.breaks_round_trip());
            let once = reduce(&reducer, prior, update).unwrap();
            prop_assert_eq!(reduce(&reducer, once.clone(), once.clone()).unwrap(), once);
        }
    }

    // spec: graph-engine §2: concat_flatten of lists is append of their concatenation; merge_all is repeated merge.
    #[test]
    fn the_folding_reducers_are_their_simple_forms_repeated(
        prior in prop::collection::vec(0i64..5, 0..5),
        parts in prop::collection::vec(prop::collection::vec(0i64..5, 0..4), 0..5),
    ) {
        let flat: Vec<i64> = parts.concat();
        prop_assert_eq!(
            reduce(&Reducer::ConcatFlatten, json!(prior), json!(parts)),
            reduce(&Reducer::Append, json!(prior), json!(flat)),
        );
        let maps: Vec<Value> = parts.iter().map(|it| it.iter().map(|k| (k.to_string(), json!(it.len()))).collect()).collect();
        let mut folded = json!({});
        for map in &maps {
            folded = reduce(&Reducer::Merge, folded, map.clone()).unwrap();
        }
        prop_assert_eq!(reduce(&Reducer::MergeAll, json!({}), json!(maps)).unwrap(), folded);
    }
}
