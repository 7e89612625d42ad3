//! The rule of extras, case by case.

use serde_json::json;

use super::*;

const RULES: &[(&str, ExtraFieldRule)] = &[
    ("model", ExtraFieldRule::Always),
    ("tools", ExtraFieldRule::Always),
    ("stream", ExtraFieldRule::Switch(false)),
    ("stop", ExtraFieldRule::Merge { scalar: true }),
    ("stops", ExtraFieldRule::Merge { scalar: false }),
];

/// Applies one extra to a body; `None` is a conflict.
fn check(body: Value, extra: (&str, Value), expected: Option<Value>) {
    let place = format!("{body} with {} {}", extra.0, extra.1);
    let Value::Object(mut body) = body else { panic!("{place}") };
    let extras = Map::from_iter([(extra.0.to_owned(), extra.1)]);
    let applied = apply_extras(&mut body, &extras, RULES);
    match expected {
        Some(expected) => {
            applied.unwrap();
            assert_eq!(Value::Object(body), expected, "{place}");
        }
        None => {
            let error = applied.unwrap_err();
            assert_eq!(error.category(), "provider_invalid_request", "{place}");
            assert!(error.to_string().contains(extra.0), "{error}");
        }
    }
}

// spec: llm-provider §6, extras pass-through; fixture 054
#[test]
fn what_is_not_managed_is_passed_on_untouched() {
    for value in [json!(1.05), json!(null), json!({ "b": [1, { "c": null }] }), json!("text")] {
        check(json!({}), ("a", value.clone()), Some(json!({ "a": value })));
    }
}

// spec: llm-provider §6; fixtures 072, 073, 075
#[test]
fn a_field_is_managed_while_it_is_there() {
    check(json!({ "t": 0.7 }), ("t", json!(0.7)), Some(json!({ "t": 0.7 })));
    check(json!({ "t": 1 }), ("t", json!(1.0)), Some(json!({ "t": 1 })));
    check(
        json!({ "t": { "a": 1, "b": [1, 2] } }),
        ("t", json!({ "b": [1.0, 2], "a": 1 })),
        Some(json!({ "t": { "a": 1, "b": [1, 2] } })),
    );
    check(json!({ "t": { "b": [1, 2] } }), ("t", json!({ "b": [2, 1] })), None);
    check(json!({ "t": 0.7 }), ("t", json!(0.2)), None);
    check(json!({ "t": 0.7 }), ("t", json!(null)), None);
}

// spec: llm-provider §8.1.1; fixture 074
#[test]
fn a_structural_field_is_managed_always() {
    check(json!({ "model": "m" }), ("model", json!("m")), Some(json!({ "model": "m" })));
    check(json!({ "model": "m" }), ("model", json!("other")), None);
    for value in [json!([]), json!(null), json!([{}])] {
        check(json!({}), ("tools", value), None);
    }
}

// spec: llm-provider §8.1.6; fixture 077
#[test]
fn a_switch_that_is_left_out_stands_for_its_value() {
    check(json!({}), ("stream", json!(false)), Some(json!({})));
    check(json!({}), ("stream", json!(true)), None);
    check(json!({}), ("stream", json!(null)), None);
    check(json!({ "stream": true }), ("stream", json!(true)), Some(json!({ "stream": true })));
    check(json!({ "stream": true }), ("stream", json!(false)), None);
}

// spec: llm-provider §6, §8.1.1; fixtures 076, 079, 081
#[test]
fn lists_are_merged_and_what_cannot_be_merged_is_absent() {
    let stop = |expected: Value| Some(json!({ "stop": expected }));
    for (extra, expected) in [
        (json!(["END"]), json!(["STOP", "END"])),
        (json!(["STOP"]), json!(["STOP"])),
        (json!(["END", "STOP", "END", "A"]), json!(["STOP", "END", "A"])),
        (json!([]), json!(["STOP"])),
        (json!("END"), json!(["STOP", "END"])),
        (json!(["END", 123]), json!(["STOP"])),
        (json!(5), json!(["STOP"])),
        (json!(null), json!(["STOP"])),
    ] {
        check(json!({ "stop": ["STOP"] }), ("stop", extra), stop(expected));
    }
    check(json!({ "stops": ["STOP"] }), ("stops", json!("END")), Some(json!({ "stops": ["STOP"] })));
    // The declared field is not set: a raw value rides along.
    check(json!({}), ("stop", json!(5)), stop(json!(5)));
}

#[test]
fn the_diagnostic_does_not_repeat_the_value() {
    let mut body = Map::from_iter([("model".to_owned(), json!("m"))]);
    let extras = Map::from_iter([("model".to_owned(), json!("sk-planted"))]);
    assert!(!apply_extras(&mut body, &extras, RULES).unwrap_err().to_string().contains("sk-planted"));
}
