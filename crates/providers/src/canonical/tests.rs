//! Equality of values, and values that are read again as they were written.

use proptest::prelude::*;
use serde_json::json;

use super::*;

// spec: llm-provider §6, managed-field collision
#[test]
fn values_are_equal_by_what_they_mean() {
    let same = [
        (json!(1), json!(1.0)),
        (json!(-0.0), json!(0)),
        (json!({ "a": 1, "b": [2.0] }), json!({ "b": [2], "a": 1.0 })),
        (json!(9_007_199_254_740_992_u64), json!(9_007_199_254_740_992.0)),
    ];
    for (one, two) in same {
        assert!(values_equal(&one, &two) && values_equal(&two, &one), "{one} {two}");
    }
    let other = [
        (json!(1), json!("1")),
        (json!(1), json!(true)),
        (json!(0), json!(null)),
        (json!([1, 2]), json!([2, 1])),
        (json!([1]), json!([1, 1])),
        (json!({ "a": null }), json!({})),
        (json!({ "a": 1 }), json!({ "b": 1 })),
        (json!(0.7), json!(0.2)),
        (json!(9_007_199_254_740_993_u64), json!(9_007_199_254_740_992.0)),
        (json!(u64::MAX), json!(-1)),
    ];
    for (one, two) in other {
        assert!(!values_equal(&one, &two) && !values_equal(&two, &one), "{one} {two}");
    }
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".*".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(".*", inner, 0..6).prop_map(|it| it.into_iter().collect()),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_written_reads_as_the_same_value(value in value()) {
        let read: Value = serde_json::from_str(&canonical_json(&value)).unwrap();
        prop_assert!(values_equal(&read, &value), "{} {}", read, value);
        prop_assert_eq!(canonical_json(&read), canonical_json(&value));
    }
}
